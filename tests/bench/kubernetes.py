"""A helper: the embedded Kubernetes API with a cluster in it, whose pods stay as they are. Says each /scale write.

    python -m tests.bench.kubernetes MODELS SPARE_NODES KUBECONFIG

First line: ready. Then one line per write: model, when the API answered it (epoch seconds), replicas.
"""

import asyncio
import sys
from pathlib import Path

from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from rebalancer.sandbox.manifests import namespace
from tests.bench.children import say, until_the_end
from tests.bench.lists import Json, node, pod
from tests.bench.scale import GPUS_PER_NODE, REPLICAS
from tests.builders import NAMESPACE

LOOK_SECONDS = 0.01


def busy_nodes(models: int) -> int:
    """Nodes that the models' pods fill."""
    return -(-models * REPLICAS // GPUS_PER_NODE)


def main() -> None:
    """Serve until the end."""
    models, spare, kubeconfig = sys.argv[1:]
    asyncio.run(_serve(int(models), int(spare), Path(kubeconfig)))


async def _serve(models: int, spare: int, kubeconfig: Path) -> None:
    clock = RealClock()
    store = Store(clock)
    fill(store, models, spare)
    async with EmbeddedKubernetes(clock, store) as api:
        api.write_kubeconfig(kubeconfig)
        say("ready")
        telling = asyncio.create_task(_tell(api))
        await asyncio.to_thread(until_the_end)
        telling.cancel()


def fill(store: Store, models: int, spare: int) -> None:
    store.put(namespace(NAMESPACE))
    for number in range(busy_nodes(models) + spare):
        store.put({"apiVersion": "v1", "kind": "Node", **node(number)})
    for number in range(models):
        store.put(_deployment(f"m{number:04d}"))
    for number in range(models * REPLICAS):
        store.put({"apiVersion": "v1", "kind": "Pod", **pod(number, GPUS_PER_NODE)})


def _deployment(name: str) -> Json:
    labels = {"app": name}
    container = {
        "name": "server",
        "image": "registry.example/vllm:v1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": {"pool": "p0"}, "containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": labels},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template},
        "status": {"replicas": REPLICAS, "updatedReplicas": REPLICAS, "readyReplicas": REPLICAS},
    }


async def _tell(api: EmbeddedKubernetes) -> None:
    told = 0
    while True:
        for entry in api.audit[told:]:
            told += 1
            if entry.target is not None and entry.target.subresource == "scale" and entry.code == 200:
                say(f"{entry.target.name} {entry.at} {entry.body['spec']['replicas']}")
        await asyncio.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
