"""Builders make a test say one thing: sensible values, with the point of the test as keyword overrides.

Policy: `a_policy`, `a_pool`, `a_model`, `a_target_spec`. Snapshot: `a_snapshot` builds a whole world from a policy and
replicas per model; `a_node`, `a_pod`, `a_target`, `an_autoscaler`, `a_load`, ... build its parts. Everything is seen
at `NOW`. Overrides are fields of the built value; an unknown one is an error.
"""

from collections.abc import Iterable, Mapping

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from rebalancer.domain.node_groups import NodeGroupView
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.pool_view import NodeClaimView, NodePoolView, NodeView, PoolView
from rebalancer.domain.readings import ModelLoad, NoReading, Reading, Signal, Work
from rebalancer.domain.snapshot import (
    AutoscalerView,
    ModelView,
    NoticeView,
    Place,
    PodView,
    Shape,
    Snapshot,
    TargetView,
)
from rebalancer.domain.sync import Sync
from rebalancer.domain.target_kinds import DEPLOYMENT, kind_named
from rebalancer.domain.target_spec import TargetSpec

NOW = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC
NAMESPACE = "serving"
GPUS_PER_NODE = 8
SIGNALS = ("concurrency", "queue", "kvCache", "latency", "utilisation")

Replicas = int | Mapping[str, int]  # on the model's first target, or per pool

# --- policy


def a_pool(name: str = "a100", gpus: int = 8, **overrides: object) -> Pool:
    """A primary pool of `gpus` GPUs whose nodes carry the label `pool: NAME`."""
    fields = {"name": name, "kind": "primary", "node_labels": {"pool": name}, "gpu_limit": gpus}
    return Pool.model_validate(fields | overrides)


def an_elastic_pool(name: str = "spot", gpus: int = 16, **overrides: object) -> Pool:
    """A spot pool that Karpenter's NodePool of the same name fills."""
    fields = {"kind": "elastic", "capacity_type": "spot", "node_pools": (name,), "price_per_gpu_hour": 1.0}
    return a_pool(name, gpus, **(fields | overrides))


def a_target_spec(pool: str = "a100", name: str = "b", **overrides: object) -> TargetSpec:
    """Deployment `name` in `pool`."""
    return TargetSpec.model_validate({"pool": pool, "name": name} | overrides)


def a_model(id: str = "b", min_replicas: int = 1, **overrides: object) -> Model:  # noqa: A002  the domain's word
    """One GPU per replica, one Deployment (or `kind`) of the same name in pool a100, 4 requests in flight per replica.

    `pools=("a100", "spot")` gives it one target per pool: `id` in the first, `id-POOL` in the others. `signals` is a
    mapping as in YAML or a `Signals`.
    """
    pools, kind = overrides.pop("pools", ("a100",)), overrides.pop("kind", "Deployment")
    assert isinstance(pools, tuple)
    targets = tuple(a_target_spec(pool, id if n == 0 else f"{id}-{pool}", kind=kind) for n, pool in enumerate(pools))
    fields: dict[str, object] = {
        "id": id,
        "namespace": NAMESPACE,
        "targets": targets,
        "gpus_per_replica": 1,
        "min_replicas": min_replicas,
        "max_replicas": 100,
        "entitlement": min_replicas,
        "signals": {"concurrency": {"per_replica": 4.0}},
    }
    return Model.model_validate(fields | overrides)


def a_policy(*models: Model, pools: Iterable[Pool] = (), **overrides: object) -> Policy:
    """Models a and b on one primary pool of 8 GPUs, unless told otherwise."""
    fields: dict[str, object] = {
        "api_version": "rebalancer.io/v1alpha1",
        "kind": "Policy",
        "pools": tuple(pools) or (a_pool(),),
        "models": models or (a_model("a"), a_model("b")),
    }
    return Policy.model_validate(fields | overrides)


# --- the parts of a snapshot


def a_node(name: str = "n1", gpus: int = GPUS_PER_NODE, **overrides: object) -> NodeView:
    """A Ready, schedulable node."""
    return replace(NodeView(name=name, gpus=gpus, ready=True, schedulable=True), **overrides)


def a_pod(name: str = "b-1", node: str | None = "n1", **overrides: object) -> PodView:
    """A pod that has been Ready for an hour; its UID is `uid-NAME`."""
    pod = PodView(uid=f"uid-{name}", name=name, node=node, phase="ready", since=NOW - 3600.0, created_at=NOW - 3700.0)
    return replace(pod, **overrides)


def an_autoscaler(minimum: int = 1, maximum: int = 4, **overrides: object) -> AutoscalerView:
    """A ScaledObject named `b` whose HPA shows the same bounds (`effective_*` follow unless given)."""
    view = AutoscalerView(
        kind="ScaledObject",
        name="b",
        uid="uid-so-b",
        resource_version="1",
        minimum=minimum,
        maximum=maximum,
        effective_minimum=minimum,
        effective_maximum=maximum,
    )
    return replace(view, **overrides)


