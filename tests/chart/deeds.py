"""What a thief of our account's token would try, and what the chart's RBAC and admission policies answer."""

from collections.abc import Sequence
from typing import NamedTuple

from rebalancer.act.deletion_cost import ANNOTATION as DELETION_COST
from rebalancer.act.originals import ANNOTATION as ORIGINALS
from rebalancer.leader.lease import EPOCH
from tests.chart.helm import EVERY_ACTUATION, RELEASE, Json
from tests.chart.live import override, write_stop

ALLOWED, BY_RBAC, BY_POLICY = "allowed", "refused by RBAC", "refused by an admission policy"
OTHER_NAMESPACE = "kube-system"

MERGE = "application/merge-patch+json"

VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete", "GET": "get"}


def every_right(ns: str, drained: Json) -> Json:
    """Values with which the chart grants all that it can, in namespace `ns`; nodes with these labels may be drained."""
    return EVERY_ACTUATION | {
        "writeMode": "act",
        "namespaces": [ns],
        "drain": {"enabled": True, "nodeLabels": [drained]},
        "targetKinds": ["statefulsets.apps"],
        "dra": True,
        "clusterAutoscaler": True,
        "kafka.overrideKeysSecret": "signers",
        "clusterName": "eu-1",
    }


class Deed(NamedTuple):
    """One request, and the answer to it. `speak_as`: the user whom it impersonates."""

    what: str
    answer: str
    method: str
    path: str
    body: Json | None = None
    speak_as: str = ""

    @property
    def right(self) -> tuple[str, str, str]:
        """What RBAC has to grant for it: verb, API group, and resource with its subresource."""
        _, root, *rest = self.path.split("/")
        group, rest = ("", rest[1:]) if root == "api" else (rest[0], rest[2:])
        if rest[0] == "namespaces" and len(rest) > 2:
            rest = rest[2:]
        return VERBS[self.method], group, "/".join([rest[0], *rest[2:]])


def deeds(ns: str, node: str, other_node: str, uid: str) -> Sequence[Deed]:
    """Everything in namespace `ns`, which the release manages and lives in; on `node`, which it may drain, and another.

    There are: Deployment and HorizontalPodAutoscaler `chat`, pods `marked` and `chat` (of that uid), NodePool `ns`
    and the Lease, of term 17.
    """
    return (
        *_workloads(ns),
        *_pods(ns, uid),
        *_nodes(ns, node, other_node),
        *_people(ns),
        *_power(ns),
        *_reading(ns),
    )


TRIGGER = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "1"}}


def with_keda(ns: str) -> Sequence[Deed]:
    """The same of ScaledObject `chat`."""
    keda = f"/apis/keda.sh/v1alpha1/namespaces/{ns}/scaledobjects"
    return (
        Deed(
            "give a ScaledObject other bounds",
            ALLOWED,
            "PATCH",
            f"{keda}/chat",
            {"spec": {"minReplicaCount": 0, "maxReplicaCount": 1}},
        ),
        Deed(
            "pause a ScaledObject", ALLOWED, "PATCH", f"{keda}/chat", _annotated("autoscaling.keda.sh/paused", "true")
        ),
        Deed("change a ScaledObject's triggers", BY_POLICY, "PATCH", f"{keda}/chat", {"spec": {"triggers": [TRIGGER]}}),
        Deed("delete a ScaledObject", BY_RBAC, "DELETE", f"{keda}/chat"),
    )


def with_bounds(ns: str) -> Sequence[Deed]:
    """The same with 1 to 100 replicas in the values `admissionPolicies.leastReplicas` and `mostReplicas`."""
    apps = f"/apis/apps/v1/namespaces/{ns}"
    return (
        Deed("scale a Deployment to 0", BY_POLICY, "PUT", f"{apps}/deployments/chat/scale", _scale(ns, 0)),
        Deed("scale a Deployment to 1,000", BY_POLICY, "PUT", f"{apps}/deployments/chat/scale", _scale(ns, 1000)),
        Deed("scale a StatefulSet to 0", BY_POLICY, "PUT", f"{apps}/statefulsets/chat/scale", _scale(ns, 0)),
        Deed("scale a Deployment to 1", ALLOWED, "PUT", f"{apps}/deployments/chat/scale", _scale(ns, 1)),
        Deed("scale a Deployment to 100", ALLOWED, "PUT", f"{apps}/deployments/chat/scale", _scale(ns, 100)),
        Deed("end the service", ALLOWED, "PUT", f"{apps}/deployments/{RELEASE}/scale", _scale(ns, 0, RELEASE)),
    )


