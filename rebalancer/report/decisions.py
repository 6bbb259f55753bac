"""Every recorded decision beside the one that another policy makes of the same situation. Open loop.

What the other policy decides moves nothing: the next situation is the recorded one. So a move that it asks for again
and again, because nobody makes it, counts once, when it appears.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from rebalancer.domain.codec import from_bytes
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.obs import journal
from rebalancer.obs.journal_reading import JournalRead, RecordedTurn
from rebalancer.planning import Memo, plan_apart
from rebalancer.report.fitting import PolicyFit, fit

EXAMPLES = 5
Move = tuple[str, str]  # whose number (a model's on a pool, a NodePool's, a node's), to what


class ChangedDecision(Struct, frozen=True):
    """One cycle that the other policy decides otherwise.

    at: when it was, in epoch seconds.
    cycle: its number.
    before: moves that appear under the recorded policy, as `chat 3 -> 4`.
    after: moves that appear under the other policy.
    """

    at: float
    cycle: int
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(slots=True)
class ChangedDecisions:
    """What the other policy decides otherwise.

    cycles: recorded cycles that were decided again.
    otherwise: those of them in which other moves appear.
    moves_before: moves of the recorded policy, each counted when it appears.
    moves_after: moves of the other policy.
    by_model: by model of the other policy, its moves under the recorded policy and under the other.
    examples: the first cycles that differ.
    notes: what the policies do not have in common, as sentences.
    """

    cycles: int = 0
    otherwise: int = 0
    moves_before: int = 0
    moves_after: int = 0
    by_model: dict[str, tuple[int, int]] = field(default_factory=dict)
    examples: list[ChangedDecision] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def decided(turns: Iterable[RecordedTurn], tally: JournalRead, other: Policy) -> ChangedDecisions:
    """Decide every recorded cycle by `other`, and compare. Where other code recorded it, by the recorded policy too."""
    into, code = ChangedDecisions(), journal.code_digest()
    before, after = _Side(), _Side()
    recorded_by, fitted = None, None
    for turn in turns:
        if turn.policy is not recorded_by or fitted is None:
            recorded_by, fitted = turn.policy, fit(turn.policy, other)
            into.notes += [note for note in fitted.notes if note not in into.notes]
        was = from_bytes(turn.plan, Plan) if tally.code == code else before.decide(turn, None)
        now = after.decide(turn, fitted)
        into.cycles += 1
        _count(into, turn, before.appeared(was, fitted), after.appeared(now, None))
    return into


class _Side:
    """One policy's way through the journal."""

    def __init__(self) -> None:
        self._memory, self._memo = Memory(), Memo()
        self._moves: dict[Move, str] = {}

    def decide(self, turn: RecordedTurn, fitted: PolicyFit | None) -> Plan:
        """The plan of this policy for the recorded turn, with the memory of a keyframe, else with its own."""
        snapshot, policy, memory = turn.snapshot, turn.policy, turn.memory
        if fitted is not None:
            snapshot, policy = fitted.snapshot(snapshot), fitted.policy
            memory = None if memory is None else fitted.memory(memory)
        decision = plan_apart(snapshot, policy, self._memory if memory is None else memory, self._memo)
        self._memory = decision.memory
        return decision.plan

    def appeared(self, of: Plan, fitted: PolicyFit | None) -> dict[Move, str]:
        """Moves that the plan before did not ask for, each as `chat 3 -> 4`."""
        moves, self._moves = self._moves, _moves(of, fitted)
        return {move: text for move, text in self._moves.items() if move not in moves}


def _moves(of: Plan, fitted: PolicyFit | None) -> dict[Move, str]:
    return {(whose, what): text for whose, what, text in _move_rows(of, fitted)}


def _move_rows(of: Plan, fitted: PolicyFit | None) -> Iterator[tuple[str, str, str]]:
    for change in of.changes:
        name = change.model if fitted is None else fitted.names.get(change.model, change.model)
        moves = f"{change.replicas_from} -> {change.replicas_to}"
        if change.replicas_from == change.replicas_to:
            moves = f"{change.minimum} to {change.replicas_to}"  # bounds
        yield f"{name}/{change.target.pool}", f"{change.minimum}-{change.replicas_to}", f"{name} {moves}"
    for one in of.node_pools:
        yield f"/{one.name}", f"{one.kind} {one.limit_to}", f"nodepool/{one.name} {one.kind}"
    for drain in of.drains:
        yield f"/{drain.node}/{drain.pod}", drain.kind, f"{drain.pod or drain.node} {drain.kind}"


def _count(into: ChangedDecisions, turn: RecordedTurn, before: dict[Move, str], after: dict[Move, str]) -> None:
    into.moves_before += len(before)
    into.moves_after += len(after)
    for column, moves in enumerate((before, after)):
        for name, count in Counter(whose.partition("/")[0] for whose, _ in moves).items():
            if name:
                had = into.by_model.get(name, (0, 0))
                into.by_model[name] = (had[0] + count, had[1]) if column == 0 else (had[0], had[1] + count)
    if before.keys() == after.keys():
        return
    into.otherwise += 1
    if len(into.examples) < EXAMPLES:
        texts = tuple(before.values()), tuple(after.values())
        into.examples.append(ChangedDecision(turn.snapshot.at, turn.snapshot.cycle, *texts))
