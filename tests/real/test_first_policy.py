"""From nothing to a plan on paper in three commands, on six models under KEDA that nobody has described to us."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.keda import Keda
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node, scaled_object
from tests.testbed.stack import Stack

_PROGRAM = Path(sys.executable).parent / "rebalancer"
_PRODUCT = "nvidia.com/gpu.product"
_A100, _L40S = "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"
# What `rebalancer init` reads, and nothing else.
_RIGHTS = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["list"]},
    {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": ["list"]},
    {"apiGroups": ["keda.sh"], "resources": ["scaledobjects"], "verbs": ["list"]},
    {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "verbs": ["list"]},
    {"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["leaderworkersets"], "verbs": ["list"]},
]


class Served(NamedTuple):
    """One vLLM Deployment under KEDA.

    name: of the Deployment and its ScaledObject.
    product: of the nodes that it selects.
    gpus: of one replica.
    replicas: today.
    bounds: of its ScaledObject.
    query: what its trigger asks Prometheus.
    threshold: of the trigger.
    """

    name: str
    product: str
    gpus: int
    replicas: int
    bounds: tuple[int, int]
    query: str
    threshold: str


SIX = (
    Served("chat", _A100, 2, 2, (1, 6), "sum(vllm:num_requests_running)", "32"),
    Served("code", _A100, 1, 5, (1, 8), "sum(vllm:num_requests_waiting)", "5"),
    Served("summary", _A100, 1, 4, (1, 8), "avg(vllm:kv_cache_usage_perc)", "0.8"),
    Served("embed", _L40S, 1, 4, (2, 8), "avg(DCGM_FI_DEV_GPU_UTIL)", "70"),
    Served("rerank", _L40S, 1, 2, (1, 4), "sum(vllm:num_requests_waiting)", "10"),
    Served("draft", _L40S, 1, 1, (1, 4), "histogram_quantile(0.95, vllm:time_to_first_token_seconds_bucket)", "0.5"),
)


@pytest.fixture
async def prometheus() -> AsyncIterator[str]:
    """A Prometheus for KEDA that answers 0 to everything."""

    async def answer(_: web.Request) -> web.Response:
        result = [{"metric": {}, "value": [time.time(), "0"]}]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    app = web.Application()
    app.router.add_get("/api/v1/query", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def _cluster(kube: Kube, namespace: str, ours: dict[str, str], prometheus: str) -> None:
    """Two nodes of 8 A100s, of which 3 are free, and two of 4 L40Ss, of which 1 is."""
    for product, gpus in ((_A100, 8), (_L40S, 4)):
        for letter in "ab":
            labels = {**ours, _PRODUCT: product, "nvidia.com/gpu.present": "true"}
            await kube.create(gpu_node(f"{namespace}-{product[7:11].lower()}-{letter}", gpus, labels=labels))
    for each in SIX:
        await kube.apply(_deployment(each, namespace))
    await kube.wait_ready(sum(each.replicas for each in SIX), namespace)
    for each in SIX:
        metadata = {"serverAddress": prometheus, "query": each.query, "threshold": each.threshold}
        trigger = {"type": "prometheus", "metadata": metadata}
        await kube.apply(scaled_object(each.name, namespace, *each.bounds, [trigger]))

    async def scaling() -> bool:
        return len(await kube.items("HorizontalPodAutoscaler", namespace)) == len(SIX)

    await kube.wait_for(scaling, "KEDA's HPAs are there", 45)


def _deployment(each: Served, namespace: str) -> Json:
    labels = {_PRODUCT: each.product}
    made = deployment(each.name, namespace, each.replicas, gpus=each.gpus, node_labels=labels, load_seconds=3)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["image"] = "vllm/vllm-openai:v0.11.0"
    container["args"] = ["--model", f"example/{each.name}", "--served-model-name", f"{each.name}-v1"]
    return made


async def test_three_commands_lead_from_six_models_under_keda_to_a_plan_that_a_person_would_sign(
    cluster: Stack, keda: Keda, service: Service, traffic: Traffic, kube: Kube, namespace: str,
    ours: dict[str, str], prometheus: str, tmp_path: Path,
) -> None:  # fmt: skip
    await _cluster(kube, namespace, ours, prometheus)
    file = tmp_path / "policy.yaml"
    token = await kube.account(namespace, "newcomer", _RIGHTS)
    kubeconfig = await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-newcomer", token)
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "REBALANCER_SERVER": f"http://127.0.0.1:{service.settings['API_PORT']}",
    }

    async def typed(*arguments: str) -> str:
        done = await asyncio.to_thread(
            subprocess.run, [str(_PROGRAM), *arguments], env=environment, capture_output=True, text=True, check=False
        )
        print(f"$ rebalancer {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    found = await typed("init", "--namespace", namespace, "--out", str(file))
    print(await asyncio.to_thread(file.read_text))
    assert "6 workloads" in found
    assert (await typed("config", "check", str(file))).strip().endswith(": ok")

    await asyncio.gather(
        traffic.past("chat-v1", running=110, waiting=40),  # the engines' names: init made them aliases
        traffic.past("code-v1", running=8, waiting=0),
        traffic.past("summary-v1", running=4, kvCacheUse=0.1),
        traffic.past("embed-v1", running=6, gpuUtilisation=0.4),
        traffic.past("rerank-v1", running=3, waiting=0),
        traffic.past("draft-v1", running=2, ttftP95Seconds=0.2),
    )
    service.settings |= {"WRITE_MODE": "shadow", "POLICY_PATH": str(file)}
    await service.start()

    async def raised() -> bool:
        plan = await service.plan()
        return any(each["model"] == "chat" and each["replicasTo"] > each["replicasFrom"] for each in plan["changes"])

    await kube.wait_for(raised, "a plan that gives chat more replicas", 30)
    assert "Shadow: nothing is written." in await typed("status")
    plan = (await typed("plan")).splitlines()
    assert [line for line in plan if line.startswith("+ chat")]
    assert not [line for line in plan if line.startswith("- ")], "3 GPUs are free: nobody has to give any"
    assert await service.writes(kube) == []
