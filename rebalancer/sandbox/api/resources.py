"""Which resources the embedded API serves, and how a request path names them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

Obj = dict[str, Any]  # one Kubernetes object as decoded JSON

CORE_DEPTH = 2  # /api/v1
GROUP_DEPTH = 3  # /apis/GROUP/VERSION
ITEM_DEPTH = 2  # PLURAL/NAME
SUBRESOURCE_DEPTH = 3  # PLURAL/NAME/SUBRESOURCE


@dataclass(frozen=True)
class ServedResource:
    """One served resource.

    group: its API group, "" for the core group.
    version: its API version, as `v1`.
    plural: its name in paths, as `deployments`.
    kind: kind of its objects, as `Deployment`.
    namespaced: whether its objects live in namespaces.
    custom: whether it comes from a CRD: then it knows no strategic merge patch.
    status: whether it has the subresource `status`: then its objects also have a generation.
    scale: whether it has the subresource `scale`.
    short: its short name for kubectl, as `deploy`; "" where it has none.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    custom: bool = False
    status: bool = True
    scale: bool = False
    short: str = ""

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects: `v1` or `GROUP/VERSION`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def guarded(self) -> bool:
        """Whether a PUT must name the resourceVersion it replaces."""
        return self.custom or self.plural == "leases"

    @property
    def subresources(self) -> tuple[str, ...]:
        """Names of what hangs below one object."""
        evictable = self.plural == "pods" and not self.group
        offered = (("status", self.status), ("scale", self.scale), ("eviction", evictable))
        return tuple(name for name, there in offered if there)


NAMESPACES = ServedResource("", "v1", "namespaces", "Namespace", namespaced=False, short="ns")
NODES = ServedResource("", "v1", "nodes", "Node", namespaced=False, short="no")
PODS = ServedResource("", "v1", "pods", "Pod", short="po")
CONFIG_MAPS = ServedResource("", "v1", "configmaps", "ConfigMap", status=False, short="cm")
CORE_EVENTS = ServedResource("", "v1", "events", "Event", status=False)
EVENTS = ServedResource("events.k8s.io", "v1", "events", "Event", status=False)
DEPLOYMENTS = ServedResource("apps", "v1", "deployments", "Deployment", scale=True, short="deploy")
STATEFULSETS = ServedResource("apps", "v1", "statefulsets", "StatefulSet", scale=True, short="sts")
REPLICASETS = ServedResource("apps", "v1", "replicasets", "ReplicaSet", scale=True, short="rs")
HPAS = ServedResource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", short="hpa")
DISRUPTION_BUDGETS = ServedResource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short="pdb")
LEASES = ServedResource("coordination.k8s.io", "v1", "leases", "Lease", status=False)
SCALEDOBJECTS = ServedResource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject", custom=True, short="so")
NODEPOOLS = ServedResource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False, custom=True)
POD_AUTOSCALERS = ServedResource("autoscaling.aibrix.ai", "v1alpha1", "podautoscalers", "PodAutoscaler", custom=True)
NODECLAIMS = ServedResource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False, custom=True)
OVERRIDES = ServedResource("rebalancer.io", "v1alpha1", "overrides", "Override", custom=True)
WRITESTOPS = ServedResource("rebalancer.io", "v1alpha1", "writestops", "WriteStop", namespaced=False, custom=True)

QUOTAS = ServedResource("", "v1", "resourcequotas", "ResourceQuota", short="quota")
LIMIT_RANGES = ServedResource("", "v1", "limitranges", "LimitRange", status=False, short="limits")
PRIORITY_CLASSES = ServedResource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, status=False, short="pc"
)
JOBS = ServedResource("batch", "v1", "jobs", "Job")
LOCAL_QUEUES = ServedResource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", custom=True)
CLUSTER_QUEUES = ServedResource(
    "kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False, custom=True, short="cq"
)
COHORTS = ServedResource("kueue.x-k8s.io", "v1beta2", "cohorts", "Cohort", namespaced=False, custom=True)
FLAVORS = ServedResource(
    "kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False, custom=True, status=False
)

