"""A tiny cluster that carries plans out on snapshots: what Kubernetes would do, one rule per function.

`write` does what a plan asks (as the gate would after an acknowledgement), `reconcile` what ReplicaSets and the
scheduler do, `vanish` ends terminating pods, `become_ready` starts loading ones. All return a new Snapshot.
"""

import itertools
from collections.abc import Iterable

from msgspec.structs import replace

from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.domain.plan import Change, NodePoolChange, Plan
from rebalancer.domain.snapshot import AutoscalerView, ModelView, PodView, Snapshot, TargetView
from rebalancer.domain.cluster import Originals
from rebalancer.planning.ledger import may_land
from rebalancer.planning.scene import keep_order

_UIDS = itertools.count()


def intent_of(change: Change, at: float, cycle: int) -> Intent:
    """The intent the gate would record."""
    owner = change.target.autoscaler
    return Intent(
        id=change.id,
        cycle=cycle,
        at=at,
        kind=change.kind,
        subject=change.model,
        object=f"deployment/{change.target.namespace}/{change.target.name}",
        replicas_from=change.replicas_from,
        replicas_to=change.replicas_to,
        reason=change.reason,
        pool=change.target.pool,
        shift=change.shift,
        counts=change.counts,
        recipients=change.recipients,
        replaces=change.replaces,
        grant=change.grant,
        node_pool=change.node_pool,
        minimum_from=owner.minimum if owner else None,
        minimum_to=change.minimum,
    )


def write(snapshot: Snapshot, change: Change) -> Snapshot:
    """The change is written: spec (and bounds) say so, victims carry a deletion cost, its outcome is on record."""
    outcome = Outcome(intent=intent_of(change, snapshot.at, snapshot.cycle), at=snapshot.at, status=WRITTEN)
    costs = {uid: -1000 + n for n, uid in enumerate(change.victims)}

    def changed(target: TargetView) -> TargetView:
        pods = tuple(replace(pod, deletion_cost=costs.get(pod.uid, pod.deletion_cost)) for pod in target.pods)
        return replace(target, replicas=change.replicas_to, pods=pods, autoscaler=_bounded(target.autoscaler, change))

    snapshot = _on_target(snapshot, change.model, change.target.pool, changed)
    return replace(snapshot, outcomes=(*snapshot.outcomes, outcome))


def _bounded(owner: AutoscalerView | None, change: Change) -> AutoscalerView | None:
    if owner is None:
        return None
    most = max(1, change.replicas_to)
    return replace(
        owner,
        minimum=change.minimum,
        maximum=most,
        effective_minimum=max(1, change.minimum),
        effective_maximum=most,
        originals=owner.originals or Originals(owner.minimum, owner.maximum),
    )


def write_node_pool(snapshot: Snapshot, change: NodePoolChange) -> Snapshot:
    """A NodePool's limit or hold is as the plan wants it."""
    pools = []
    for pool in snapshot.pools:
        views = tuple(
            view
            if view.name != change.name
            else replace(view, held=change.kind == "hold")
            if "hold" in change.kind
            else replace(view, gpu_limit=change.limit_to)
            for view in pool.node_pools
        )
        pools.append(replace(pool, node_pools=views))
    return replace(snapshot, pools=tuple(pools))


def execute(snapshot: Snapshot, plan: Plan, most: int | None = None) -> Snapshot:
    """The first `most` changes of a plan (all of them by default) are written."""
    for node_change in plan.node_pools:
        snapshot = write_node_pool(snapshot, node_change)
    for change in plan.changes[:most]:
        snapshot = write(snapshot, change)
    return snapshot


def reconcile(snapshot: Snapshot) -> Snapshot:
    """ReplicaSets delete the worst pods and create missing ones; the scheduler binds what fits, in order of age."""
    for model in snapshot.models:
        for target in model.targets:
            snapshot = _on_target(snapshot, model.id, target.pool, lambda each: _replicate(each, snapshot.at))
    return _schedule(snapshot)


def _replicate(target: TargetView, now: float) -> TargetView:
    alive = sorted((pod for pod in target.pods if pod.phase != "terminating"), key=keep_order)
    extra = {pod.uid for pod in alive[target.replicas :]}
    pods = [replace(pod, phase="terminating", since=now) if pod.uid in extra else pod for pod in target.pods]
    for _ in range(target.replicas - len(alive)):
        uid = f"uid-{target.name}-new-{next(_UIDS)}"
        pods.append(PodView(uid=uid, name=uid, node=None, phase="pending", since=now, created_at=now))
    return replace(target, pods=tuple(pods))


def _schedule(snapshot: Snapshot) -> Snapshot:
    nodes = {node.name: node for pool in snapshot.pools for node in pool.nodes if node.ready and node.schedulable}
    doomed = {notice.node for notice in snapshot.notices}
    free = {name: node.gpus - node.foreign_gpus for name, node in nodes.items()}
    for model in snapshot.models:
        for target in model.targets:
            for pod in target.pods:
                if pod.node in free:
                    free[pod.node] -= target.gpus_per_pod
    for model in snapshot.models:
        for target in model.targets:
            pods = []
            for pod in target.pods:
                fits = [name for name in sorted(free) if name not in doomed and free[name] >= target.gpus_per_pod and may_land(target, nodes[name])]
                if pod.node is None and pod.phase == "pending" and fits:
                    free[fits[0]] -= target.gpus_per_pod
                    pod = replace(pod, node=fits[0], phase="loading", since=snapshot.at)  # noqa: PLW2901  a new value
                pods.append(pod)
            snapshot = _on_target(snapshot, model.id, target.pool, lambda each, new=tuple(pods): replace(each, pods=new))
    return snapshot


def vanish(snapshot: Snapshot) -> Snapshot:
    """Terminating pods are gone."""
    return _on_every_target(snapshot, lambda each: replace(each, pods=tuple(pod for pod in each.pods if pod.phase != "terminating")))


def become_ready(snapshot: Snapshot) -> Snapshot:
    """Loading pods are Ready."""

    def ready(target: TargetView) -> TargetView:
        return replace(target, pods=tuple(replace(pod, phase="ready") if pod.phase == "loading" else pod for pod in target.pods))

    return _on_every_target(snapshot, ready)


def later(snapshot: Snapshot, seconds: float) -> Snapshot:
    """The next cycle's snapshot: later, readings as fresh as before, last cycle's outcomes consumed."""
    loads = []
    for load in snapshot.loads:
        signals = {name: replace(one, at=one.at + seconds) if hasattr(one, "at") else one for name, one in load.signals.items()}
        loads.append(replace(load, signals=signals))
    return replace(snapshot, at=snapshot.at + seconds, cycle=snapshot.cycle + 1, loads=tuple(loads), outcomes=())


def replicas(snapshot: Snapshot) -> dict[str, int]:
    """spec.replicas per model."""
    return {model.id: sum(target.replicas for target in model.targets) for model in snapshot.models}


def _on_every_target(snapshot: Snapshot, change: object) -> Snapshot:
    for model in snapshot.models:
        for target in model.targets:
            snapshot = _on_target(snapshot, model.id, target.pool, change)
    return snapshot


def _on_target(snapshot: Snapshot, model_id: str, pool: str, change: object) -> Snapshot:
    models: list[ModelView] = []
    for model in snapshot.models:
        targets: Iterable[TargetView] = model.targets
        if model.id == model_id:
            targets = (change(target) if target.pool == pool else target for target in targets)  # type: ignore[operator]
        models.append(replace(model, targets=tuple(targets)))
    return replace(snapshot, models=tuple(models))
