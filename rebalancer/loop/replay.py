"""Replay: re-make every decision of a journal from its inputs and compare byte by byte."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from rebalancer.domain.codec import digest, to_bytes
from rebalancer.domain.memory import Memory
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs import journal
from rebalancer.planning import plan


@dataclass(frozen=True, slots=True)
class Difference:
    """One cycle that decides differently now: journal line, cycle, what differs (`plan` or `memory`), and both."""

    line: int
    cycle: int
    what: str
    recorded: str
    replayed: str


@dataclass(slots=True)
class Replay:
    """What a replay found. `skipped`: cycles before the first keyframe; `other_code`: recorded by other source."""

    cycles: int = 0
    skipped: int = 0
    changes: int = 0
    refusals: int = 0
    other_code: str | None = None
    differences: list[Difference] = field(default_factory=list)


@dataclass(slots=True)
class _Position:
    """Where the replay stands: the state that the next cycle's delta applies to."""

    policy: Policy | None = None
    snapshot: Snapshot = journal.EMPTY
    memory: Memory | None = None
    parts_left: int = 0


def replay(lines: Iterable[bytes], policy: Policy | None = None) -> Replay:
    """Re-run the cycles of a journal. `policy` replaces the recorded ones (then differences are the point).

    Raises ValueError naming the line when it is not a journal's.
    """
    found = Replay()
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
                _cycle(at, number, line, found)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        message = f"line {number + 1} is not a journal's: {error}"
        raise ValueError(message) from error
    return found


def _frame(at: _Position, line: journal.FrameLine) -> None:
    if line.part == 0:
        at.snapshot = journal.EMPTY
        at.parts_left = line.parts
        at.memory = line.memory
    at.snapshot = journal.apply(at.snapshot, line.delta)
    at.parts_left -= 1


def _cycle(at: _Position, number: int, line: journal.CycleLine, found: Replay) -> None:
    if at.memory is None or at.policy is None or at.parts_left != 0:
        found.skipped += 1
        return
    at.snapshot = journal.apply(at.snapshot, line.delta)
    decision = plan(at.snapshot, at.policy, at.memory)
    at.memory = decision.memory
    found.cycles += 1
    found.changes += len(decision.plan.changes) + len(decision.plan.node_pools)
    found.refusals += len(decision.plan.refusals)
    again = to_bytes(decision.plan)
    if again != bytes(line.plan):
        found.differences.append(
            Difference(number, at.snapshot.cycle, "plan", bytes(line.plan).decode(), again.decode())
        )
    elif digest(decision.memory) != line.memory:
        found.differences.append(Difference(number, at.snapshot.cycle, "memory", line.memory, digest(decision.memory)))
