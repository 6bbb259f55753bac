"""Makes every decision of a journal again from its inputs and compares the two byte by byte."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalancer.domain.codec import digest, to_bytes
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.obs import journal
from rebalancer.obs.journal_reading import JournalRead, RecordedTurn, turns_in
from rebalancer.planning import Memo, plan_apart


@dataclass(frozen=True, slots=True)
class Difference:
    """One cycle that this version decides differently.

    line: line of its file, from 1.
    cycle: number of the cycle.
    what: `plan` or `memory`, whichever differs.
    recorded: the plan as recorded, or the digest of its memory.
    replayed: the same as made again.
    """

    line: int
    cycle: int
    what: str
    recorded: str
    replayed: str


@dataclass(slots=True)
class Replay:
    """The result of a replay.

    cycles: number of cycles made again.
    skipped: number of cycles before the first keyframe, which cannot be made again.
    changes: number of changes in the plans made again.
    refusals: number of refusals in the plans made again.
    other_code: digest of the source that recorded the journal where it is another than this one's, else None.
    differences: the cycles that differ, in order.
    damaged: sentences about what could not be read.
    """

    cycles: int = 0
    skipped: int = 0
    changes: int = 0
    refusals: int = 0
    other_code: str | None = None
    differences: list[Difference] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def replay(lines: Iterable[bytes], policy: Policy | None = None) -> Replay:
    """Re-run the cycles of a whole journal. `policy` replaces the recorded ones (then differences are the point).

    Raises ValueError naming the line when it is not a journal's.
    """
    tally = JournalRead()
    result = again(turns_in(lines, tally), tally, policy)
    if result.damaged:
        raise ValueError(result.damaged[0])
    return result


def again(turns: Iterable[RecordedTurn], tally: JournalRead, policy: Policy | None = None) -> Replay:
    """Re-run these cycles; `tally` is what their reader counts, and damage is told."""
    result = Replay()
    memory, memo = Memory(), Memo()
    for turn in turns:
        decision = plan_apart(
            turn.snapshot, policy or turn.policy, memory if turn.memory is None else turn.memory, memo
        )
        memory = decision.memory
        compare(turn, decision, result)
    result.skipped, result.damaged = tally.skipped, tally.damaged
    result.other_code = tally.code if tally.code not in {"", journal.code_digest()} else None
    return result


def compare(turn: RecordedTurn, decision: Decision, result: Replay) -> None:
    """Count a decision made again, and note where it is not the recorded one."""
    result.cycles += 1
    result.changes += len(decision.plan.changes) + len(decision.plan.node_pools) + len(decision.plan.drains)
    result.refusals += len(decision.plan.refusals)
    again, memory = to_bytes(decision.plan), digest(decision.memory)
    cycle = turn.snapshot.cycle
    if again != turn.plan:
        result.differences.append(Difference(turn.line, cycle, "plan", turn.plan.decode(), again.decode()))
    elif memory != turn.memory_digest:
        result.differences.append(Difference(turn.line, cycle, "memory", turn.memory_digest, memory))
