"""One trace, one or two contenders: what each comes to, and whether their difference counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from rebalancer.domain.policy import Policy
from rebalancer.sim.contenders import Entry, Ours, play_entry
from rebalancer.sim.outcome import Outcome, Run, outcome
from rebalancer.sim.record import Record
from rebalancer.sim.recorded import Terms, one_pool, scenario_of
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.score import violations_by_block
from rebalancer.sim.suite.intervals import paired_interval
from rebalancer.sim.telling import Difference


@dataclass(frozen=True, slots=True)
class Side:
    """Who plays, under which policy (its pools' limits as they are to be played), and what the run is called.

    `called` None: by who plays, a tuned peer by what was found.
    """

    who: Ours | Entry
    policy: Policy
    called: str | None = None


class Result(Struct, frozen=True):
    """What `rebalancer simulate` gives a script."""

    trace: str
    seconds: int
    seed: int
    runs: tuple[Outcome, ...]
    difference: Difference | None


Tell = Callable[[str, float], None]  # a run's name, the share of it that is done


def contest(sides: Sequence[Side], terms: Terms, tell: Tell) -> tuple[Result, tuple[Run, ...]]:
    """Play one side or two. Raises Unfit before anything is played."""
    scenarios = [scenario_of(one_pool(side.policy), terms) for side in sides]
    runs = []
    for side, scenario in zip(sides, scenarios, strict=True):
        called = side.called or side.who.name

        def told(share: float, called: str = called) -> None:
            tell(called, share)

        policy = one_pool(side.policy)
        record = _played(side.who, scenario, policy, terms, told)
        owned = [model.entitlement for model in policy.models]
        runs.append(Run(record, outcome(record, side.called or record.controller, owned), owned))
    outcomes = tuple(run.outcome for run in runs)
    result = Result(terms.demand.name, terms.demand.seconds, terms.seed, outcomes, _difference(runs, terms.seed))
    return result, tuple(runs)


def _played(
    who: Ours | Entry, scenario: Scenario, policy: Policy, terms: Terms, tell: Callable[[float], None]
) -> Record:
    if isinstance(who, Entry):
        return play_entry(who, scenario, terms.metrics_delay_seconds, tell)
    from rebalancer.sim.ours import play_ours  # noqa: PLC0415  # Kubernetes' client, a second: peers do without

    return play_ours(who, scenario, policy, terms, tell)


def _difference(runs: Sequence[Run], seed: int) -> Difference | None:
    if len(runs) == 1:
        return None
    first, second = runs
    blocks = [violations_by_block(run.record) for run in runs]
    mean, low, high = paired_interval(blocks[1], blocks[0], seed)
    if len(blocks[0]) < 2:  # noqa: PLR2004  one block has nothing to be drawn against
        return Difference(first.outcome.name, second.outcome.name, mean, None, None, None)
    return Difference(first.outcome.name, second.outcome.name, mean, low, high, not low <= 0.0 <= high)