def _workloads(ns: str) -> Sequence[Deed]:
    apps, hpas = f"/apis/apps/v1/namespaces/{ns}/deployments", f"/apis/autoscaling/v2/namespaces/{ns}"
    sets = f"/apis/apps/v1/namespaces/{ns}/statefulsets"
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "evil"}]}}}}
    scaled = f"{hpas}/horizontalpodautoscalers/chat"
    return (
        Deed("change a Deployment's image", BY_RBAC, "PATCH", f"{apps}/chat", image),
        Deed("create a Deployment", BY_RBAC, "POST", apps, _deployment(ns)),
        Deed("delete a Deployment", BY_RBAC, "DELETE", f"{apps}/chat"),
        Deed("scale a Deployment to 0, below every floor", ALLOWED, "PUT", f"{apps}/chat/scale", _scale(ns, 0)),
        Deed("scale a Deployment to 1,000", ALLOWED, "PUT", f"{apps}/chat/scale", _scale(ns, 1000)),
        Deed(
            "scale a Deployment of another namespace",
            BY_RBAC,
            "PUT",
            f"/apis/apps/v1/namespaces/{OTHER_NAMESPACE}/deployments/coredns/scale",
            _scale(OTHER_NAMESPACE, 0, "coredns"),
        ),
        Deed("scale a StatefulSet", ALLOWED, "PUT", f"{sets}/chat/scale", _scale(ns, 0)),
        Deed("change a StatefulSet's image", BY_RBAC, "PATCH", f"{sets}/chat", image),
        Deed("scale the service itself to 0", ALLOWED, "PUT", f"{apps}/{RELEASE}/scale", _scale(ns, 0, RELEASE)),
        Deed("give an HPA other bounds", ALLOWED, "PATCH", scaled, {"spec": {"minReplicas": 1, "maxReplicas": 99}}),
        Deed("give an HPA another target", BY_POLICY, "PATCH", scaled, {"spec": {"scaleTargetRef": {"name": "x"}}}),
        Deed(
            "forge what a hand-back restores", ALLOWED, "PATCH", scaled, _annotated(ORIGINALS, '{"min": 0, "max": 0}')
        ),
        Deed("stamp a term that is ahead of the Lease's", BY_POLICY, "PATCH", scaled, _annotated(EPOCH, "18")),
        Deed("stamp a text as a term", BY_POLICY, "PATCH", scaled, _annotated(EPOCH, "mine")),
    )


def _pods(ns: str, uid: str) -> Sequence[Deed]:
    pods = f"/api/v1/namespaces/{ns}/pods"
    known: Json = {"deleteOptions": {"preconditions": {"uid": uid}}}
    return (
        Deed("create a pod", BY_RBAC, "POST", pods, _pod(ns)),
        Deed("change a pod's image", BY_POLICY, "PATCH", f"{pods}/chat", _image("evil")),
        Deed("label a pod", BY_POLICY, "PATCH", f"{pods}/chat", {"metadata": {"labels": {"app": "stolen"}}}),
        Deed("delete a pod that is not marked", BY_POLICY, "DELETE", f"{pods}/chat"),
        Deed("mark a pod to go first", ALLOWED, "PATCH", f"{pods}/chat", _annotated(DELETION_COST, "-1000")),
        Deed("delete a pod that it has marked before", ALLOWED, "DELETE", f"{pods}/marked"),
        Deed("delete a pod of another namespace", BY_RBAC, "DELETE", f"/api/v1/namespaces/{OTHER_NAMESPACE}/pods/x"),
        Deed("evict a pod by its name alone", BY_POLICY, "POST", f"{pods}/chat/eviction", _eviction(ns, {})),
        Deed(
            "evict a pod with its UID, as far as disruption budgets let it",
            ALLOWED,
            "POST",
            f"{pods}/chat/eviction",
            _eviction(ns, known),
        ),
        Deed("run a command in a pod", BY_RBAC, "POST", f"{pods}/chat/exec"),
        Deed("read a pod's log", BY_RBAC, "GET", f"{pods}/chat/log"),
    )


