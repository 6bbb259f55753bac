"""What can be addressed on the API server, and the calls that address it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import quote

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON."""

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete"]

_METHODS: Final[Mapping[Verb, str]] = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object: where the API serves it and how its manifests call it.

    group: API group, as `apps`; "" of the core group.
    version: version of the group, as `v1`.
    plural: name in paths, as `deployments`.
    namespaced: whether its objects are in namespaces.
    kind: kind in manifests, as `Deployment`.
    """

    group: str
    version: str
    plural: str
    namespaced: bool
    kind: str

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None) -> str:
        """Path of the collection: of one namespace, or of the whole cluster."""
        base = f"/{'apis' if self.group else 'api'}/{self.api_version}"
        if namespace is not None and self.namespaced:
            base += f"/namespaces/{quote(namespace, safe='')}"
        return f"{base}/{self.plural}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def served_as(path: str, kind: str) -> Resource:
    """The namespaced resource that `apps/v1/statefulsets` names."""
    api_version, _, plural = path.rpartition("/")
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, plural, namespaced=True, kind=kind)


@dataclass(frozen=True, slots=True)
class Ref:
    """The address of one object; `namespace` is ignored for cluster-scoped resources."""

    resource: Resource
    namespace: str | None
    name: str

    @property
    def path(self) -> str:
        """Path of the object."""
        if self.resource.namespaced and not self.namespace:
            raise ValueError(f"{self.resource} {self.name!r} is namespaced: name its namespace")
        return f"{self.resource.path(self.namespace)}/{quote(self.name, safe='')}"


@dataclass(frozen=True, slots=True)
class Call:
    """One request, in the words of RBAC: a verb on a resource or subresource.

    verb: what is done.
    resource: what it is done to.
    path: path of the object or collection, without the subresource.
    subresource: name of the subresource, as `scale`; "" where the object itself is meant.
    query: parameters of the query, by name.
    body: what is sent, None where nothing is.
    content_type: media type of the body.
    """

    verb: Verb
    resource: Resource
    path: str
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"

    @property
    def method(self) -> str:
        """The HTTP method."""
        return _METHODS[self.verb]

    @property
    def full_path(self) -> str:
        """The path, subresource included."""
        return f"{self.path}/{self.subresource}" if self.subresource else self.path

    @property
    def writes(self) -> bool:
        """Whether a lost reply leaves open if something was changed."""
        return self.method != "GET"

    @property
    def target(self) -> str:
        """The resource as an RBAC rule names it, such as `deployments/scale`."""
        return "/".join(filter(None, (self.resource.plural, self.subresource)))

    def __str__(self) -> str:
        return f"{self.verb} {self.full_path}"


PODS: Final = Resource("", "v1", "pods", namespaced=True, kind="Pod")
NODES: Final = Resource("", "v1", "nodes", namespaced=False, kind="Node")
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", namespaced=False, kind="DeviceClass")
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", namespaced=False, kind="ResourceSlice")
RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", namespaced=True, kind="ResourceClaim")
CLAIM_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", namespaced=True, kind="ResourceClaimTemplate"
)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", namespaced=True, kind="Deployment")
STATEFULSETS: Final = Resource("apps", "v1", "statefulsets", namespaced=True, kind="StatefulSet")
REPLICASETS: Final = Resource("apps", "v1", "replicasets", namespaced=True, kind="ReplicaSet")
HPAS: Final = Resource(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    namespaced=True,
    kind="HorizontalPodAutoscaler",
)
SCALEDOBJECTS: Final = Resource("keda.sh", "v1alpha1", "scaledobjects", namespaced=True, kind="ScaledObject")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", namespaced=True, kind="ConfigMap")
NODEPOOLS: Final = Resource("karpenter.sh", "v1", "nodepools", namespaced=False, kind="NodePool")
POD_AUTOSCALERS: Final = Resource(
    "autoscaling.aibrix.ai", "v1alpha1", "podautoscalers", namespaced=True, kind="PodAutoscaler"
)
NODECLAIMS: Final = Resource("karpenter.sh", "v1", "nodeclaims", namespaced=False, kind="NodeClaim")
OVERRIDES: Final = Resource("rebalancer.io", "v1alpha1", "overrides", namespaced=True, kind="Override")
WRITESTOPS: Final = Resource("rebalancer.io", "v1alpha1", "writestops", namespaced=False, kind="WriteStop")
QUOTAS: Final = Resource("", "v1", "resourcequotas", namespaced=True, kind="ResourceQuota")
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", namespaced=True, kind="LimitRange")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False, kind="PriorityClass")
JOBS: Final = Resource("batch", "v1", "jobs", namespaced=True, kind="Job")
LOCAL_QUEUES: Final = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", namespaced=True, kind="LocalQueue")
CLUSTER_QUEUES: Final = Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", namespaced=False, kind="ClusterQueue")
COHORTS: Final = Resource("kueue.x-k8s.io", "v1beta2", "cohorts", namespaced=False, kind="Cohort")
FLAVORS: Final = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", namespaced=False, kind="ResourceFlavor")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", namespaced=True, kind="Event")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", namespaced=True, kind="Lease")
SERVICEACCOUNTS: Final = Resource("", "v1", "serviceaccounts", namespaced=True, kind="ServiceAccount")
CUSTOM_RESOURCES: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False, kind="CustomResourceDefinition"
)
SELF_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", namespaced=False, kind="SelfSubjectReview"
)
TOKENREVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False, kind="TokenReview")
ACCESSREVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False, kind="SubjectAccessReview"
)
SELF_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False, kind="SelfSubjectAccessReview"
)
