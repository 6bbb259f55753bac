"""Which guards a person's decision passes: what would decline the same move if nobody had decided it."""

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Change
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning.guarded.guards import GUARDS
from rebalancer.planning.guarded.release import PASSES, Purpose, Release, Tally
from rebalancer.planning.planner import survey


def passed_guards(snapshot: Snapshot, policy: Policy, memory: Memory, change: Change) -> tuple[str, ...]:
    """Names, in the guards' order, of those that would decline this release; none for a raise."""
    world = survey(snapshot, policy, memory).scene
    holder = world.holders[change.model]
    part = next(each for each in holder.parts if each.pool == change.target.pool)
    pods = {pod.uid: pod for pod in part.target.pods}
    tally = Tally.of(world)
    found: set[str] = set()
    for victim in change.victims:
        release = Release(world, tally, part, Purpose.SURPLUS, pods.get(victim))
        for name in PASSES[Purpose.OVERRIDE] - PASSES[Purpose.SURPLUS]:
            if GUARDS[name](release) is not None:
                found.add(name)
        tally.book(release)
    return tuple(name for name in GUARDS if name in found)
