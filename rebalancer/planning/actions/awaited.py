"""Replicas that lost their node and wait for another one, on a pool that may grow: they stay, nodes are asked for.

Worked example: image has 2 replicas on the only node of pool spot, and somebody drains it before any notice is read.
Its ReplicaSet has made two pods anew, which no node of the pool has room for: the budget is 0 and 2 GPUs are promised.
To give them up would free nothing for anybody, and the next plan would grant as many onto a node to come: 2 -> 0 -> 2,
where an autoscaler obeys each number up to 15 s later. Here they stay, and a node grant stands for them from now on:
its GPUs are in the budget, the NodePool's limit is raised for it, and it ends as any other one does.
"""

from collections.abc import Iterator
from itertools import groupby

from rebalancer.domain.memory import NodeGrant
from rebalancer.domain.pool_view import NodePoolView
from rebalancer.domain.words import counted
from rebalancer.planning.actions.bringers import Bringer, room, willing
from rebalancer.planning.actions.node_plan import NodePlan
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.allocation.unit import Victim
from rebalancer.planning.facts.limits import lacks_memory
from rebalancer.planning.facts.scene import PoolFacts, Scene, TargetFacts
from rebalancer.planning.guards.release import Purpose
from rebalancer.planning.shares.share import ModelShare


def await_nodes(scene: Scene[ModelShare], allocation: Allocation, plan: NodePlan) -> None:
    """Adds to the plan who stays of those that the allocation gives up, and the node grant behind them."""
    for key, group in groupby(_waiting(scene, allocation), key=lambda victim: victim.target.key):
        waiting = tuple(group)
        target, model = waiting[0].target, scene.models[key[0]]
        state = scene.pools[target.pool]
        bringer = willing(scene, state, plan.nodes)
        if bringer is None or target.pool in model.ruling.excluded_pools or lacks_memory(model, state):
            continue
        count = min(len(waiting), _wanted(model, allocation), _placeable(scene, target, state, bringer, plan))
        if count <= 0:
            continue
        # What nobody wants was given up first: the last ones are those that the model would miss.
        _ask(scene, target, bringer, waiting[-count:], plan)


def _waiting(scene: Scene[ModelShare], allocation: Allocation) -> Iterator[Victim]:
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


def _wanted(model: ModelShare, allocation: Allocation) -> int:
    """Replicas that the model lacks once all goes that the allocation gives up."""
    name = model.entry.id
    gone = sum(victim.target.model == name for victim in allocation.releases)
    given = sum(victim.target.model == name for unit in allocation.units for victim in unit.victims)
    gained = sum(unit.target.model == name for unit in allocation.units)
    return max(model.floor, model.aim) - (model.staying_replicas - gone - given + gained)


def _placeable(
    scene: Scene[ModelShare], target: TargetFacts, state: PoolFacts, bringer: Bringer, plan: NodePlan
) -> int:
    """Replicas of the target for which the nodes have room that may still come."""
    nodes, most = plan.growth(scene, state) // state.pool.gpus_per_node, room(bringer, scene, state, plan.nodes)
    pods_per_node = state.pool.gpus_per_node // target.pod_gpus
    return (nodes if most is None else min(nodes, most)) * pods_per_node // target.pods


def _ask(
    scene: Scene[ModelShare], target: TargetFacts, bringer: Bringer, stay: tuple[Victim, ...], plan: NodePlan
) -> None:
    """Adds the grant for those that stay, and what lets its nodes come."""
    state = scene.pools[target.pool]
    plan.nodes[bringer.name] += -(-len(stay) * target.pods // (state.pool.gpus_per_node // target.pod_gpus))
    grant = NodeGrant(
        id=f"g{scene.snapshot.cycle}-{target.model}@{target.pool}",
        model=target.model,
        pool=target.pool,
        node_pool=bringer.name,
        replicas=len(stay),
        gpus=len(stay) * target.gpus,
        asked_at=scene.now,
        until=scene.now + scene.policy.nodes.node_timeout_seconds,
    )
    if isinstance(bringer, NodePoolView):
        lost = f"{target.model} has lost the nodes of {counted(len(stay), 'replica')}"
        plan.raise_limit(scene, state, bringer, lost, grant.id)
    plan.awaited.append((grant, stay))
