"""A tiny cluster that carries plans out on snapshots: what the gate, Kubernetes and Karpenter would do, rule by rule.

`execute` writes a plan in the gate's order; `reconcile` is what HPAs, ReplicaSets and the scheduler do; `vanish` ends
terminating pods, `become_ready` starts loading ones, `launch` is Karpenter. All return a new Snapshot. Nothing here
asks planning how it would do it: selectors, taints and the order of deletion are written down once more.
"""

import itertools
from collections.abc import Callable

from msgspec.structs import replace

from rebalancer.act.intents import changes_of, intent_of, waves
from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.cluster import DisruptionBudget, SavedNodePool
from rebalancer.domain.outcome import WRITTEN, Outcome
from rebalancer.domain.plan import Change, DrainChange, NodePoolChange, Plan
from rebalancer.domain.pool_view import NodePoolView, NodeView, PoolView
from rebalancer.domain.readings import Reading
from rebalancer.domain.snapshot import ModelView, Place, PodView, Snapshot, TargetView
from tests.planning.drained import drained

RESOURCE = "nvidia.com/gpu"
HOLD = DisruptionBudget(nodes="0", reasons=("Empty", "Underutilized"))

_NUMBERS = itertools.count(1)

# --- the gate


def execute(snapshot: Snapshot, plan: Plan, most: int | None = None) -> Snapshot:
    """The first `most` writes of a plan (all of them by default) happen, in the gate's order."""
    ordered = [change for wave in waves(plan) for chain in wave for change in chain]
    assert len(ordered) == len(changes_of(plan)), "the gate writes every change once"
    for change in ordered[:most]:
        snapshot = write(snapshot, change, plan.cycle)
    return snapshot


def write(snapshot: Snapshot, change: Change | NodePoolChange | DrainChange, cycle: int) -> Snapshot:
    """One write is acknowledged: the object says so, and its outcome is on record."""
    outcome = Outcome(intent=intent_of(change, cycle, snapshot.at), at=snapshot.at, status=WRITTEN)
    snapshot = replace(snapshot, outcomes=(*snapshot.outcomes, outcome))
    if isinstance(change, NodePoolChange):
        return _on_node_pool(snapshot, change.name, lambda view: _node_pool_written(view, change))
    if isinstance(change, DrainChange):
        return drained(snapshot, change, on_target)
    return on_target(snapshot, change.model, change.target.pool, lambda target: _target_written(target, change))


def _target_written(target: TargetView, change: Change) -> TargetView:
    """Victims carry a deletion cost; the bounds are the autoscaler's where one owns the target, else the replicas.

    A cost below those that an earlier release left on pods which stay.
    """
    least = min((pod.deletion_cost or 0 for pod in target.pods if pod.uid not in change.victims), default=0)
    costs = {uid: min(-1000, least - len(change.victims)) + n for n, uid in enumerate(change.victims)}
    pods = tuple(replace(pod, deletion_cost=costs.get(pod.uid, pod.deletion_cost)) for pod in target.pods)
    owner = target.autoscaler
    if owner is None or owner.paused:
        return replace(target, replicas=change.replicas_to, pods=pods)
    bounds = replace(
        owner,
        minimum=change.minimum,
        maximum=max(1, change.replicas_to),
        originals=owner.originals or Originals(owner.minimum, owner.maximum),
    )
    return replace(target, pods=pods, autoscaler=bounds)


def _node_pool_written(view: NodePoolView, change: NodePoolChange) -> NodePoolView:
    saved = view.saved or SavedNodePool(budgets=view.budgets)
    if change.kind in {"hold", "end-hold"}:
        held = change.kind == "hold"
        return replace(view, held=held, budgets=(*(saved.budgets or ()), HOLD) if held else saved.budgets, saved=saved)
    limits = None if view.gpu_limit is None else {RESOURCE: str(view.gpu_limit)}
    return replace(view, gpu_limit=change.limit_to, saved=replace(saved, limits=saved.limits or limits))


# --- HPAs, ReplicaSets, scheduler


def reconcile(snapshot: Snapshot) -> Snapshot:
    """HPAs clamp, ReplicaSets delete the worst pods and create missing ones, the scheduler binds what fits."""
    models = tuple(
        replace(model, targets=tuple(_replicate(_clamp(target), snapshot.at) for target in model.targets))
        for model in snapshot.models
    )
    return _schedule(replace(snapshot, models=models))


