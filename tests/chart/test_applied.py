"""The chart on a real API server: every object is taken, pods are admitted, policies hold."""

import asyncio
import copy
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rebalancer.act.deletion_cost import ANNOTATION as DELETION_COST
from rebalancer.act.originals import ANNOTATION as ORIGINALS
from rebalancer.leader.lease import EPOCH
from tests.chart.helm import CHART, EVERY_ACTUATION, RELEASE, Json, helm, render, values
from tests.chart.live import ANY, applied
from tests.chart.test_rendered import EVERYTHING_OFF, EVERYTHING_ON
from tests.schedules.test_contracts import STAMPINGS
from tests.testbed.karpenter import Karpenter
from tests.testbed.keda import Keda
from tests.testbed.kube import ApiError, Kube
from tests.testbed.objects import deployment, node_class, node_pool
from tests.testbed.stack import Stack


@pytest.mark.parametrize("given", [EVERYTHING_OFF, {}, EVERYTHING_ON], ids=["off", "default", "on"])
async def test_the_api_server_takes_every_object_and_warns_of_no_field(
    kube: Kube, crds: None, namespace: str, given: Json
) -> None:
    """Strict: a misspelled field would be dropped in silence."""
    here = given | {"namespaces": [namespace]} if "namespaces" in given else given
    rendered = await asyncio.to_thread(render, here, namespace)
    for obj in rendered.objects:
        answer = await kube.create(obj, dryRun="All", fieldValidation="Strict")
        assert answer["kind"] == obj["kind"]
    async with applied(kube, rendered):
        for policy in rendered.of("ValidatingAdmissionPolicy"):
            await _types_fit(kube, policy["metadata"]["name"])


