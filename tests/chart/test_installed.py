"""helm installs it and takes it away again, on a real API server with nodes whose pods run by themselves."""

import asyncio
import contextlib

import pytest

from tests.chart.helm import CHART, EVERY_ACTUATION, RELEASE, Json, helm, values
from tests.chart.live import policies_gone
from tests.testbed.kube import Kube, NotYet
from tests.testbed.objects import gpu_node
from tests.testbed.stack import Stack

OURS = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/managed-by=Helm"
KINDS = (
    "ClusterRole",
    "ClusterRoleBinding",
    "Deployment",
    "Job",
    "NetworkPolicy",
    "Pod",
    "Role",
    "RoleBinding",
    "Service",
    "ServiceAccount",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)


@pytest.mark.timeout(180, func_only=True)
async def test_helm_installs_it_and_an_uninstallation_hands_back_first(
    cluster: Stack, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await kube.create(gpu_node(f"{namespace}-a", labels=ours))
    given: Json = EVERY_ACTUATION | {"nodeSelector": ours, "namespaces": [namespace], "clusterName": "test"}
    flags = ["--namespace", namespace, "--kubeconfig", str(await asyncio.to_thread(cluster.kubeconfig))]

    await asyncio.to_thread(helm, "install", RELEASE, str(CHART), *flags, "--wait", "--timeout", "60s", *values(given))
    found = [kind for kind in KINDS if await _names(kube, kind, namespace)]
    assert found == [kind for kind in KINDS if kind != "Job"]

    await asyncio.to_thread(helm, "uninstall", RELEASE, *flags, "--timeout", "60s")

    jobs = await asyncio.to_thread(cluster.audit.writes, resource="jobs", namespace=namespace)
    assert [write.name for write in jobs if write.verb == "create"] == [f"{RELEASE}-hand-back"]
    with contextlib.suppress(NotYet):
        await kube.wait_for(lambda: _gone(kube, namespace), "nothing of ours is left", 60)
    assert {kind: found for kind in KINDS if (found := await _names(kube, kind, namespace))} == {}
    assert await kube.find("CustomResourceDefinition", "overrides.rebalancer.io"), "people's overrides stay"
    await policies_gone(kube)


async def _names(kube: Kube, kind: str, namespace: str) -> list[str]:
    """Names of this installation's objects; what has no namespace bears it in its name."""
    found = [obj["metadata"] for obj in await kube.items(kind, labels=OURS)]
    return [each["name"] for each in found if namespace in (each.get("namespace"), *each["name"].split("."))]


async def _gone(kube: Kube, namespace: str) -> bool:
    return not any([await _names(kube, kind, namespace) for kind in KINDS])