def _nodes(ns: str, node: str, other_node: str) -> Sequence[Deed]:
    pool, nodes = f"/apis/karpenter.sh/v1/nodepools/{ns}", "/api/v1/nodes"
    cordon: Json = {"spec": {"unschedulable": True}}
    taint: Json = {"spec": {"taints": [{"key": "evil", "effect": "NoExecute"}]}}
    return (
        Deed("cordon a node that drain.nodeLabels names", ALLOWED, "PATCH", f"{nodes}/{node}", cordon),
        Deed(
            "uncordon such a node, whoever cordoned it",
            ALLOWED,
            "PATCH",
            f"{nodes}/{node}",
            {"spec": {"unschedulable": None}},
        ),
        Deed("cordon another node", BY_POLICY, "PATCH", f"{nodes}/{other_node}", cordon),
        Deed("taint a node", BY_POLICY, "PATCH", f"{nodes}/{node}", taint),
        Deed("delete a node", BY_RBAC, "DELETE", f"{nodes}/{node}"),
        Deed("reach a kubelet through the API server", BY_RBAC, "GET", f"{nodes}/{node}/proxy/pods"),
        Deed("set a NodePool's limits", ALLOWED, "PATCH", pool, {"spec": {"limits": {"nvidia.com/gpu": "999"}}}),
        Deed("change a NodePool's template", BY_POLICY, "PATCH", pool, _drift()),
        Deed("delete a NodePool", BY_RBAC, "DELETE", pool),
    )


def _people(ns: str) -> Sequence[Deed]:
    ours = "/apis/rebalancer.io/v1alpha1"
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
    return (
        Deed("make an override in anybody's name", ALLOWED, "POST", f"{ours}/namespaces/{ns}/overrides", _override(ns)),
        Deed("end anybody's override", ALLOWED, "DELETE", f"{ours}/namespaces/{ns}/overrides/theirs"),
        Deed(
            "say on an Override of any namespace what it does",
            ALLOWED,
            "PATCH",
            f"{ours}/namespaces/{OTHER_NAMESPACE}/overrides/theirs/status",
            {"status": {"phase": "Applied"}},
        ),
        Deed(
            "make an override in another namespace",
            BY_RBAC,
            "POST",
            f"{ours}/namespaces/{OTHER_NAMESPACE}/overrides",
            override(OTHER_NAMESPACE, "alice"),
        ),
        Deed("press the write stop in anybody's name", ALLOWED, "POST", f"{ours}/writestops", write_stop("alice")),
        Deed("take a write stop away", ALLOWED, "DELETE", f"{ours}/writestops/stop"),
        Deed("hold the Lease for its next minute", ALLOWED, "PATCH", f"{leases}/{RELEASE}", _lease(60)),
        Deed("hold the Lease for a day", BY_POLICY, "PATCH", f"{leases}/{RELEASE}", _lease(86_400)),
        Deed("count the terms up", ALLOWED, "PATCH", f"{leases}/{RELEASE}", _annotated(EPOCH, "18")),
        Deed("count the terms back", BY_POLICY, "PATCH", f"{leases}/{RELEASE}", _annotated(EPOCH, "1")),
        Deed(
            "count the terms to the end of the numbers",
            BY_POLICY,
            "PATCH",
            f"{leases}/{RELEASE}",
            _annotated(EPOCH, "9" * 15),
        ),
        Deed("make the Lease where there is none", ALLOWED, "POST", leases, _lease(8, ns, RELEASE)),
        Deed("create another Lease", BY_POLICY, "POST", leases, _lease(8, ns, "kube-controller-manager")),
        Deed("delete the Lease", BY_RBAC, "DELETE", f"{leases}/{RELEASE}"),
        Deed("write Events", ALLOWED, "POST", f"/apis/events.k8s.io/v1/namespaces/{ns}/events", _event(ns)),
    )