async def _types_fit(kube: Kube, name: str) -> None:
    """Wait until the server has checked a policy's expressions against the types of what they are about."""

    async def checked() -> Json | None:
        status: Json = (await kube.get("ValidatingAdmissionPolicy", name)).get("status", {})
        return status if "typeChecking" in status else None

    status = await kube.wait_for(checked, f"the types in {name} are checked")
    assert "expressionWarnings" not in status["typeChecking"], status


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
async def test_a_namespace_of_restricted_pods_admits_ours(kube: Kube, namespace: str, kind: str) -> None:
    labels = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest",
    }
    await kube.patch("Namespace", namespace, {"metadata": {"labels": labels}})
    given = {**EVERY_ACTUATION, "priorityClassName": "", "writeMode": "act"}
    rendered = await asyncio.to_thread(render, given, namespace)
    template = copy.deepcopy(rendered.one(kind)["spec"]["template"])
    metadata = {"name": "ours", "namespace": namespace, "labels": template["metadata"]["labels"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    await kube.create(pod, dryRun="All", fieldValidation="Strict")

    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(ApiError, match="violates PodSecurity"):
        await kube.create(pod, dryRun="All")


# --- Admission policies. The account gets every right here, so that nothing but the policies holds it back.


@pytest.fixture
async def held(
    cluster: Stack, kube: Kube, keda: Keda, karpenter: Karpenter, crds: None, namespace: str, ours: dict[str, str]
) -> AsyncIterator[Kube]:
    """Our account with all rights, held by the policies alone; one object of each kind that it writes."""
    selector = {"scaleTargetRef": {"name": "chat"}}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    metadata = {"name": "chat", "namespace": namespace, "labels": {"team": "a"}, "annotations": {"theirs": "1"}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
    await kube.apply(
        deployment("chat", namespace, 1, node_labels=ours),
        node_class(),
        node_pool(namespace, labels=ours, instance_types=["gpu-1"], gpu_limit=0),
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": metadata,
            "spec": selector | {"triggers": [{"type": "cron", "metadata": CRON}]},
        },
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": metadata,
            "spec": {"scaleTargetRef": target, "maxReplicas": 3, "metrics": [{"type": "Resource", "resource": cpu}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"no": "where"}},
        },
    )
    token = await kube.account(namespace, RELEASE, [ANY])
    rendered = await asyncio.to_thread(render, EVERY_ACTUATION, namespace)
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    async with applied(kube, rendered, *kinds), cluster.kube(token) as us:
        await us.wait_for(lambda: _in_force(us, namespace), "the policies are in force")
        yield us


CRON: Json = {"timezone": "UTC", "start": "0 0 * * *", "end": "1 0 * * *", "desiredReplicas": "1"}


async def _in_force(us: Kube, namespace: str) -> bool:
    """Whether each policy refuses by now; the last ones bound may take another second."""
    for kind, name, where in (
        ("ScaledObject", "chat", namespace),
        ("HorizontalPodAutoscaler", "chat", namespace),
        ("Pod", "chat", namespace),
        ("Deployment", "chat", namespace),
        ("NodePool", namespace, None),
    ):
        if await _refusal(us, kind, name, {"metadata": {"labels": {"forbidden": "yes"}}}, where) is None:
            return False
    return True


async def _refusal(us: Kube, kind: str, name: str, patch: Json, namespace: str | None) -> str | None:
    """What the policies say to a patch, tried dry; None when they let it pass."""
    path = await _path(us, kind, name, namespace)
    try:
        await us.request("PATCH", path, patch, content_type="application/merge-patch+json", dryRun="All")
    except ApiError as error:
        if "ValidatingAdmissionPolicy" not in str(error):
            raise
        return str(error)
    return None


async def _path(us: Kube, kind: str, name: str, namespace: str | None) -> str:
    prefix, plural = PLACES[kind]
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/{prefix}{scope}/{plural}/{name}"


PLACES = {
    "ScaledObject": ("apis/keda.sh/v1alpha1", "scaledobjects"),
    "HorizontalPodAutoscaler": ("apis/autoscaling/v2", "horizontalpodautoscalers"),
    "Pod": ("api/v1", "pods"),
    "Deployment": ("apis/apps/v1", "deployments"),
    "NodePool": ("apis/karpenter.sh/v1", "nodepools"),
}
NODES = "10%"
MAY: list[tuple[str, Json]] = [
    (
        "ScaledObject",
        {"spec": {"minReplicaCount": 2, "maxReplicaCount": 5}, "metadata": {"annotations": {ORIGINALS: "{}"}}},
    ),
    ("ScaledObject", {"metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": "2"}}}),
    ("ScaledObject", {"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}}),
    ("HorizontalPodAutoscaler", {"spec": {"minReplicas": 2, "maxReplicas": 5}}),
    ("HorizontalPodAutoscaler", {"metadata": {"annotations": {ORIGINALS: "{}"}}}),
    ("Pod", {"metadata": {"annotations": {DELETION_COST: "-1000"}}}),
    ("NodePool", {"spec": {"limits": {"nvidia.com/gpu": "3"}}, "metadata": {"annotations": {ORIGINALS: "{}"}}}),
    ("HorizontalPodAutoscaler", {"metadata": {"annotations": {EPOCH: "7"}}}),
    ("NodePool", {"spec": {"limits": None}}),
    ("NodePool", {"spec": {"weight": 7}}),
    ("NodePool", {"spec": {"disruption": {"budgets": [{"nodes": "0", "reasons": ["Empty", "Underutilized"]}]}}}),
]
OTHER: Json = {"metadata": {"annotations": {"other": "1"}}}
LABELS: Json = {"metadata": {"labels": {"app": "stolen"}}}
OWNERS: Json = {"metadata": {"finalizers": ["example.com/stay"]}}
OTHER_METRIC: Json = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
}
MAY_NOT: list[tuple[str, Json, str]] = [
    *((kind, OTHER, "of the annotations the rebalancer writes only") for kind in PLACES if kind != "Deployment"),
    *((kind, LABELS, "neither labels nor") for kind in PLACES if kind != "Deployment"),
    *((kind, OWNERS, "neither labels nor") for kind in PLACES if kind != "Deployment"),
    ("ScaledObject", {"metadata": {"annotations": {"theirs": None}}}, "of the annotations the rebalancer writes only"),
    ("ScaledObject", {"metadata": {"annotations": {"theirs": "2"}}}, "of the annotations the rebalancer writes only"),
    (
        "ScaledObject",
        {"spec": {"triggers": [{"type": "cron", "metadata": CRON | {"desiredReplicas": "9"}}]}},
        "only min",
    ),
    ("ScaledObject", {"spec": {"pollingInterval": 5}}, "only minReplicaCount and maxReplicaCount"),
    ("HorizontalPodAutoscaler", {"spec": {"metrics": [OTHER_METRIC]}}, "only minReplicas and maxReplicas"),
    (
        "HorizontalPodAutoscaler",
        {"spec": {"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}},
        "only minReplicas",
    ),
    ("Pod", {"spec": {"activeDeadlineSeconds": 5}}, "of a pod the rebalancer writes only an annotation"),
    (
        "NodePool",
        {"spec": {"template": {"metadata": {"labels": {"drift": "all"}}}}},
        "only limits, weight and disruption",
    ),
    ("Deployment", {"spec": {"replicas": 9}}, "only by /scale"),
    ("Deployment", {"metadata": {"annotations": {ORIGINALS: "{}"}}}, "only by /scale"),
]


async def test_our_account_may_write_its_own_fields_and_no_other(held: Kube, kube: Kube, namespace: str) -> None:
    def where(kind: str) -> tuple[str, str | None]:
        return (namespace, None) if kind == "NodePool" else ("chat", namespace)

    for kind, patch in MAY:
        name, place = where(kind)
        assert await _refusal(held, kind, name, patch, place) is None, (kind, patch)
    for kind, patch, why in MAY_NOT:
        name, place = where(kind)
        refusal = await _refusal(held, kind, name, patch, place)
        assert refusal is not None, (kind, patch)
        assert why in refusal, (kind, patch)
        assert await _refusal(kube, kind, name, patch, place) is None, "the policies hold us alone"
    for kind in PLACES:
        name, place = where(kind)
        with pytest.raises(ApiError, match="ValidatingAdmissionPolicy"):
            await held.request("DELETE", await _path(held, kind, name, place), {"dryRun": ["All"]})
    scale = await held.get("Deployment", "chat", namespace, "scale")
    await held.request(
        "PUT", f"{await _path(held, 'Deployment', 'chat', namespace)}/scale", scale | {"spec": {"replicas": 3}}
    )


async def test_a_leader_of_an_earlier_term_is_refused_what_a_later_one_wrote(
    held: Kube, kube: Kube, namespace: str
) -> None:
    for kind in ("ScaledObject", "HorizontalPodAutoscaler", "NodePool"):
        name, place = (namespace, None) if kind == "NodePool" else ("chat", namespace)
        for one in STAMPINGS:
            await kube.patch(kind, name, _annotated({EPOCH: one.held, ORIGINALS: one.originals}), place)
            refusal = await _refusal(held, kind, name, _annotated(one.patch), place)
            assert (refusal is None) == (one.refused == ""), (kind, one, refusal)
            assert one.refused in (refusal or ""), (kind, one)


def _annotated(annotations: Json) -> Json:
    return {"metadata": {"annotations": annotations}}


# --- What is said after an installation

FINE: Json = {
    "image.repository": "registry.example.com/rebalancer",
    "kafka.bootstrap": "kafka:9093",
    "policyConfigMap": "ours",
    "networkPolicy.apiFrom": [{"podSelector": {}}],
    "networkPolicy.metricsFrom": [{"podSelector": {}}],
}
SASL: Json = {"bootstrap": "kafka:9093", "securityProtocol": "SASL_SSL"}
TOKENS: Json = SASL | {"saslMechanism": "OAUTHBEARER", "username": "us", "passwordSecret": {"name": "kafka"}}
METRICS: Json = {"url": "http://prometheus:9090"}
PASSWORD: Json = {"passwordSecret": {"name": "prometheus"}}
TOKEN: Json = {"tokenSecret": {"name": "prometheus"}}
NIM: Json = {"id": "nim", "targets": [{"kind": "StatefulSet"}, {"kind": "Foo", "apiVersion": "example.com/v1"}]}
POOLS: list[Json] = [{"name": "claimed", "deviceClass": "gpu"}, {"name": "grown", "nodeGroups": ["eks-gpu-*"]}]
VOLUME: Json = {"enabled": True, "size": "4G"}  # 3815 Mi
HARMLESS: list[Json] = [
    {"journal": {"maxMiB": 3400, "persistence": VOLUME}},
    {"journal": {"maxMiB": 3400, "persistence": {"enabled": True, "size": 4_000_000_000}}},
    {"journal": {"maxMiB": 4096, "persistence": {"enabled": False}}},
    {"journal": {"maxMiB": 4096, "persistence": {"enabled": True, "existingClaim": "ours"}}},
    {"policyConfigMap": "", "policy": {"models": [NIM]}, "targetKinds": ["statefulsets.apps", "fooes.example.com"]},
    {"policyConfigMap": "", "policy": {"pools": POOLS}, "dra": True, "clusterAutoscaler": True},
    {"kafka.bootstrap": "kafka-1:9092,kafka-2:9093", "prometheus": METRICS | TOKEN},
    {"kafka": TOKENS | {"tokenUrl": "https://idp/token"}},
    {"kafka.bootstrap": "msk-1:9098", "networkPolicy.kafka.ports": [9098]},
    {"kafka.bootstrap": "msk-1:9098", "networkPolicy.enabled": False},
    {"prometheus.url": "https://aps-workspaces.eu-west-1.amazonaws.com/workspaces/w"},  # by 443, as the API server is
    {"notices": {"queueUrl": "https://eu-west-1.queue.amazonaws.com/123456789012/n", "region": "eu-west-1"}},
    {"notices.queueUrl": "https://sqs.eu-west-1.amazonaws.com/123456789012/n"},
]
CONTRADICTIONS: list[tuple[Json, str]] = [
    (
        {"journal": {"maxMiB": 3600, "persistence": VOLUME}},
        "journal.persistence.size is 4G, and journal.maxMiB with ledgerMaxMiB may come to 3920Mi",
    ),
    ({"writeMode": "act"}, "writeMode is act and no actuation is on"),
    ({"actuation.keda": True}, "writeMode is shadow and actuations are on"),
    ({"writeMode": "act", "actuation.keda": True, "actuation.deletionCost": False}, "Kubernetes chooses among Ready"),
    ({"image.repository": "rebalancer"}, "image.repository is rebalancer, which no registry has"),
    ({"kafka.bootstrap": ""}, "kafka.bootstrap is empty: the service will not start"),
    ({"kafka.securityProtocol": "PLAINTEXT"}, "PLAINTEXT: whoever reaches the broker can forge events"),
    ({"kafka.securityProtocol": "SASL_SSL"}, "SASL_SSL without kafka.username"),
    ({"kafka": SASL | {"saslMechanism": "OAUTHBEARER"}}, "OAUTHBEARER without a token"),
    ({"kafka": SASL | {"saslMechanism": "AWS_MSK_IAM"}}, "AWS_MSK_IAM without kafka.awsRegion"),
    ({"kafka.bootstrap": "msk-1:9098,msk-2:9098"}, "kafka.bootstrap is on port 9098, which networkPolicy.kafka.ports"),
    ({"prometheus.url": "http://vm.monitoring:8428"}, "port 8428, which networkPolicy.prometheus.ports"),
    ({"prometheus.url": "http://mimir/prometheus"}, "port 80, which networkPolicy.prometheus.ports"),
    (
        {"prometheus.url": "http://prometheus-server"},
        "port of the pods behind a Service, not the Service's: where that",
    ),
    ({"kafka": TOKENS | {"tokenUrl": "https://idp:8443/token"}}, "8443, which networkPolicy.kafkaLogin.ports"),
    ({"kafka": TOKENS | {"tokenUrl": "http://idp:443/token"}}, "kafka.tokenUrl is not https"),
    ({"probePort": 8080}, "api.port and probePort are both 8080"),
    ({"prometheus": METRICS | PASSWORD}, "set prometheus.username and prometheus.passwordSecret.name together"),
    (
        {"prometheus": METRICS | {"username": "us"}},
        "set prometheus.username and prometheus.passwordSecret.name together",
    ),
    ({"prometheus": METRICS | PASSWORD | TOKEN | {"username": "us"}}, "of tokenSecret, passwordSecret and sigv4Region"),
    ({"prometheus": METRICS | TOKEN | {"sigv4Region": "eu-west-1"}}, "of tokenSecret, passwordSecret and sigv4Region"),
    (
        {"notices.queueUrl": "https://eu-west-1.queue.amazonaws.com/123456789012/n"},
        "names no region: set notices.region",
    ),
    ({"kafka.overrideKeysSecret": "signers"}, "kafka.overrideKeysSecret without clusterName"),
    ({"policyConfigMap": ""}, "there is no policy: the service will not start"),
    (
        {"policyConfigMap": "", "policy": {"pools": [{"name": "spot", "warmGpus": 8}]}},
        "warmGpus of spot: nothing is kept warm with writeMode: shadow",
    ),
    ({"policy": {"models": []}}, "policy is ignored: policyConfigMap names ours"),
    (
        {"policyConfigMap": "", "namespaces": ["a"], "policy": {"models": [{"id": "chat", "namespace": "b"}]}},
        "model chat lives in namespace b, which is not in namespaces",
    ),
    (
        {"policyConfigMap": "", "namespaces": ["a"], "policy": "models: [{id: code, namespace: b}]"},
        "model code lives in namespace b, which is not in namespaces",
    ),
    (
        {"policyConfigMap": "", "policy": {"models": [NIM]}, "targetKinds": ["replicasets.apps"]},
        "targets of statefulsets.apps, foos.example.com, which targetKinds does not name",
    ),
    ({"policyConfigMap": "", "policy": {"pools": POOLS}, "dra": True}, "pool grown names nodeGroups and clusterAuto"),
    (
        {"policyConfigMap": "", "policy": {"pools": POOLS}, "clusterAutoscaler": True},
        "pool claimed has a deviceClass and dra is off",
    ),
    ({"prometheusRule": {"enabled": True, "runbookUrl": "https://e.com"}}, "its alerts never fire"),
    ({"serviceMonitor.enabled": True, "prometheusRule.enabled": True}, "prometheusRule.runbookUrl is empty"),
    ({"serviceMonitor.enabled": True, "networkPolicy.metricsFrom": []}, "Prometheus cannot reach the service"),
    ({"networkPolicy.apiFrom": []}, "reached by `kubectl port-forward` alone"),
    ({"api.enabled": False, "login.viewers.users": ["a"]}, "they can get tokens that open nothing"),
    ({"login.enabled": False}, "api is on and login is off"),
    ({"writeMode": "act", "actuation.keda": True, "admissionPolicies.enabled": False}, "admissionPolicies are off"),
    ({"writeMode": "act", "actuation.keda": True, "handBack.enabled": False}, "handBack is off"),
]


def notes(kubeconfig: Path, given: Json) -> str:
    """What helm says after an installation that it only pretends."""
    flags = ("--namespace", "default", "--dry-run=server", "--skip-crds", "--kubeconfig", str(kubeconfig))
    _, _, said = helm("install", RELEASE, str(CHART), *flags, *values(FINE | given)).partition("NOTES:")
    return said


async def test_contradictions_in_the_values_are_told_each_and_only_then(cluster: Stack, kube: Kube, crds: None) -> None:
    kubeconfig = await asyncio.to_thread(cluster.kubeconfig)
    assert "only watching all namespaces" in await asyncio.to_thread(notes, kubeconfig, {})
    for given in ({}, *HARMLESS):
        assert "WARNING" not in await asyncio.to_thread(notes, kubeconfig, given), given
    for given, warning in CONTRADICTIONS:
        said = await asyncio.to_thread(notes, kubeconfig, given)
        warnings = [line for line in said.splitlines() if line.startswith("WARNING")]
        assert [warning in line for line in warnings] == [True], (given, warnings)


async def test_the_notes_name_what_a_first_look_has_to_be_told_of_this_installation(
    cluster: Stack, kube: Kube, crds: None
) -> None:
    kubeconfig = await asyncio.to_thread(cluster.kubeconfig)
    elsewhere = await asyncio.to_thread(notes, kubeconfig, {"fullnameOverride": "gpus"})
    lines = ["export REBALANCER_SERVICE_NAMESPACE=default", "rebalancer login --release gpus", "rebalancer status"]
    assert [line.strip() for line in elsewhere.partition("Ask it:")[2].splitlines() if line.strip()][:3] == lines
    assert "rebalancer login\n" in await asyncio.to_thread(notes, kubeconfig, {})
    assert "rebalancer login" not in await asyncio.to_thread(notes, kubeconfig, {"login.enabled": False})
