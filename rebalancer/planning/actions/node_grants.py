"""Node grants: a model that no shift can serve gets replicas on nodes that are to come.

Karpenter and Cluster Autoscaler launch nodes only for pending pods. So a grant raises a NodePool's limit first (never
under use, within the policy's bound), then the target's replicas past the free GPUs by exactly the replicas that stay
short; of node groups nothing is written. Grants that brought nothing are withdrawn, limits return, and consolidation
rests while GPUs are between owners.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable

from rebalancer.domain.arithmetic import converging
from rebalancer.domain.memory import NodeGrant
from rebalancer.domain.people import CLOCKS_APART_SECONDS, Override
from rebalancer.domain.plan import Refusal
from rebalancer.domain.pool_view import NodePoolView
from rebalancer.domain.words import counted
from rebalancer.planning.actions.awaited import await_nodes
from rebalancer.planning.actions.bringers import NODES, none_words, room, willing
from rebalancer.planning.actions.node_plan import NodePlan
from rebalancer.planning.actions.node_pools import holds, restored_limits
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.allocation.unit import Unit
from rebalancer.planning.facts.landing import needs_words
from rebalancer.planning.facts.limits import lacks_memory
from rebalancer.planning.facts.scene import PoolFacts, Scene, TargetFacts
from rebalancer.planning.guards import guards
from rebalancer.planning.shares.caps import Caps
from rebalancer.planning.shares.quotas import QuotaRoom
from rebalancer.planning.shares.share import ModelShare


def plan_nodes(scene: Scene[ModelShare], allocation: Allocation) -> NodePlan:
    """Withdraws grants that brought nothing, grants nodes to models that are short, and lets limits return."""
    plan = NodePlan(Caps(scene), QuotaRoom(scene), allocation.roles.copy(), _given(scene, allocation))
    for unit in allocation.units:
        plan.take(unit.target, 1)
    _withdraw(scene, plan)
    if guards.stopped(scene) is None:  # what is not asked for is not awaited
        await_nodes(scene, allocation, plan)
    allocation = allocation.awaiting(plan.staying, plan.awaiting)
    giving, coming = allocation.giving, Counter(unit.target.model for unit in allocation.units)
    for model in scene.models_by_priority:
        short = allocation.short.get(model.entry.id)
        if short is not None and model.demand.replicas > 0:
            targets = [target for target in model.targets if target.key not in giving]
            missing = max(model.demand.replicas, model.floor) - model.staying_replicas - coming[model.entry.id]
            _grant(scene, model, targets, short[0], missing, plan)
    _raise_again(scene, plan)
    bringers = {grant.id: name for grant, name, _ in plan.handed_on}
    grants = (*(one for one in scene.memory.node_grants if one.id not in plan.ended), *plan.opened)
    needed = {bringers.get(one.id, one.node_pool) for one in grants}
    plan.changes += restored_limits(scene, needed | {name for _, _, name in plan.units})
    return plan


def _given(scene: Scene[ModelShare], allocation: Allocation) -> dict[tuple[str, str], str]:
    """The recipient for each target that gave GPUs in a shift of which part is not granted before this plan.

    GPUs of several replicas come free one by one, and the first grant is no end of the gift. A recipient that waits in
    that pool for nothing any more does not count.
    """
    raises = [unit for unit in allocation.units if not unit.victims]
    waits = {unit.target.key for unit in raises}
    granted_now = {unit.target.key for unit in raises if unit.source == "free"}
    targets = {target.key: target for model in scene.models.values() for target in model.targets}
    given: dict[tuple[str, str], str] = {}
    for shift in scene.memory.shifts:
        recipient = (shift.recipient, shift.pool)
        donors = [targets[name, shift.pool] for name in shift.donors if (name, shift.pool) in targets]
        ending = any(len(donor.view.pods) > converging(donor.view) for donor in donors)
        if recipient in waits and (shift.granted_at is None or ending or recipient in granted_now):
            given |= {donor.key: shift.recipient for donor in donors}
    return given


def _withdraw(scene: Scene[ModelShare], plan: NodePlan) -> None:
    """Notes replicas for which no node came; those of the floor stay, since no write of ours takes a model below it.

    So do those that the other role of its couple cannot do without yet. For what stays another NodePool is asked.
    """
    for grant in scene.memory.node_grants:
        model = scene.models.get(grant.model)
        target = next((each for each in model.targets if each.pool == grant.pool), None) if model else None
        if model is None or target is None or target.stuck is not None:
            continue
        failed = _failed_claim(scene, grant)
        if failed is None and scene.now < grant.until:
            continue
        if any(other.key == target.key for _, other, _, _ in plan.withdrawn):
            continue  # a target has one number: the next plan sees what this one leaves
        waiting = sum(1 for pod in target.staying_pods if pod.node is None and pod.gated is not True)
        waiting = max(0, waiting - _for_later(scene, grant) // target.gpus)
        count = min(waiting, grant.replicas, model.staying_replicas - model.floor)
        count = plan.roles.parting(grant.model, count)
        why = failed or f"no node came within {scene.now - grant.asked_at:.0f} s"
        stay = min(waiting, grant.replicas) - max(0, count)
        if count == min(waiting, grant.replicas):
            plan.ended.add(grant.id)
        elif stay > 0:
            _hand_on(scene, plan, grant, target, stay, why)
        if count > 0:
            plan.roles.gone[grant.model] += count
            plan.withdrawn.append((grant, target, count, why))


def _hand_on(  # noqa: PLR0913  # which grant, for how many replicas of whom, and why
    scene: Scene[ModelShare], plan: NodePlan, grant: NodeGrant, target: TargetFacts, stay: int, why: str
) -> None:
    """Asks the next NodePool or node group, where another one is willing, for the grant's replicas that stay."""
    if grant.pool in scene.models[grant.model].ruling.excluded_pools:
        return
    state = scene.pools[grant.pool]
    nodes = -(-stay * target.gpus // state.pool.gpus_per_node)
    bringer = willing(scene, state, plan.nodes, but=grant.node_pool)
    most = None if bringer is None else room(bringer, scene, state, plan.nodes)
    if bringer is None or (most is not None and most < nodes):
        return
    plan.nodes[bringer.name] += nodes
    if isinstance(bringer, NodePoolView):
        short = f"{grant.model} is short of {counted(stay, 'replica')} for which {grant.node_pool} brought no node"
        plan.raise_limit(scene, state, bringer, short, grant.id)
    plan.handed_on.append((grant, bringer.name, f"{why} (node grant {grant.id})"))


def _for_later(scene: Scene[ModelShare], grant: NodeGrant) -> int:
    """GPUs that still wait for later grants of the model in the pool: they are not this one's to withdraw."""
    grants = scene.memory.node_grants
    later = grants[grants.index(grant) + 1 :]
    return sum(each.gpus for each in later if (each.model, each.pool) == (grant.model, grant.pool))


def _failed_claim(scene: Scene[ModelShare], grant: NodeGrant) -> str | None:
    """Why a NodeClaim that was made for the grant cannot be had; None while none has failed."""
    since = grant.asked_at - CLOCKS_APART_SECONDS  # by our clock; of claims the API server's says when
    for view in scene.pools[grant.pool].view.node_pools:
        for claim in view.claims:
            if view.name == grant.node_pool and claim.failed is not None and claim.created_at >= since:
                return f"NodeClaim {claim.name} failed ({claim.failed})"
    return None


def _grant(  # noqa: PLR0913  # who is short, where, and by how much
    scene: Scene[ModelShare],
    model: ModelShare,
    targets: list[TargetFacts],
    short: int,
    missing: int,
    plan: NodePlan,
) -> None:
    """Ask for nodes for `short` replicas, of which demand lacks `missing`, in the first target whose pool can grow."""
    wanted = short - _replaced_by_karpenter(scene, model)
    for target in targets:
        state = scene.pools.get(target.pool)
        if wanted <= 0 or state is None or not _may_grow(state):
            continue
        most = _most(model, target, missing, plan)
        person = model.ruling.excluded_pools.get(target.pool)
        if most <= 0 or person is not None:
            plan.refusals += _no_node_now(model, target, person, wanted, plan)
            continue
        if any(grant.model == model.entry.id and grant.pool == target.pool for grant in scene.memory.node_grants):
            # One grant at a time, and the next when it has ended. What came under notice since cannot wait for that:
            # the notices of a storm come within seconds, a node takes minutes.
            wanted = min(wanted, model.committed_replicas - model.staying_replicas)
            if wanted <= 0:
                return
        bringer = willing(scene, state, plan.nodes)
        replicas = 0 if bringer is None else min(wanted, most, plan.room_for(scene, target, state, bringer))
        while replicas > 0 and not plan.roles.borne(model.entry.id, replicas):
            replicas -= 1
            wanted -= 1
        if wanted <= 0:
            return
        if bringer is None or replicas <= 0 or lacks_memory(model, state):
            plan.refusals.append(_no_growth(scene, model, target, state, plan, wanted))
            continue
        grant_id = _named(scene, target, plan)
        short_of = f"{model.entry.id} is short of {counted(replicas, 'replica')}"
        plan.bring(scene, target, bringer, replicas, short_of, grant_id)
        plan.units += [(Unit(target, "demand", "node"), grant_id, bringer.name)] * replicas
        plan.take(target, replicas)
        plan.roles.gained[model.entry.id] += replicas
        wanted, missing = wanted - replicas, missing - replicas


def _most(model: ModelShare, target: TargetFacts, missing: int, plan: NodePlan) -> int:
    """Replicas of the target for which nodes may be asked now, of `missing` that demand lacks.

    An autoscaler surely asks for what demand lacks alone: for what its minimum leaves open there may be no pending pod,
    for which no node comes. The pods of who has just given GPUs there would take them before they are granted, and it
    would give them again: what its floor lacks or is under notice does not wait for that, all else does.
    """
    most = min(plan.caps.room(target), plan.quotas.room(target))
    if target.stuck is not None:
        most = min(most, target.replaceable)
    if target.owner is not None:
        most = min(most, missing)
    if target.key in plan.given:
        most = min(most, max(model.floor, model.committed_replicas) - model.staying_replicas)
    return most


def _named(scene: Scene[ModelShare], target: TargetFacts, plan: NodePlan) -> str:
    """An id for a grant in the target's pool: each of a model's grants in one plan ends by itself."""
    first = f"g{scene.snapshot.cycle}-{target.model}"
    return f"{first}@{target.pool}" if any(grant == first for _, grant, _ in plan.units) else first


def _may_grow(state: PoolFacts) -> bool:
    """Whether nodes may come at all: not into a pool over its budget."""
    nodes_come = bool(state.view.node_pools or state.view.node_groups)
    return nodes_come and state.budget is not None and state.promised <= state.budget


def _no_node_now(
    model: ModelShare, target: TargetFacts, person: Override | None, wanted: int, plan: NodePlan
) -> list[Refusal]:
    """The refusal of nodes that would not bring the model what it is to have.

    What came to a pool that a person empties would be emptied, too, and replaced again; who has just given GPUs there
    waits until these are granted.
    """
    has, until = model.staying_replicas, None
    if person is not None and person.kind == "drain":
        why = f"pool {person.subject} is being drained by override {person.name}, so no node is asked for there"
        until = person.expires_at
    elif person is None and target.key in plan.given:
        why = f"it gave GPUs to {plan.given[target.key]}, which are not free yet"
    else:
        return []
    return [Refusal(NODES, model.entry.id, has, has + wanted, why, until=until)]


def _replaced_by_karpenter(scene: Scene[ModelShare], model: ModelShare) -> int:
    """Doomed replicas under voluntary disruption that nothing replaces yet: Karpenter brings their node itself."""
    voluntary = {notice.node for notice in scene.snapshot.notices if notice.voluntary}
    unreplaced = (pod for target in model.targets for pod in target.doomed if pod not in target.beside)
    return sum(1 for pod in unreplaced if pod.on(voluntary))


def _no_growth(  # noqa: PLR0913  # the numbers that the refusal prints
    scene: Scene[ModelShare],
    model: ModelShare,
    target: TargetFacts,
    state: PoolFacts,
    plan: NodePlan,
    wanted: int,
) -> Refusal:
    """The refusal of a node grant, with the reason why no node may come."""
    pool, guard, until = state.pool, "budget", None
    if "/mig-" in pool.resource:
        guard, why = "fit", f"no provider launches nodes that offer {pool.resource}"
    elif target.pod_gpus > pool.gpus_per_node:
        guard, why = (
            "fit",
            f"{needs_words(target)} on one node, and nodes of pool {pool.name} have {pool.gpus_per_node}",
        )
    elif lacks_memory(model, state):
        guard, why = "fit", f"nodes that come to pool {pool.name} have too little {lacks_memory(model, state)}"
    elif willing(scene, state, plan.nodes) is None:
        guard, (why, until) = NODES, none_words(scene, state, plan.nodes)
    else:
        why = f"pool {pool.name} has all the GPUs that its gpuLimit of {pool.gpu_limit} allows, so no node is asked for"
    return Refusal(
        guard=guard,
        subject=model.entry.id,
        replicas_from=model.staying_replicas,
        replicas_to=model.staying_replicas + wanted,
        why=why,
        numbers={"gpuLimit": pool.gpu_limit, "gpusPerNode": pool.gpus_per_node, "wanted": wanted},
        until=until,
    )


def _raise_again(scene: Scene[ModelShare], plan: NodePlan) -> None:
    """Adds the limits of open grants that were not written when the grants' replicas were asked for."""
    over = plan.ended | {grant.id for grant, _, _ in plan.handed_on}
    for grant in scene.memory.node_grants:
        state = scene.pools[grant.pool]
        view = next((each for each in state.view.node_pools if each.name == grant.node_pool), None)
        drained = grant.pool in scene.models[grant.model].ruling.excluded_pools
        if view is not None and grant.limit_due and grant.id not in over and not drained:
            short = f"{grant.model} is short of {counted(grant.replicas, 'replica')}"
            plan.raise_limit(scene, state, view, short, grant.id)


def hold(scene: Scene[ModelShare], plan: NodePlan, releasing: Iterable[str]) -> NodePlan:
    """The plan with changes that begin or end the hold on consolidation, as shifts are under way or not."""
    return dataclasses.replace(plan, changes=[*plan.changes, *holds(scene, releasing)])