def _clamp(target: TargetView) -> TargetView:
    """The HPA takes over its object's bounds and keeps the number within them; without a metric it keeps it else.

    An HPA is disabled at 0 replicas, and KEDA keeps an idle ScaledObject where it is.
    """
    owner = target.autoscaler
    if owner is None or owner.paused or target.missing:
        return target
    if target.replicas == 0 and (owner.kind == "HorizontalPodAutoscaler" or owner.idle is not None):
        return target
    owner = replace(owner, effective_minimum=owner.minimum, effective_maximum=owner.maximum)
    return replace(target, replicas=min(max(target.replicas, owner.minimum), owner.maximum), autoscaler=owner)


def _replicate(target: TargetView, now: float) -> TargetView:
    if target.victims == "ordinal":
        return _numbered(target, now)
    alive = [pod for pod in target.pods if pod.phase != "terminating"]
    if len(alive) == target.replicas:  # as most of the time: a fifth of a stream of notices went into the rest of this
        return target
    alive.sort(key=_kept_first)
    extra = {pod.uid for pod in alive[target.replicas :]}
    pods = [replace(pod, phase="terminating", since=now) if pod.uid in extra else pod for pod in target.pods]
    for _ in range(target.replicas - len(alive)):
        name = f"{target.name}-new-{next(_NUMBERS):09d}"
        pods.append(PodView(uid=f"uid-{name}", name=name, node=None, phase="pending", since=now, created_at=now))
    return replace(target, pods=tuple(sorted(pods, key=lambda pod: pod.uid)))


def _numbered(target: TargetView, now: float) -> TargetView:
    """A StatefulSet ends the numbers from its replicas on, and makes those below that are not there."""
    pods = [
        replace(pod, phase="terminating", since=now)
        if pod.phase != "terminating" and (pod.ordinal or 0) >= target.replicas
        else pod
        for pod in target.pods
    ]
    there = {pod.ordinal for pod in pods}
    for ordinal in range(target.replicas):
        if ordinal not in there:  # the next of a number is made when the last one is gone
            name = f"{target.name}-{ordinal}"
            uid = f"uid-{name}-{next(_NUMBERS):09d}"
            pods.append(PodView(uid, name, None, "pending", now, now, place=Place(ordinal)))
    return replace(target, pods=tuple(sorted(pods, key=lambda pod: pod.uid)))


def _kept_first(pod: PodView) -> tuple[bool, bool, bool, int, float, str]:
    """Kubernetes deletes unassigned pods first, then those that do not run yet, then unready ones, then by cost.

    Of a lost pod it has heard nothing: that one is Ready.
    """
    unready = pod.phase not in {"ready", "lost"}
    return (pod.node is None, not pod.begun, unready, -(pod.deletion_cost or 0), pod.created_at, pod.uid)


def _schedule(snapshot: Snapshot) -> Snapshot:
    if not any(_waits(pod) for model in snapshot.models for target in model.targets for pod in target.pods):
        return snapshot
    _, free = free_gpus(snapshot)
    nodes = {node.name: node for pool in snapshot.pools for node in pool.nodes}  # distance is kept from pods on any
    models = []
    for model in snapshot.models:
        targets = []
        for target in model.targets:
            beside = [pod.node for pod in target.pods if pod.node is not None]
            pods = tuple(_bound(pod, target, nodes, free, beside, snapshot.at) for pod in target.pods)
            targets.append(replace(target, pods=pods))
        models.append(replace(model, targets=tuple(targets)))
    return replace(snapshot, models=tuple(models))


def _waits(pod: PodView) -> bool:
    return pod.node is None and pod.phase == "pending"


def free_gpus(snapshot: Snapshot) -> tuple[dict[str, NodeView], dict[str, int]]:
    """Nodes that take pods, and the GPUs that nobody holds on each. Doomed nodes take none."""
    doomed = {notice.node for notice in snapshot.notices}
    nodes = {
        node.name: node
        for pool in snapshot.pools
        for node in pool.nodes
        if node.ready and node.schedulable and node.name not in doomed
    }
    free = {name: node.gpus - node.foreign_gpus for name, node in nodes.items()}
    for model in snapshot.models:
        for target in model.targets:
            for pod in target.pods:
                for node in pod.nodes:
                    if node in free:
                        free[node] -= target.gpus_per_pod
    return nodes, free


def _bound(
    pod: PodView, target: TargetView, nodes: dict[str, NodeView], free: dict[str, int], beside: list[str], now: float
) -> PodView:
    if not _waits(pod):
        return pod
    if target.pods_per_replica > 1:
        return _bound_together(pod, target, nodes, free, now)
    fits = [name for name in sorted(free) if free[name] >= target.gpus_per_pod and lands(target, nodes[name])]
    fits = [name for name in fits if not _near(target, nodes, name, beside)]
    if not fits:
        return pod
    free[fits[0]] -= target.gpus_per_pod
    beside.append(fits[0])
    return replace(pod, node=fits[0], phase="loading", since=now, begun=False)


