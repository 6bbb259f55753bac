"""A thief holds the service's own token, with all that the chart can grant it: what it may do, and what it may not.

Every try is dry: the API server asks RBAC and the admission policies, and stores nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest

from rebalancer.act.deletion_cost import ANNOTATION as DELETION_COST
from rebalancer.leader.lease import EPOCH
from tests.chart.deeds import ALLOWED, BY_POLICY, BY_RBAC, MERGE, Deed, deeds, every_right, with_bounds, with_keda
from tests.chart.helm import CLUSTER_SCOPED, RELEASE, Json, render
from tests.chart.live import applied
from tests.testbed.karpenter import Karpenter
from tests.testbed.keda import Keda
from tests.testbed.kube import ApiError, Kube
from tests.testbed.objects import deployment, gpu_node, node_class, node_pool, stateful_set
from tests.testbed.stack import Stack

KINDS = ("ServiceAccount", "Role", "RoleBinding", *CLUSTER_SCOPED)


def _chat(namespace: str) -> Sequence[Json]:
    """A workload with a policy's whole surroundings."""
    metadata = {"name": "chat", "namespace": namespace}
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
    nowhere: Json = {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"no": "where"}}
    marked: Json = {"name": "marked", "namespace": namespace, "annotations": {DELETION_COST: "-1000"}}
    return (
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": metadata,
            "spec": {"scaleTargetRef": other, "maxReplicas": 3},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": nowhere},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": marked,
            "spec": {"containers": nowhere["containers"], "nodeName": f"{namespace}-a"},
        },
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": RELEASE, "namespace": namespace, "annotations": {EPOCH: "17"}},
            "spec": {"holderIdentity": "rb-0", "leaseDurationSeconds": 8},
        },
    )


@pytest.fixture
async def thief(
    cluster: Stack, kube: Kube, karpenter: Karpenter, crds: None, namespace: str, ours: dict[str, str]
) -> AsyncIterator[Kube]:
    """Our account's token in other hands, and the cluster that it was stolen in."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=4, labels=ours | {"drained": namespace}))
    await kube.create(gpu_node(f"{namespace}-b", gpus=4, labels=ours))
    await kube.apply(
        deployment("chat", namespace, 0, node_labels=ours),
        node_class(),
        node_pool(namespace, labels=ours, instance_types=["gpu-1"], gpu_limit=0),
        *_chat(namespace),
    )
    rendered = await asyncio.to_thread(render, every_right(namespace, {"drained": namespace}), namespace)
    async with applied(kube, rendered, *KINDS):
        token = await kube.token(namespace, RELEASE)
        async with cluster.kube(token) as us:
            yield us
    for name in ("a", "b"):
        await kube.delete("Node", f"{namespace}-{name}")


async def _answer(thief: Kube, deed: Deed) -> str:
    """How the API server answers; an object that is not there, or there already, is no refusal."""
    dry = {} if deed.method == "GET" else {"dryRun": "All"}
    kind = MERGE if deed.method == "PATCH" else "application/json"
    body = {"dryRun": ["All"], "apiVersion": "v1", "kind": "DeleteOptions"} if deed.method == "DELETE" else deed.body
    try:
        await thief.request(deed.method, deed.path, body, content_type=kind, speak_as=deed.speak_as, **dry)
    except ApiError as error:
        if "ValidatingAdmissionPolicy" in str(error):
            return BY_POLICY
        if error.status == 403:
            return BY_RBAC
        if error.status in {404, 409}:
            return ALLOWED
        raise
    return ALLOWED


@pytest.mark.timeout(180, func_only=True)
async def test_a_stolen_token_may_do_what_the_threat_model_says_and_nothing_else(
    thief: Kube, kube: Kube, namespace: str
) -> None:
    uid = (await kube.get("Pod", "chat", namespace))["metadata"]["uid"]
    tries = deeds(namespace, f"{namespace}-a", f"{namespace}-b", uid)

    await _tried(thief, kube, tries)


@pytest.mark.timeout(180, func_only=True)
async def test_of_scaled_objects_a_stolen_token_may_write_bounds_and_pauses_alone(
    thief: Kube, keda: Keda, kube: Kube, namespace: str
) -> None:
    cron = {"timezone": "UTC", "start": "0 0 * * *", "end": "1 0 * * *", "desiredReplicas": "1"}
    await kube.apply(
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": {"name": "chat", "namespace": namespace},
            "spec": {"scaleTargetRef": {"name": "chat"}, "triggers": [{"type": "cron", "metadata": cron}]},
        }
    )
    await _tried(thief, kube, with_keda(namespace))


@pytest.mark.timeout(180, func_only=True)
async def test_where_replicas_are_bounded_a_stolen_token_scales_nothing_beyond_them(
    cluster: Stack, kube: Kube, crds: None, namespace: str
) -> None:
    workloads = [deployment(name, namespace, 1) for name in ("chat", RELEASE)]
    await kube.apply(*workloads, stateful_set("chat", namespace, 1))
    bounds: Json = {"admissionPolicies.leastReplicas": 1, "admissionPolicies.mostReplicas": 100}
    rendered = await asyncio.to_thread(render, every_right(namespace, {"a": "b"}) | bounds, namespace)
    async with applied(kube, rendered, *KINDS):
        token = await kube.token(namespace, RELEASE)
        async with cluster.kube(token) as thief:
            await _tried(thief, kube, with_bounds(namespace))


async def _tried(thief: Kube, kube: Kube, tries: Sequence[Deed]) -> None:
    async def in_force() -> bool:
        """Policies are known to the server some seconds after they are stored."""
        return all([await _answer(thief, deed) == BY_POLICY for deed in tries if deed.answer == BY_POLICY])

    with suppress(AssertionError):  # then the table says which does not
        await kube.wait_for(in_force, "every policy refuses", 30)
    answers = {deed.what: await _answer(thief, deed) for deed in tries}
    print("\n".join(f"{what:70} {answer}" for what, answer in answers.items()))  # noqa: T201  # what people read
    assert answers == {deed.what: deed.answer for deed in tries}
