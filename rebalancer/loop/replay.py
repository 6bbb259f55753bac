"""Makes every decision of a journal again from its inputs and compares the two byte by byte."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from rebalancer.domain.codec import digest, to_bytes
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs import journal
from rebalancer.planning import Memo, plan


@dataclass(frozen=True, slots=True)
class Difference:
    """One cycle that this version decides differently.

    line: line of the journal, from 1.
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
    """

    cycles: int = 0
    skipped: int = 0
    changes: int = 0
    refusals: int = 0
    other_code: str | None = None
    differences: list[Difference] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Turn:
    """One recorded cycle: its inputs, and its decision.

    line: line of the journal, from 1.
    snapshot: its snapshot.
    policy: its policy.
    memory: its memory where a keyframe has it; None: the cycle before left it.
    plan: the recorded plan as bytes.
    memory_digest: digest of the recorded memory after it.
    """

    line: int
    snapshot: Snapshot
    policy: Policy
    memory: Memory | None
    plan: bytes
    memory_digest: str


@dataclass(slots=True)
class _Position:
    """The reader's place in a journal: the state to which the next cycle's delta applies.

    policy: the policy in force, None before the first.
    snapshot: the last cycle's snapshot.
    memory: memory from a keyframe that the next cycle begins with, None where it goes on from the cycle before.
    parts_left: parts of a keyframe that are still to come.
    begun: whether a whole keyframe has been read.
    """

    policy: Policy | None = None
    snapshot: Snapshot = journal.EMPTY
    memory: Memory | None = None
    parts_left: int = 0
    begun: bool = False


def replay(lines: Iterable[bytes], policy: Policy | None = None) -> Replay:
    """Re-run the cycles of a journal. `policy` replaces the recorded ones (then differences are the point).

    Raises ValueError naming the line when it is not a journal's.
    """
    found = Replay()
    memory, kept = Memory(), Memo()
    for turn in turns(lines, found, policy):
        decision = plan(turn.snapshot, turn.policy, memory if turn.memory is None else turn.memory, kept)
        memory = decision.memory
        compare(turn, decision, found)
    return found


def turns(lines: Iterable[bytes], found: Replay, policy: Policy | None = None) -> Iterator[Turn]:
    """The cycles of a journal that can be re-run; `found` hears of those that cannot. Raises ValueError as `replay`."""
    at = _Position()
    code = journal.code_digest()
    number = 0
    try:
        for number, line in journal.decode_lines(lines):
            if isinstance(line, journal.PolicyLine):
                at.policy = policy or Policy.model_validate(line.policy, strict=False)
                if line.code != code:
                    found.other_code = line.code
            elif isinstance(line, journal.FrameLine):
                _frame(at, line)
            elif isinstance(line, journal.CycleLine):
                if not at.begun or at.policy is None or at.parts_left != 0:
                    found.skipped += 1
                    continue
                at.snapshot = journal.apply(at.snapshot, line.delta)
                memory, at.memory = at.memory, None
                yield Turn(number, at.snapshot, at.policy, memory, bytes(line.plan), line.memory)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        message = f"line {number + 1} is not a journal's: {error}"
        raise ValueError(message) from error


def _frame(at: _Position, line: journal.FrameLine) -> None:
    if line.part == 0:
        at.snapshot = journal.EMPTY
        at.parts_left = line.parts
        at.memory, at.begun = line.memory, line.memory is not None
    at.snapshot = journal.apply(at.snapshot, line.delta)
    at.parts_left -= 1


def compare(turn: Turn, decision: Decision, found: Replay) -> None:
    """Count a decision made again, and note where it is not the recorded one."""
    found.cycles += 1
    found.changes += len(decision.plan.changes) + len(decision.plan.node_pools) + len(decision.plan.drains)
    found.refusals += len(decision.plan.refusals)
    again, memory = to_bytes(decision.plan), digest(decision.memory)
    cycle = turn.snapshot.cycle
    if again != turn.plan:
        found.differences.append(Difference(turn.line, cycle, "plan", turn.plan.decode(), again.decode()))
    elif memory != turn.memory_digest:
        found.differences.append(Difference(turn.line, cycle, "memory", turn.memory_digest, memory))