def _near(target: TargetView, nodes: dict[str, NodeView], name: str, beside: list[str]) -> bool:
    """Whether a pod on the node would stand too near to others of its kind, which are on the nodes `beside`."""
    for topology in target.placement.apart:
        label = nodes[name].labels.get(topology, name)
        if any(one in nodes and nodes[one].labels.get(topology, one) == label for one in beside):
            return True
    for spread in target.placement.spreads:
        zones = {node.labels.get(spread.topology): 0 for node in nodes.values() if _chosen(target, node)}
        for one in beside:
            if one in nodes and nodes[one].labels.get(spread.topology) in zones:
                zones[nodes[one].labels.get(spread.topology)] += 1
        zone = nodes[name].labels.get(spread.topology)
        if zone is None or zones[zone] + 1 - min(zones[one] for one in zones if one) > spread.most_more:
            return True
    return False


def _bound_together(
    pod: PodView, target: TargetView, nodes: dict[str, NodeView], free: dict[str, int], now: float
) -> PodView:
    """Each pod of a replica goes where it fits; some may wait while others hold their GPUs."""
    found = list(pod.nodes)
    while len(found) < target.pods_per_replica:
        fits = [name for name in sorted(free) if free[name] >= target.gpus_per_pod and lands(target, nodes[name])]
        if not fits:
            return replace(pod, place=Place(pod.ordinal or 0, tuple(found)))
        free[fits[0]] -= target.gpus_per_pod
        found.append(fits[0])
    place = Place(pod.ordinal or 0, tuple(found[1:]))
    return replace(pod, node=found[0], phase="loading", since=now, begun=False, place=place)


def lands(target: TargetView, node: NodeView) -> bool:
    """Selector and taints let the target's pods onto the node."""
    hard = [taint for taint in node.taints if taint.effect in {"NoSchedule", "NoExecute"}]
    return _chosen(target, node) and all(any(one.tolerates(taint) for one in target.tolerations) for taint in hard)


def _chosen(target: TargetView, node: NodeView) -> bool:
    """Selector and required affinity name the node: by default a spread counts it whatever its taints."""
    terms = target.placement.terms
    selected = all(node.labels.get(key) == value for key, value in target.node_selector.items())
    return selected and (not terms or any(term.holds(node.name, node.labels) for term in terms))


def vanish(snapshot: Snapshot) -> Snapshot:
    """Terminating pods are gone."""
    return on_pods(snapshot, lambda pod: None if pod.phase == "terminating" else pod)


def become_ready(snapshot: Snapshot) -> Snapshot:
    """Loading pods are Ready."""
    return on_pods(
        snapshot,
        lambda pod: replace(pod, phase="ready", since=snapshot.at, begun=True) if pod.phase == "loading" else pod,
    )


# --- nodes


def launch(snapshot: Snapshot, pool: str, gpus: int) -> Snapshot:
    """Karpenter adds nodes of `gpus` GPUs for pods that fit on no node of the pool, as far as its limits allow.

    GPUs that are free where a pod may not land keep no node from coming for it.
    """
    nodes, free = free_gpus(snapshot)
    here = next(view for view in snapshot.pools if view.name == pool)
    rooms = {node.name: free[node.name] for node in here.nodes if node.name in free}
    for target in _waiting(snapshot, pool):
        fits = [name for name, room in rooms.items() if room >= target.gpus_per_pod and lands(target, nodes[name])]
        if not fits and target.gpus_per_pod <= gpus:
            snapshot, come = _launched(snapshot, pool, gpus)
            nodes |= {node.name: node for node in come}
            rooms |= {node.name: node.gpus for node in come}
            fits = [node.name for node in come]
        if fits:
            rooms[fits[0]] -= target.gpus_per_pod
    return snapshot


def _waiting(snapshot: Snapshot, pool: str) -> list[TargetView]:
    """The target of every pod that waits for a node of the pool."""
    targets = [target for model in snapshot.models for target in model.targets if target.pool == pool]
    waiting = [(target, pod) for target in targets for pod in target.pods if pod.phase == "pending" and not pod.node]
    return [target for target, pod in waiting for _ in range(target.pods_per_replica - len(pod.nodes))]


