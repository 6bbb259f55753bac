"""What only some installations do, under the chart's rights all the same: mark pods, make overrides, hand back."""

import asyncio
import subprocess
import sys
from pathlib import Path

import aiohttp

from rebalancer.act.deletion_cost import ANNOTATION as DELETION_COST
from rebalancer.act.originals import ANNOTATION as ORIGINALS
from tests.chart.helm import RELEASE
from tests.real.occupancy import failed
from tests.real.policies import model, policy, pool
from tests.real.rights import rights_in
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node

GPUS = 4
HELD = ("Pod", "HorizontalPodAutoscaler", "NodePool", "ScaledObject")


async def _world(service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]) -> None:
    """Chat is short of GPUs, code has too many; both are Deployments, and pods may be marked."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=GPUS, labels=ours))
    for name, replicas in (("chat", 1), ("code", 3)):
        await kube.apply(deployment(name, namespace, replicas, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(GPUS, namespace)
    models = [model("chat", namespace, 1, 3, 4), model("code", namespace, 1, 1, 4)]
    service.settings |= {"WRITE_DELETION_COST": "true", "API_AUTH": "kubernetes"}
    await service.policy(policy([pool("gpus", ours, GPUS)], models))
    await asyncio.gather(traffic.past("chat", running=8), traffic.past("code", running=25))
    await service.start()


def _hand_back(service: Service, namespace: str) -> tuple[int, list[str]]:
    """`rebalancer hand-back` as the chart's hook runs it, with our account's token; its exit code and lines."""
    job = rights_in(namespace).one("Job")["spec"]["template"]["spec"]["containers"][0]
    command = [str(Path(sys.executable).parent / "rebalancer"), *job["args"], "--kubeconfig"]
    command.append(service.settings["KUBECONFIG"])
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, (done.stdout + done.stderr).splitlines()


async def _nothing_of_others(kube: Kube, namespace: str) -> bool:
    """Whether what the tests before left behind is gone: a hand-back is for the whole cluster."""
    kinds = [kind for kind in HELD if await kube.serves(kind)]
    found = [obj["metadata"] for kind in kinds for obj in await kube.items(kind)]
    marks = {ORIGINALS, DELETION_COST}
    return not any(
        marks & (each.get("annotations") or {}).keys() for each in found if each.get("namespace") != namespace
    )


async def test_the_hook_ends_the_service_and_hands_back_what_it_wrote(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await _world(service, traffic, kube, namespace, ours)
    traffic.says("chat", running=28)
    traffic.says("code", running=8)

    async def marked() -> list[str]:
        """Pods that bear our mark; those that were released went with it."""
        writes = await service.writes(kube, resource="pods")
        return [write.name for write in writes if write.succeeded]

    await kube.wait_for(marked, "pods are marked before a release", 60)
    await kube.wait_ready(3, namespace, "app=chat", 60)
    assert failed(await service.writes(kube)) == []
    await service.stop()
    staying = (await kube.wait_ready(1, namespace, "app=code"))[0]["metadata"]["name"]
    mark = {"metadata": {"annotations": {DELETION_COST: "-1000"}}}
    path = f"/api/v1/namespaces/{namespace}/pods/{staying}"
    await kube.request("PATCH", path, mark, content_type="application/merge-patch+json", fieldManager="rebalancer")
    installed = await asyncio.to_thread(lambda: rights_in(namespace).one("Deployment"))
    await kube.apply(installed)
    await kube.wait_for(lambda: kube.items("Pod", namespace, "app.kubernetes.io/component=service"), "our pod")
    await kube.wait_for(lambda: _nothing_of_others(kube, namespace), "other tests have left", 60)

    code, said = await asyncio.to_thread(_hand_back, service, namespace)

    assert (code, said) == (0, [f"restored pod/{namespace}/{staying}: annotation removed"])
    assert (await kube.get("Deployment", RELEASE, namespace))["spec"]["replicas"] == 0
    assert await kube.items("Pod", namespace, "app.kubernetes.io/component=service") == []


async def test_an_override_asked_for_twice_is_made_once(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await _world(service, traffic, kube, namespace, ours)
    await kube.account(namespace, "sre", OPERATOR)
    token = await kube.token(namespace, "sre", audience="rebalancer")
    url = f"http://127.0.0.1:{service.settings['API_PORT']}/v1/overrides"
    ask = {"kind": "cap", "target": {"model": "chat"}, "value": 3, "reason": "a test", "forSeconds": 60}
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "once"}
    answers: list[tuple[int, Json]] = []
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(2):
            async with session.post(url, json=ask) as response:
                answers.append((response.status, await response.json()))
    assert [status for status, _ in answers] == [201, 200], answers
    (made,) = await kube.items("Override", namespace)
    assert made["spec"]["actor"] == f"system:serviceaccount:{namespace}:sre"


OPERATOR = [
    {"apiGroups": ["rebalancer.io"], "resources": ["decisions"], "verbs": ["get"]},
    {"apiGroups": ["rebalancer.io"], "resources": ["overrides"], "verbs": ["create", "delete"]},
]