def a_target(name: str = "b", replicas: int = 0, pool: str = "a100", **overrides: object) -> TargetView:
    """A Deployment with `replicas` Ready one-GPU pods on node n1; give `pods` to say otherwise."""
    pods = tuple(a_pod(f"{name}-{n}") for n in range(replicas))
    target = TargetView(
        pool=pool,
        namespace=NAMESPACE,
        kind="Deployment",
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        replicas=replicas,
        gpus_per_pod=1,
        node_selector={"pool": pool},
        pods=pods,
    )
    return replace(target, **overrides)


def a_model_view(id: str = "b", *targets: TargetView, load_seconds: float | None = None) -> ModelView:  # noqa: A002  the domain's word
    """A model with one empty target of its own name unless told otherwise."""
    return ModelView(id=id, targets=targets or (a_target(id),), load_seconds=load_seconds)


def a_node_pool(name: str = "spot", gpu_limit: int | None = 0, **overrides: object) -> NodePoolView:
    """A Karpenter NodePool without nodes."""
    pool = NodePoolView(name=name, uid=f"uid-{name}", resource_version="1", gpu_limit=gpu_limit, gpus_used=0)
    return replace(pool, **overrides)


def a_node_group(name: str = "eks-gpu-*", nodes: int = 0, most: int = 4, **overrides: object) -> NodeGroupView:
    """A node group of Cluster Autoscaler that has the nodes it asked for, told of within the minute."""
    return replace(NodeGroupView(name, NOW - 20.0, nodes, nodes, most), **overrides)


def a_node_claim(name: str = "spot-x1", gpus: int = GPUS_PER_NODE, **overrides: object) -> NodeClaimView:
    """A node asked for at NOW - 30 s and not there yet."""
    return replace(NodeClaimView(name=name, gpus=gpus, created_at=NOW - 30.0), **overrides)


def a_notice(node: str = "n1", **overrides: object) -> NoticeView:
    """A spot interruption told now, two minutes ahead."""
    notice = NoticeView(node=node, kind="spot-interruption", since=NOW, deadline=NOW + 120.0, source="aws.ec2")
    return replace(notice, **overrides)


def an_override(kind: str = "pin", subject: str = "b", value: int | None = None, **overrides: object) -> Override:
    """An override by alice for the next hour; drain and exclude are about a node unless `subject_kind` says pool."""
    override = Override(
        name=f"{kind}-{subject}",
        namespace=NAMESPACE,
        uid=f"uid-{kind}-{subject}",
        resource_version="1",
        kind=kind,
        subject=subject,
        subject_kind="node" if kind in {"drain", "exclude"} else "model",
        reason="test",
        actor="alice",
        created_at=NOW - 60.0,
        expires_at=NOW + 3600.0,
        value=value,
    )
    return replace(override, **overrides)


def a_write_stop(**overrides: object) -> WriteStop:
    """The red button, pressed by alice a minute ago."""
    stop = WriteStop(
        name="stop", uid="uid-stop", resource_version="1", reason="test", actor="alice", created_at=NOW - 60.0
    )
    return replace(stop, **overrides)


# --- readings


def a_reading(value: float, at: float = NOW - 1.0, coverage: float = 1.0) -> Reading:
    """A reading one second old that covers every Ready pod."""
    return Reading(value=value, at=at, coverage=coverage)


def some_work(level: float) -> Work:
    """Steady offered work of `level` busy replicas in every window."""
    return Work(short=level, last_60s=level, long=level, slow=level)


def a_load(
    model: str = "b",
    readings: Mapping[str, float | Signal] | None = None,
    work: float | Work = 0.0,
    **overrides: object,
) -> ModelLoad:
    """Signals of `model` by name, as numbers (seen a second ago on every pod) or as readings; others were never seen.

    `work` is a steady level or a `Work`. The service has seen many live intervals of 5 s.
    """
    signals: dict[str, Signal] = {name: NoReading("never-seen") for name in SIGNALS}
    for name, value in (readings or {}).items():
        signals[name] = a_reading(value) if isinstance(value, float | int) else value
    load = ModelLoad(
        model=model,
        signals=signals,
        work=work if isinstance(work, Work) else some_work(work),
        interval_seconds=5.0,
        intervals_live=100,
    )
    return replace(load, **overrides)


# --- the whole


