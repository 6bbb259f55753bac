"""Why a replica found no place: the constraint that binds, in words with numbers."""

from rebalancer.domain.arithmetic import uncounted
from rebalancer.domain.instant import when
from rebalancer.domain.snapshot import NoticeView
from rebalancer.domain.words import counted, gpus, listed
from rebalancer.planning.allocation.fragments import resliced
from rebalancer.planning.allocation.roles import RATIO
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.allocation.unmarked import UNMARKED
from rebalancer.planning.facts.landing import bars, distance, needs_words
from rebalancer.planning.facts.scene import PoolFacts, TargetFacts
from rebalancer.planning.guards.stuck import sentence
from rebalancer.planning.shares.quotas import QUOTA
from rebalancer.planning.shares.share import ModelShare


def why_short(model: ModelShare, seating: Seating) -> tuple[str, str]:
    """(binding constraint, words with numbers) for a replica that found no place."""
    alone = [target for target in model.targets if target.stuck is not None]
    if alone and len(alone) == len(model.targets):
        return alone[0].stuck or "", "; ".join(sentence(target, model) for target in alone)
    if not seating.roles.borne(model.entry.id, 1):
        return RATIO, seating.roles.words(model.entry.id)
    pools = seating.scene.pools
    full = [target for target in model.targets if target.stuck is None and seating.quotas.room(target) <= 0]
    if full and all(target in full or seating.capacity.get(target.pool, 0) < target.gpus for target in model.targets):
        return QUOTA, "; ".join(seating.quotas.words(target) for target in full)
    capped = [target for target in model.targets if target.stuck is None and seating.caps.room(target) <= 0]
    free = [_free_words(target, pools[target.pool], seating) for target in model.targets if target.pool in pools]
    if capped and all(
        target in capped or seating.capacity.get(target.pool, 0) < target.gpus for target in model.targets
    ):
        return "cap", "; ".join([*(seating.caps.words(target) for target in capped), *free])
    fits = any(seating.capacity.get(target.pool, 0) >= target.gpus for target in model.targets)
    return ("fit" if fits else "budget"), "; ".join(free)


def _barred_words(target: TargetFacts, state: PoolFacts, seating: Seating) -> str:
    """Why no node of the pool may take a pod, however many GPUs are free; "" where some node may."""
    open_nodes = seating.eligible(target)
    if state.view.nodes and not open_nodes:
        barred = bars(target.placement, state.view.nodes)
        if barred:
            return f"0 of {counted(len(state.view.nodes), 'node')} of pool {target.pool} may take its pods: {barred}"
    if open_nodes and open_nodes <= seating.crowded(target, now=False):
        full = f"{counted(len(open_nodes), 'node')} of pool {target.pool} {'are' if len(open_nodes) > 1 else 'is'} full"
        return f"{distance(target.view.placement)}, by which {full}"
    return ""


def _closed_words(now: float, state: PoolFacts, noticed: tuple[NoticeView, ...], doomed: frozenset[str]) -> list[str]:
    """The GPUs in the pool's budget that are free on nodes which take no new pods, and why they take none."""
    notices = {notice.node: notice for notice in noticed if not notice.doubted}
    closed = []
    for node in state.view.nodes:
        holds = state.taken[node.name].gpus if node.name in state.taken else 0
        free = node.gpus - node.unpreemptible_gpus - holds
        if free <= 0 or node.name in state.rooms or node.name in doomed:
            continue
        notice = notices.get(node.name)
        if notice is not None:
            until = f" until {when(notice.deadline, now)}" if notice.deadline > now else ""
            why = f"under notice{until}"
        elif not node.ready:
            why = "not Ready"
        else:
            why = "like nodes that may go" if node.schedulable else "cordoned"
        closed.append(f"{free} on {node.name}, which is {why}")
    return [listed(closed)] if closed else []


def _overfull_words(target: TargetFacts, state: PoolFacts, seating: Seating) -> list[str]:
    """To a model below its floor: what has to go where a node offers fewer GPUs than are held, and the way out.

    Several go there for one, so no model gives what it needs, for as long as anybody looks: a person decides that.
    """
    model = seating.scene.models[target.model]
    if target.pods > 1 or seating.placed_of(model) >= model.floor:
        return []
    nodes = []
    for name in sorted(state.overfull & seating.eligible(target))[:4]:
        offered, soon = state.rooms[name].node.gpus, seating.rooms[target.pool][name].soon
        if soon >= 0 or target.gpus > offered:  # no more is held than offered, or nobody's leaving makes the room
            continue
        freed = f"{target.gpus - soon} of these have to be freed for one replica"
        nodes.append(f"{name} offers {gpus(offered)} and pods hold {offered - soon}, so {freed}")
    way = "mend the devices, or cap a model that runs there (`rebalancer override add cap`)"
    return [f"{listed(nodes)}; no model gives what it needs for that: {way}"] if nodes else []


def _free_words(target: TargetFacts, state: PoolFacts, seating: Seating) -> str:
    scene = seating.scene
    if state.budget is None:
        return f"the budget of pool {target.pool} is unknown: {state.unknown}"
    barred = _barred_words(target, state, seating)
    if barred:
        return barred
    free = ", ".join(f"{spare} on {name}" for name, spare in seating.spare(target.pool, 4)) or "none is free"
    inside = f", all in one {topology}" if (topology := target.view.placement.alone) else ""
    left = seating.capacity[target.pool]
    budget = f"{left} of the {gpus(state.budget)} in its budget are left"
    if left <= 0:
        over = f", and {-left} more are promised" if left < 0 else ""
        budget = f"none of the {gpus(max(0, state.budget))} in its budget is left{over}"
    surging = state.surging_beside(target.gpus)
    return "; ".join(
        [
            f"{needs_words(target)} on one node of pool {target.pool}{inside}: {free}",
            *scene.memo.of(state.pool.name, _closed_words, scene.now, state, scene.snapshot.notices, scene.doomed),
            budget,
            *_overfull_words(target, state, seating),
            *([f"pods of rollouts ask for {gpus(surging)} beside their replicas"] if surging else ()),
            *resliced(target, seating),
            *([UNMARKED] if target.pod_gpus > 1 and not scene.snapshot.marks_victims else ()),
            *scene.memo.of(state.pool.name, uncounted, state.view),
        ]
    )
