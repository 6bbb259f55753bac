"""Which guards a person's decision passes: what would decline the same move if nobody had decided it."""

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Change
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning.guards.guards import GUARDS
from rebalancer.planning.guards.release import PASSES, Purpose, Release, Tally
from rebalancer.planning.planner import weigh


def passed_guards(snapshot: Snapshot, policy: Policy, memory: Memory, change: Change) -> tuple[str, ...]:
    """Names, in the guards' order, of those that would decline this release; none for a raise."""
    world = weigh(snapshot, policy, memory).scene
    model = world.models[change.model]
    target = next(each for each in model.targets if each.pool == change.target.pool)
    pods = {pod.uid: pod for pod in target.view.pods}
    tally = Tally.of(world)
    declining: set[str] = set()
    for victim in change.victims:
        release = Release(world, tally, target, Purpose.SURPLUS, pods.get(victim))
        for name in PASSES[Purpose.OVERRIDE] - PASSES[Purpose.SURPLUS]:
            if GUARDS[name](release) is not None:
                declining.add(name)
        tally.book(release)
    return tuple(name for name in GUARDS if name in declining)
