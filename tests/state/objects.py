"""Builders of what comes in: Kubernetes objects and events, as `tests.builders` builds what goes out.

A resource version is a number that the caller raises; `listed` and friends wrap objects into events.
"""

from itertools import count

from msgspec.structs import replace

from rebalancer.domain.autoscalers import Hpa, Originals, ScaledObject
from rebalancer.domain.cluster import SOURCES, ClusterObject, Node, NodeClaim, NodePool, Pod, Taint, Workload
from rebalancer.domain.events import (
    CapacityNotice,
    Counters,
    Event,
    Gauges,
    MetricSample,
    ObjectChanged,
    ObjectGone,
    ObjectsListed,
    Position,
)
from rebalancer.domain.policy import Policy
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state import ClusterState
from tests.builders import NAMESPACE, NOW, a_policy

GPU = "nvidia.com/gpu"
DISRUPTED = Taint("karpenter.sh/disrupted", "", "NoSchedule")
SOURCE_OF = {kind: source for source, kind in SOURCES.items()}

_ids = count()


def ref(name: str = "b") -> WorkloadRef:
    return WorkloadRef(NAMESPACE, "Deployment", name)


def a_workload(name: str = "b", replicas: int = 1, **overrides: object) -> Workload:
    workload = Workload(ref=ref(name), uid=f"uid-{name}", resource_version="1", replicas=replicas, gpus={GPU: 1})
    return replace(workload, **overrides)


def a_ready_pod(name: str = "b-1", workload: str | None = "b", node: str | None = "n1", **overrides: object) -> Pod:
    """A one-GPU pod made at NOW - 600, Ready since NOW - 540, its UID is `uid-NAME`."""
    pod = Pod(
        namespace=NAMESPACE,
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        workload=ref(workload) if workload is not None else None,
        node=node,
        gpus={GPU: 1},
        phase="Running",
        ready=True,
        ready_at=NOW - 540.0,
        created_at=NOW - 600.0,
    )
    return replace(pod, **overrides)


def a_pending_pod(name: str = "b-1", workload: str | None = "b", **overrides: object) -> Pod:
    """Made a minute ago, without a node."""
    return replace(
        a_ready_pod(name, workload, node=None, phase="Pending", ready=False, ready_at=None, created_at=NOW - 60.0),
        **overrides,
    )


def a_cluster_node(name: str = "n1", pool: str = "a100", gpus: int = 8, **overrides: object) -> Node:
    """A Ready node of `pool` on cloud instance `i-NAME`; Karpenter's when the labels say so."""
    node = Node(
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        provider_id=f"aws:///eu-west-1a/i-{name}",
        labels={"pool": pool},
        allocatable={GPU: gpus},
        ready=True,
        ready_changed_at=NOW - 3600.0,
    )
    return replace(node, **overrides)


def a_karpenter_node(name: str = "s1", pool: str = "spot", **overrides: object) -> Node:
    return replace(
        a_cluster_node(name, pool, labels={"pool": pool, "karpenter.sh/nodepool": pool}),
        **overrides,
    )


def an_hpa(name: str = "b", target: str = "b", bounds: tuple[int, int] = (1, 4), **overrides: object) -> Hpa:
    hpa = Hpa(
        namespace=NAMESPACE,
        name=name,
        uid=f"uid-hpa-{name}",
        resource_version="1",
        target=ref(target),
        minimum=bounds[0],
        maximum=bounds[1],
    )
    return replace(hpa, **overrides)


def a_scaled_object(
    name: str = "b", target: str = "b", bounds: tuple[int | None, int | None] = (1, 4), **overrides: object
) -> ScaledObject:
    scaled = ScaledObject(
        namespace=NAMESPACE,
        name=name,
        uid=f"uid-so-{name}",
        resource_version="1",
        target=ref(target),
        minimum=bounds[0],
        maximum=bounds[1],
        hpa_name=f"keda-hpa-{name}",
        originals=Originals(1, 4),
    )
    return replace(scaled, **overrides)


def a_karpenter_pool(name: str = "spot", limit: int | None = 0, **overrides: object) -> NodePool:
    limits = {} if limit is None else {GPU: limit}
    return replace(NodePool(name=name, uid=f"uid-{name}", resource_version="1", limits=limits), **overrides)


def a_claim(name: str = "spot-x1", node_pool: str = "spot", **overrides: object) -> NodeClaim:
    claim = NodeClaim(
        name=name, uid=f"uid-{name}", resource_version="1", node_pool=node_pool, gpus={GPU: 8}, created_at=NOW - 30.0
    )
    return replace(claim, **overrides)


# --- events


def listed(source: str, *objects: ClusterObject, at: float = NOW) -> ObjectsListed:
    return ObjectsListed(source=source, at=at, objects=objects)


def changed(found: ClusterObject, at: float = NOW) -> ObjectChanged:
    return ObjectChanged(source=SOURCE_OF[type(found)], at=at, object=found)


def gone(found: ClusterObject, at: float = NOW) -> ObjectGone:
    return ObjectGone(source=SOURCE_OF[type(found)], at=at, object=found)


def a_sample(
    model: str = "b",
    pod: str | None = None,
    at: float = NOW,
    running: float | None = None,
    finished: float | None = None,
    **overrides: object,
) -> MetricSample:
    """One look of 5 s at `running` requests; `pod` is a pod's name. `gauges` adds or replaces gauges by name."""
    gauges = overrides.pop("gauges", {})
    assert isinstance(gauges, dict)
    sample = MetricSample(
        source="vllm",
        id=f"id-{next(_ids)}",
        at=at,
        model=model,
        interval_seconds=5.0,
        gauges=Gauges(**({"running": running} | gauges)),
        pod=f"uid-{pod}" if pod is not None else None,
        counters=Counters(start_time=NOW - 7200.0, requests_finished=finished) if finished is not None else None,
    )
    return replace(sample, **overrides)


def at_offset(sample: MetricSample, offset: int, partition: int = 0) -> MetricSample:
    return replace(sample, position=Position("metrics", partition, offset))


def a_told_notice(node: str | None = "n1", **overrides: object) -> CapacityNotice:
    """A spot interruption of `node` issued now for in two minutes."""
    notice = CapacityNotice(
        source="aws.ec2", id=f"id-{next(_ids)}", at=NOW, kind="spot-interruption", deadline=NOW + 120.0, node=node
    )
    return replace(notice, **overrides)


def a_state(policy: Policy | None = None, *objects: ClusterObject, started_at: float = NOW - 600.0) -> ClusterState:
    """A synced state that knows `objects`, a minute ago; wakes are taken.

    Pods are on nodes that are there, of no pool unless the node is among `objects`; so is n1 where no node is.
    """
    known = {found.name for found in objects if isinstance(found, Node)}
    named = {found.node for found in objects if isinstance(found, Pod) and found.node} | (set() if known else {"n1"})
    others = tuple(a_cluster_node(name, labels={}, resource_version="0") for name in sorted(named - known))
    state = ClusterState(policy or a_policy(), started_at=started_at)
    for source, kind in SOURCES.items():
        found = (each for each in (*objects, *others) if isinstance(each, kind))
        state.apply(listed(source, *found, at=NOW - 60.0), NOW - 60.0)
    state.take_wakes()
    return state


def feed(state: ClusterState, *events: Event, now: float = NOW) -> ClusterState:
    """Apply events one by one."""
    for event in events:
        state.apply(event, now)
    return state
