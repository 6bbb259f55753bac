"""Joint plans over a world that moves on between them: of models that vote, and of a fleet with outlooks."""

import gc
from collections.abc import Iterator
from functools import partial

from rebalancer.app.process import quiet_collector
from rebalancer.domain.memory import Memory
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning import Memo, plan
from tests.bench.fleet import Fleet
from tests.bench.scale import Scale, moved_on
from tests.bench.timing import Times, measure, where_it_goes

CHANGED = 0.2  # share of the models whose readings differ from one plan to the next


def plan_times(scale: Scale, runs: int) -> tuple[Times, list[str]]:
    """Times of `plan`, and where a profile puts them."""
    policy = scale.policy()
    snapshots = _moving(scale.snapshot(policy), runs + 3)
    turning = _Turning(policy)
    gc.collect()
    quiet_collector()  # as the service does
    times = measure(lambda _: turning.turn(next(snapshots)), runs)
    last = next(snapshots)
    return times, where_it_goes(lambda: turning.turn(last))


def _moving(snapshot: Snapshot, turns: int) -> Iterator[Snapshot]:
    made = []
    for turn in range(turns):
        snapshot = moved_on(snapshot, CHANGED, turn)
        made.append(snapshot)
    return iter(made)


class _Turning:
    """Memory goes from plan to plan."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._memory, self._kept = Memory(), Memo()

    def turn(self, snapshot: Snapshot) -> None:
        """One plan."""
        self._memory = plan(snapshot, self._policy, self._memory, self._kept).memory


FLEET_CHANGES = {"still": 0.0, "5 % changed": 0.05}  # shares of the outlooks that are new in a plan


def fleet_times(fleet: Fleet, runs: int) -> dict[str, Times]:
    """Times of a plan in which nothing changed, in which some outlooks did, and of the `first`, by those names."""
    world = fleet.world()
    found = {"first": measure(lambda _: world.turn(), 1, warm_up=0)}
    world.go_on(0.0, 0)
    world.settle()
    gc.collect()
    quiet_collector()
    for name, share in FLEET_CHANGES.items():
        found[name] = measure(lambda _: world.turn(), runs, between=partial(world.go_on, share))
    return found
