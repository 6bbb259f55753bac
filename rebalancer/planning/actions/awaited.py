"""Replicas that are there and wait for a node, on a pool that may grow: they stay, and nodes are asked for.

Worked example: image has 2 replicas on the only node of pool spot, and that goes before any notice is read. Its
ReplicaSet has made two pods anew, which no node has room for: the budget is 0 and 2 GPUs are promised. To give them up
would free nothing for anybody, and the next plan would grant as many onto a node to come: 2 -> 0 -> 2, where an
autoscaler obeys each number up to 15 s later. Here they stay, and a node grant stands for them from now on: its GPUs
are in the budget, the NodePool's limit is raised for it, and it ends as any other one does.

Where somebody drains that node and it stays, cordoned, its GPUs are in the budget and of no use: nobody goes, and no
node would come as long as the limit does not let it.
"""

from collections.abc import Iterator
from itertools import groupby

from rebalancer.domain.memory import NodeGrant
from rebalancer.domain.words import counted
from rebalancer.planning.actions.bringers import willing
from rebalancer.planning.actions.node_plan import NodePlan
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.allocation.unit import Victim
from rebalancer.planning.facts.landing import may_land_once_open
from rebalancer.planning.facts.limits import lacks_memory
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.guards.release import Purpose
from rebalancer.planning.shares.share import ModelShare


def await_nodes(scene: Scene[ModelShare], allocation: Allocation, plan: NodePlan) -> None:
    """Adds to the plan who stays of those that the allocation gives up, and node grants for all who wait."""
    for _, group in groupby(_given_up(scene, allocation), key=lambda victim: victim.target.key):
        given_up = tuple(group)
        target = given_up[0].target
        _ask(scene, target, min(len(given_up), _wanted(scene, allocation, target)), plan, given_up)
    for name, (left, *_) in allocation.homeless.items():
        for target in _of_homeless(scene, scene.models[name]):
            waiting = min(left, sum(pod.gated is not True for pod in target.unplaced))
            if _ask(scene, target, min(waiting, left + _wanted(scene, allocation, target)), plan):
                break  # what waits on another of its pools asks once this has a node


def _given_up(scene: Scene[ModelShare], allocation: Allocation) -> Iterator[Victim]:
    """Those that go since their pool shrank, have no node, and run where nodes may come; by target.

    A number that somebody else has raised is not taken over, and roles of a couple go by their ratio.
    """
    for victim in sorted(allocation.releases, key=lambda victim: victim.target.key):
        target, state = victim.target, scene.pools.get(victim.target.pool)
        if (
            victim.purpose is Purpose.BUDGET
            and victim.pod.node is None
            and victim.pod.gated is not True
            and state is not None
            and state.grows
            and not target.view.by_others
            and target.model not in allocation.roles.couples
        ):
            yield victim


def _of_homeless(scene: Scene[ModelShare], model: ModelShare) -> Iterator[TargetFacts]:
    """Targets whose replicas wait for room alone, on a pool that may grow; none of what no node there ever takes.

    Nodes that came for who may not land on them would be of use to nobody. One whose grant is open has asked. Whoever
    wrote the number: no more is asked for than the model wants.
    """
    if model.ruling.paused is not None or model.ruling.frozen is not None:
        return
    granted_on = {grant.pool for grant in scene.memory.node_grants if grant.model == model.entry.id}
    for target in model.targets:
        state = scene.pools.get(target.pool)
        if state is None or not state.grows or target.stuck is not None or target.pool in granted_on:
            continue
        if any(may_land_once_open(target.placement, node) for node in state.view.nodes):
            yield target


def _wanted(scene: Scene[ModelShare], allocation: Allocation, target: TargetFacts) -> int:
    """Replicas that the model lacks once all goes that the allocation gives up; below 0: that it has too many."""
    name, model = target.model, scene.models[target.model]
    gone = sum(victim.target.model == name for victim in allocation.releases)
    given = sum(victim.target.model == name for unit in allocation.units for victim in unit.victims)
    gained = sum(unit.target.model == name for unit in allocation.units)
    return max(model.floor, model.aim) - (model.staying_replicas - gone - given + gained)


def _ask(
    scene: Scene[ModelShare], target: TargetFacts, count: int, plan: NodePlan, given_up: tuple[Victim, ...] = ()
) -> bool:
    """Adds a grant for `count` replicas of the target, or for as many as nodes may come for; whether there is one.

    Of those that were given up the last ones stay: what nobody wants went first.
    """
    model, state = scene.models[target.model], scene.pools[target.pool]
    bringer = willing(scene, state, plan.nodes)
    if bringer is None or target.pool in model.ruling.excluded_pools or lacks_memory(model, state):
        return False
    count = min(count, plan.room_for(scene, target, state, bringer))
    if count <= 0:
        return False
    grant = NodeGrant(
        id=f"w{scene.snapshot.cycle}.{len(plan.awaited) + 1}-{target.model}",
        model=target.model,
        pool=target.pool,
        node_pool=bringer.name,
        replicas=count,
        gpus=count * target.gpus,
        asked_at=scene.now,
        until=scene.now + scene.policy.nodes.node_timeout_seconds,
    )
    waits = f"{target.model} has no node for {counted(count, 'replica')}"
    plan.bring(scene, target, bringer, count, waits, grant.id)
    plan.awaited.append((grant, given_up[-count:]))
    return True