def _power(ns: str) -> Sequence[Deed]:
    rbac, admission = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
    accounts = f"/api/v1/namespaces/{ns}/serviceaccounts"
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/writestops.rebalancer.io"
    policies = f"{admission}/validatingadmissionpolicies/{RELEASE}.{ns}.pods"
    bound = f"{admission}/validatingadmissionpolicybindings/{RELEASE}.{ns}.pods"
    return (
        Deed("take an admission policy away", BY_RBAC, "DELETE", policies),
        Deed("unbind an admission policy", BY_RBAC, "DELETE", bound),
        Deed("widen its own Role", BY_RBAC, "PATCH", f"{rbac}/clusterroles/{RELEASE}.{ns}", {"rules": []}),
        Deed("bind itself to cluster-admin", BY_RBAC, "POST", f"{rbac}/clusterrolebindings", _admin(ns)),
        Deed("make a token that lasts longer", BY_RBAC, "POST", f"{accounts}/{RELEASE}/token", _token()),
        Deed("make a token of another account", BY_RBAC, "POST", f"{accounts}/default/token", _token()),
        Deed("speak as somebody else", BY_RBAC, "GET", "/api/v1/nodes", speak_as="alice"),
        Deed("delete a CRD of ours, and with it all write stops", BY_RBAC, "DELETE", crd),
        Deed("delete a namespace", BY_RBAC, "DELETE", f"/api/v1/namespaces/{ns}"),
    )


def _reading(ns: str) -> Sequence[Deed]:
    asked: Json = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "alice", "resourceAttributes": {"verb": "get", "resource": "secrets"}},
    }
    whose: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t"}}
    maps = f"/api/v1/namespaces/{OTHER_NAMESPACE}/configmaps"
    return (
        Deed("read the secrets of its own namespace", BY_RBAC, "GET", f"/api/v1/namespaces/{ns}/secrets"),
        Deed("read all secrets", BY_RBAC, "GET", "/api/v1/secrets"),
        Deed("read a ConfigMap", BY_RBAC, "GET", f"/api/v1/namespaces/{ns}/configmaps/kube-root-ca.crt"),
        Deed("read the ConfigMaps of kube-system", BY_RBAC, "GET", maps),
        Deed(
            "read what Cluster Autoscaler says of its node groups",
            ALLOWED,
            "GET",
            f"{maps}?fieldSelector=metadata.name%3Dcluster-autoscaler-status",
        ),
        Deed(
            "read all Deployments, with the plain values of their environment",
            ALLOWED,
            "GET",
            "/apis/apps/v1/deployments",
        ),
        Deed("read all Jobs, with the plain values of their environment", ALLOWED, "GET", "/apis/batch/v1/jobs"),
        Deed("read all pods, with the plain values of their environment", ALLOWED, "GET", "/api/v1/pods"),
        Deed("read all nodes", ALLOWED, "GET", "/api/v1/nodes"),
        Deed("ask whose a token is", ALLOWED, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", whose),
        Deed("ask what somebody may", ALLOWED, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", asked),
    )


# --- bodies


def _annotated(name: str, value: str) -> Json:
    return {"metadata": {"annotations": {name: value}}}


def _image(image: str) -> Json:
    return {"spec": {"containers": [{"name": "c", "image": image}]}}


def _pod(ns: str) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "evil", "namespace": ns}, **_image("evil")}


def _deployment(ns: str) -> Json:
    labels = {"app": "evil"}
    template = {"metadata": {"labels": labels}, **_image("evil")}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "evil", "namespace": ns}, "spec": spec}


def _scale(ns: str, replicas: int, name: str = "chat") -> Json:
    metadata = {"name": name, "namespace": ns}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}


def _eviction(ns: str, options: Json) -> Json:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "chat", "namespace": ns}, **options}


def _drift() -> Json:
    return {"spec": {"template": {"metadata": {"labels": {"drift": "all"}}}}}


def _override(ns: str) -> Json:
    return override(ns, "alice")


def _lease(seconds: int, ns: str = "", name: str = "") -> Json:
    named = {"metadata": {"name": name, "namespace": ns, "annotations": {EPOCH: "17"}}} if name else {}
    spec = {"holderIdentity": "thief", "leaseDurationSeconds": seconds}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **named, "spec": spec}


def _event(ns: str) -> Json:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "evil-", "namespace": ns},
        "eventTime": "2027-01-15T08:00:00.000000Z",
        "reportingController": "rebalancer.io/rebalancer",
        "reportingInstance": "thief",
        "action": "Lie",
        "reason": "Lie",
        "type": "Normal",
        "note": "all is well",
        "regarding": {"kind": "Deployment", "namespace": ns, "name": "chat"},
    }


def _admin(ns: str) -> Json:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{ns}-evil"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": RELEASE, "namespace": ns}],
    }


def _token() -> Json:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 864_000}}