def a_snapshot(
    policy: Policy | None = None,
    replicas: Mapping[str, Replicas] | None = None,
    readings: Mapping[str, Mapping[str, float | Signal]] | None = None,
    work: Mapping[str, float | Work] | None = None,
    nodes: Mapping[str, int] | None = None,
    **overrides: object,
) -> Snapshot:
    """A synced world for `policy`: Ready pods for `replicas`, loads from `readings` and `work`, by model id.

    `nodes` says how many nodes of 8 GPUs a pool has; by default a primary pool has as many as its limit, an elastic
    one none. Pods fill the nodes in order; what does not fit stays pending. Fields of Snapshot override the result.
    """
    policy = policy or a_policy()
    rooms = {pool.name: _nodes_of(pool, (nodes or {}).get(pool.name)) for pool in policy.pools}
    free = {pool: {node.name: node.gpus for node in rooms[pool]} for pool in rooms}
    models = [_holdings(model, (replicas or {}).get(model.id, 0), free) for model in policy.models]
    loads = [
        a_load(model.id, (readings or {}).get(model.id), (work or {}).get(model.id, 0.0)) for model in policy.models
    ]
    snapshot = Snapshot(
        cycle=1,
        at=NOW,
        sync=Sync(synced_at=NOW - 600.0),
        pools=tuple(sorted((_pool_view(pool, rooms[pool.name]) for pool in policy.pools), key=lambda v: v.name)),
        models=tuple(sorted(models, key=lambda view: view.id)),
        loads=tuple(sorted(loads, key=lambda load: load.model)),
    )
    return replace(snapshot, **overrides)


def _nodes_of(pool: Pool, count: int | None) -> tuple[NodeView, ...]:
    """Full nodes, and a last one with what is left of the pool's limit."""
    total = (pool.gpu_limit if pool.kind == "primary" else 0) if count is None else count * GPUS_PER_NODE
    sizes = [min(GPUS_PER_NODE, total - start) for start in range(0, total, GPUS_PER_NODE)]
    node_pool = pool.node_pools[0] if pool.node_pools else None
    return tuple(
        a_node(f"{pool.name}-{n}", gpus, node_pool=node_pool, labels=dict(pool.node_labels))
        for n, gpus in enumerate(sizes, 1)
    )


def _pool_view(pool: Pool, nodes: tuple[NodeView, ...]) -> PoolView:
    used = sum(node.gpus for node in nodes)
    node_pools = tuple(
        a_node_pool(name, gpu_limit=used if n == 0 else 0, gpus_used=used if n == 0 else 0)
        for n, name in enumerate(pool.node_pools)
    )
    return PoolView(
        name=pool.name,
        nodes=nodes,
        node_pools=tuple(sorted(node_pools, key=lambda view: view.name)),
        node_groups=tuple(a_node_group(name, len(nodes), 100) for name in pool.node_groups),
    )


def _holdings(model: Model, replicas: Replicas, free: dict[str, dict[str, int]]) -> ModelView:
    wanted = replicas if isinstance(replicas, Mapping) else {model.targets[0].pool: replicas}
    targets = []
    for spec in model.targets:
        count = wanted.get(spec.pool, 0)
        pods = [_replica(model, spec, n, free[spec.pool]) for n in range(count)]
        view = a_target(
            spec.name,
            pool=spec.pool,
            replicas=count,
            namespace=model.namespace,
            kind=spec.kind,
            gpus_per_pod=model.gpus_per_pod,
            shape=a_shape(spec.kind, model.pods_per_replica, model.gpus_per_replica),
        )
        targets.append(replace(view, pods=tuple(sorted(pods, key=lambda pod: pod.uid))))
    return ModelView(id=model.id, targets=tuple(sorted(targets, key=lambda view: view.pool)))


def a_shape(kind: str, pods: int = 1, gpus: int = 1) -> Shape | UnsetType:
    """What sets a target of `kind` apart, whose replicas are `pods` pods with `gpus` GPUs together."""
    found = kind_named(kind)
    assert found is not None
    return UNSET if kind == DEPLOYMENT else Shape(f"{found.api_version}/{found.plural}", found.victims, pods, gpus)


def _replica(model: Model, spec: TargetSpec, number: int, free: dict[str, int]) -> PodView:
    """One replica: its pods on the first nodes with room."""
    pods = [_placed(f"{spec.name}-{number}", model.gpus_per_pod, free) for _ in range(model.pods_per_replica)]
    if spec.of.victims != "ordinal":
        return pods[0]
    nodes = tuple(pod.node for pod in pods if pod.node is not None)
    if len(nodes) < len(pods):
        return replace(pods[-1], node=None, place=Place(number, nodes))
    return replace(pods[0], place=Place(number, nodes[1:]))


def _placed(name: str, gpus: int, free: dict[str, int]) -> PodView:
    """A Ready pod on the first node with room, else a pending one."""
    for node, left in free.items():
        if left >= gpus:
            free[node] -= gpus
            return a_pod(name, node)
    return a_pod(name, None, phase="pending", since=NOW - 60.0, created_at=NOW - 60.0)