def _launched(snapshot: Snapshot, pool: str, gpus: int) -> tuple[Snapshot, tuple[NodeView, ...]]:
    """One node of the first NodePool whose limit allows it; none if none does."""
    view = next(each for each in snapshot.pools if each.name == pool)
    allowed = (each for each in view.node_pools if each.gpu_limit is None or each.gpus_used + gpus <= each.gpu_limit)
    node_pool = next(allowed, None)
    if node_pool is None:
        return snapshot, ()
    node = NodeView(
        name=f"{node_pool.name}-new-{next(_NUMBERS):09d}",
        gpus=gpus,
        ready=True,
        schedulable=True,
        ready_changed_at=snapshot.at,
        node_pool=node_pool.name,
        labels={"pool": pool},
    )
    used = replace(node_pool, gpus_used=node_pool.gpus_used + gpus)
    snapshot = _on_pool(snapshot, pool, lambda view: replace(view, nodes=(*view.nodes, node)))
    return _on_node_pool(snapshot, node_pool.name, lambda _: used), (node,)


def evict(snapshot: Snapshot, node: str) -> Snapshot:
    """Whatever runs on `node` is being deleted, as Karpenter's drain would."""
    return on_pods(
        snapshot, lambda pod: replace(pod, phase="terminating", since=snapshot.at) if pod.on((node,)) else pod
    )


def lose(snapshot: Snapshot, node: str) -> Snapshot:
    """`node` is gone, and its pods and its notice with it."""
    return collect(take_away(snapshot, node), node)


def collect(snapshot: Snapshot, node: str) -> Snapshot:
    """The garbage collector of pods has come by, 40-60 s after the node went: its pods are gone, and the notice."""
    notices = tuple(notice for notice in snapshot.notices if notice.node != node)
    return replace(on_pods(snapshot, lambda pod: None if pod.on((node,)) else pod), notices=notices)


def take_away(snapshot: Snapshot, node: str) -> Snapshot:
    """The Node is gone: its pods are Ready by their last word, and serve nobody."""
    snapshot = on_pods(
        snapshot, lambda pod: replace(pod, phase="lost") if pod.on((node,)) and pod.phase == "ready" else pod
    )
    pools = []
    for pool in snapshot.pools:
        lost = next((each for each in pool.nodes if each.name == node), None)
        behind = lost.node_pool if lost is not None else None
        node_pools = tuple(
            replace(view, gpus_used=max(0, view.gpus_used - lost.gpus)) if lost and view.name == behind else view
            for view in pool.node_pools
        )
        left = tuple(each for each in pool.nodes if each.name != node)
        pools.append(replace(pool, nodes=left, node_pools=node_pools))
    return replace(snapshot, pools=tuple(pools))


# --- time, and looking


def later(snapshot: Snapshot, seconds: float) -> Snapshot:
    """The next cycle's snapshot: later, readings as fresh as before, last cycle's outcomes consumed."""
    loads = []
    for load in snapshot.loads:
        signals = {
            name: replace(one, at=one.at + seconds) if isinstance(one, Reading) else one
            for name, one in load.signals.items()
        }
        loads.append(replace(load, signals=signals))
    return replace(snapshot, at=snapshot.at + seconds, cycle=snapshot.cycle + 1, loads=tuple(loads), outcomes=())


def replicas(snapshot: Snapshot) -> dict[str, int]:
    """spec.replicas per model."""
    return {model.id: sum(target.replicas for target in model.targets) for model in snapshot.models}


# --- how to change a part of a frozen whole


def on_target(snapshot: Snapshot, model: str, pool: str, change: Callable[[TargetView], TargetView]) -> Snapshot:
    """`snapshot` with one target changed."""

    def changed(view: ModelView) -> ModelView:
        if view.id != model:
            return view
        return replace(view, targets=tuple(change(each) if each.pool == pool else each for each in view.targets))

    return replace(snapshot, models=tuple(changed(view) for view in snapshot.models))


def on_pods(snapshot: Snapshot, change: Callable[[PodView], PodView | None]) -> Snapshot:
    """`snapshot` with every pod changed; None takes it away."""

    def changed(target: TargetView) -> TargetView:
        return replace(target, pods=tuple(new for pod in target.pods if (new := change(pod)) is not None))

    models = (replace(view, targets=tuple(map(changed, view.targets))) for view in snapshot.models)
    return replace(snapshot, models=tuple(models))


def _on_pool(snapshot: Snapshot, name: str, change: Callable[[PoolView], PoolView]) -> Snapshot:
    return replace(snapshot, pools=tuple(change(pool) if pool.name == name else pool for pool in snapshot.pools))


def _on_node_pool(snapshot: Snapshot, name: str, change: Callable[[NodePoolView], NodePoolView]) -> Snapshot:
    def changed(pool: PoolView) -> PoolView:
        return replace(pool, node_pools=tuple(change(each) if each.name == name else each for each in pool.node_pools))

    return replace(snapshot, pools=tuple(changed(pool) for pool in snapshot.pools))
