"""Models under KEDA on the real control plane, six or twenty, as somebody runs them who has not heard of us."""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from string import ascii_lowercase
from typing import NamedTuple

from aiohttp import web
from aiohttp.test_utils import TestServer

from rebalancer.loop.clock import RealClock
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node, scaled_object

_PRODUCT = "nvidia.com/gpu.product"
_A100, _L40S = "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S"


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


@asynccontextmanager
async def zeros() -> AsyncIterator[str]:
    """A Prometheus for KEDA that answers 0 to everything."""

    async def answer(_: web.Request) -> web.Response:
        result = [{"metric": {}, "value": [RealClock().now(), "0"]}]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    app = web.Application()
    app.router.add_get("/api/v1/query", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


TWENTY = tuple(each._replace(name=f"{each.name}{team}") for team in ("", "-b", "-c", "-d") for each in SIX)[:20]


async def run_six(
    kube: Kube, namespace: str, ours: dict[str, str], prometheus: str, models: Sequence[Served] = SIX
) -> None:
    """Two nodes of 8 A100s, of which 3 are free, and two of 4 L40Ss, of which 1 is; as many more for more models."""
    for product, gpus in ((_A100, 8), (_L40S, 4)):
        for letter in ascii_lowercase[: 2 * math.ceil(len(models) / len(SIX))]:
            labels = {**ours, _PRODUCT: product, "nvidia.com/gpu.present": "true"}
            await kube.create(gpu_node(f"{namespace}-{product[7:11].lower()}-{letter}", gpus, labels=labels))
    for each in models:
        await kube.apply(_deployment(each, namespace))
    await kube.wait_ready(sum(each.replicas for each in models), namespace)
    for each in models:
        metadata = {"serverAddress": prometheus, "query": each.query, "threshold": each.threshold}
        trigger = {"type": "prometheus", "metadata": metadata}
        await kube.apply(scaled_object(each.name, namespace, *each.bounds, [trigger]))

    async def scaling() -> bool:
        return len(await kube.items("HorizontalPodAutoscaler", namespace)) == len(models)

    await kube.wait_for(scaling, "KEDA's HPAs are there", 45)


def _deployment(each: Served, namespace: str) -> Json:
    labels = {_PRODUCT: each.product}
    made = deployment(each.name, namespace, each.replicas, gpus=each.gpus, node_labels=labels, load_seconds=3)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["image"] = "vllm/vllm-openai:v0.11.0"
    container["args"] = ["--model", f"example/{each.name}", "--served-model-name", f"{each.name}-v1"]
    return made