RESOURCES = (
    *(NAMESPACES, NODES, PODS, CORE_EVENTS, EVENTS, DEPLOYMENTS, STATEFULSETS, REPLICASETS, HPAS, DISRUPTION_BUDGETS),
    *(CONFIG_MAPS, LEASES, SCALEDOBJECTS, POD_AUTOSCALERS, NODEPOOLS, NODECLAIMS, OVERRIDES, WRITESTOPS),
    *(QUOTAS, LIMIT_RANGES, PRIORITY_CLASSES, JOBS, LOCAL_QUEUES, CLUSTER_QUEUES, COHORTS, FLAVORS),
)


@dataclass(frozen=True)
class Target:
    """What a request path points at.

    resource: the kind of objects that the path names.
    namespace: the namespace; "" for all of them, and where the resource has none.
    name: name of the object, "" for the collection.
    subresource: `status`, `scale` or `eviction`; "" for the object itself.
    """

    resource: ServedResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class ResourceTable:
    """The served resources, found by path or by an object's `apiVersion` and `kind`; and their discovery documents."""

    def __init__(self, resources: Iterable[ServedResource]) -> None:
        self.resources = tuple(resources)
        self._by_path = {(r.group, r.version, r.plural): r for r in self.resources}
        self._by_kind = {(r.api_version, r.kind): r for r in self.resources}

    def of(self, obj: Obj) -> ServedResource:
        """The resource of an object. Raises KeyError, naming the kind, when it is not served."""
        return self._by_kind[(obj["apiVersion"], obj["kind"])]

    def target(self, path: str) -> Target | None:
        """What `path` points at, None when nothing of ours."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > CORE_DEPTH:
            return self._target("", parts[1], parts[CORE_DEPTH:])
        if parts[0] == "apis" and len(parts) > GROUP_DEPTH:
            return self._target(parts[1], parts[2], parts[GROUP_DEPTH:])
        return None

    def _target(self, group: str, version: str, rest: list[str]) -> Target | None:
        namespace = ""
        # namespaces/NS/status is the Namespace's own; anything else after namespaces/NS lies inside it.
        if rest[0] == "namespaces" and len(rest) > ITEM_DEPTH and rest[ITEM_DEPTH] != "status":
            namespace, rest = rest[1], rest[ITEM_DEPTH:]
        resource = self._by_path.get((group, version, rest[0]))
        if resource is None or len(rest) > SUBRESOURCE_DEPTH or (namespace and not resource.namespaced):
            return None
        name, subresource = (*rest[1:], "", "")[:ITEM_DEPTH]
        if (subresource and subresource not in resource.subresources) or (
            name and not namespace and resource.namespaced
        ):
            return None
        return Target(resource, namespace, name, subresource)

    def discovery(self, path: str) -> Obj | None:
        """The discovery document at `path` (`/api`, `/apis`, `/apis/GROUP`, `/apis/GROUP/VERSION`), None if none."""
        parts = path.strip("/").split("/")
        if parts == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        if parts == ["apis"]:
            groups = sorted({r.group for r in self.resources if r.group})
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(group) for group in groups]}
        if parts[0] == "apis" and len(parts) == CORE_DEPTH and any(r.group == parts[1] for r in self.resources):
            return {"kind": "APIGroup", "apiVersion": "v1", **self._group(parts[1])}
        served = [r for r in self.resources if r.api_version == "/".join(parts[1:])]
        if served and parts[0] in {"api", "apis"}:
            entries = [entry for resource in served for entry in _discovered(resource)]
            return {"kind": "APIResourceList", "groupVersion": served[0].api_version, "resources": entries}
        return None

    def _group(self, group: str) -> Obj:
        versions = [
            {"groupVersion": api_version, "version": api_version.rpartition("/")[2]}
            for api_version in sorted({r.api_version for r in self.resources if r.group == group})
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}


_ALL: Final = {"pods", "deployments", "replicasets", "statefulsets", "horizontalpodautoscalers", "jobs"}
"""What `kubectl get all` asks for of the resources served here."""


def _discovered(resource: ServedResource) -> list[Obj]:
    """The entries of one resource and its subresources in an APIResourceList."""
    common = {"singularName": resource.kind.lower(), "namespaced": resource.namespaced, "kind": resource.kind}
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    short = [resource.short] if resource.short else []
    categories = ["all"] if resource.plural in _ALL else []
    whole = {"name": resource.plural, "verbs": verbs, "shortNames": short, "categories": categories, **common}
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    parts = [
        {"name": f"{resource.plural}/{part}", "verbs": ["get", "patch", "update"], **common}
        | (scale if part == "scale" else {})
        for part in resource.subresources
    ]
    return [whole, *parts]
