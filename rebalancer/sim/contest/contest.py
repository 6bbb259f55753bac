"""The same traffic under one or two contenders: what each comes to, and whether their difference counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.sim.contest.contenders import play_entry
from rebalancer.sim.contest.outcome import ContestRun, Paid, RunOutcome, SimulatedMove, outcome
from rebalancer.sim.contest.telling import OutcomeDifference
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.score import violations_by_block
from rebalancer.sim.suite.intervals import paired_interval
from rebalancer.sim.suite.names import Entry, Ours


@dataclass(frozen=True, slots=True)
class Side:
    """One contender of a contest: who decides, on which scenario, under which policy.

    who: the service itself, or a peer with its setting.
    scenario: the traffic and the GPUs that are played.
    policy: the policy of the run, which names the scenario's models in its order; of a peer's run it only says what
        each model owns.
    called: name of the run; None: the name of who plays, for a tuned peer with the setting that was found best.
    slots: requests that a full replica has in hand, by model name, as the service's metrics show them; a model that is
        not named has the `recorded_slots` of its scenario. Peers do not use them.
    paid: what owned and rented GPUs cost; None: GPUs cost what the scenario says while they are held.
    """

    who: Ours | Entry
    scenario: Scenario
    policy: Policy
    called: str | None = None
    slots: Mapping[str, float] = field(default_factory=dict)
    paid: Paid | None = None


class Result(Struct, frozen=True):
    """What `rebalancer simulate` gives a script.

    trace: name of the traffic that was played.
    seconds: how long the traffic was played, in seconds.
    seed: seed of what the service's run and the interval of `difference` draw at random.
    runs: what each side comes to, in the order in which the sides were named.
    difference: how much more the second run violates than the first, None where there is one run only.
    """

    trace: str
    seconds: int
    seed: int
    runs: tuple[RunOutcome, ...]
    difference: OutcomeDifference | None


Tell = Callable[[str, float], None]  # a run's name, the share of it that is done


def contest(
    trace: str, sides: Sequence[Side], tell: Tell, *, metrics_delay_seconds: int | None = None, seed: int = 0
) -> tuple[Result, tuple[ContestRun, ...]]:
    """Play one side or two of the same traffic; `trace`: what it is called.

    `metrics_delay_seconds` None: as in the benchmarks, where peers see at once and the service as `METRICS` says.
    """
    runs = []
    for side in sides:
        called = side.called or side.who.name

        def tell_share(share: float, called: str = called) -> None:
            tell(called, share)

        moves: list[SimulatedMove] = []
        record = _played(side, metrics_delay_seconds, seed, tell_share, moves)
        owned = [model.entitlement for model in side.policy.models]
        runs.append(
            ContestRun(record, outcome(record, side.called or record.controller, owned, side.paid), owned, moves)
        )
    outcomes = tuple(run.outcome for run in runs)
    result = Result(trace, sides[0].scenario.seconds, seed, outcomes, _difference(runs, seed))
    return result, tuple(runs)


def told_last(sides: Sequence[Side]) -> bool:
    """Whether people read the second run first: the service is told against a peer, whichever was named first."""
    return len(sides) == 2 and isinstance(sides[0].who, Ours) and not isinstance(sides[1].who, Ours)  # noqa: PLR2004  two are compared


def _played(
    side: Side, metrics_delay_seconds: int | None, seed: int, tell: Callable[[float], None], moves: list[SimulatedMove]
) -> Record:
    if isinstance(side.who, Entry):
        return play_entry(side.who, side.scenario, metrics_delay_seconds or 0, tell)
    from rebalancer.sim.contest.ours import play_ours  # noqa: PLC0415  # Kubernetes' client, a second: peers do without
    from rebalancer.sim.product.run import METRICS, RunMetrics  # noqa: PLC0415  # the same
    from rebalancer.sim.product.stage import STARTED_AT  # noqa: PLC0415  # the same

    metrics = METRICS if metrics_delay_seconds is None else RunMetrics(lag_seconds=metrics_delay_seconds)

    def keep(plan: Plan) -> None:
        moves.extend(SimulatedMove(plan.at - STARTED_AT, f"{change}") for change in plan.changes)

    return play_ours(side.who, side.scenario, side.policy, metrics, side.slots, seed, tell, keep)


def _difference(runs: Sequence[ContestRun], seed: int) -> OutcomeDifference | None:
    if len(runs) == 1:
        return None
    first, second = runs
    blocks = [violations_by_block(run.record) for run in runs]
    mean, low, high = paired_interval(blocks[1], blocks[0], seed)
    if len(blocks[0]) < 2:  # noqa: PLR2004  one block has nothing to be drawn against
        return OutcomeDifference(first.outcome.name, second.outcome.name, mean, None, None, None)
    return OutcomeDifference(first.outcome.name, second.outcome.name, mean, low, high, not low <= 0.0 <= high)
