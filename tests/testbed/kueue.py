"""Admission of pods at Kueue's gate as Kueue does it for plain pods, for one ClusterQueue without preemption.

Kueue itself is not part of the testbed. Its objects are those of its own definitions; this controller knows GPUs of one
flavor, and no cohort.
"""

import asyncio
from typing import Any

from tests.testbed.kube import Json, Kube
from tests.testbed.objects import GPU

VERSION = "kueue.x-k8s.io/v1beta2"
GATE = "kueue.x-k8s.io/admission"
QUEUE = "kueue.x-k8s.io/queue-name"
EVERY_SECONDS = 0.2


def flavor(name: str, labels: dict[str, str]) -> Json:
    """Nodes with these labels."""
    return _object("ResourceFlavor", name, {"nodeLabels": labels})


def cluster_queue(name: str, of: str, gpus: int, **more: object) -> Json:
    """GPUs of one flavor; `more` in camelCase, beside the resource groups."""
    quota = {"name": of, "resources": [{"name": GPU, "nominalQuota": str(gpus)}]}
    groups = [{"coveredResources": [GPU], "flavors": [quota]}]
    return _object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **more})


def local_queue(name: str, namespace: str, queue: str) -> Json:
    """The name by which pods of a namespace find their ClusterQueue."""
    found = _object("LocalQueue", name, {"clusterQueue": queue})
    found["metadata"]["namespace"] = namespace
    return found


def gated(deployment: Json, queue: str) -> Json:
    """The Deployment with what Kueue's webhook gives pods of a queue."""
    template = deployment["spec"]["template"]
    template["metadata"]["labels"][QUEUE] = queue
    template["spec"]["schedulingGates"] = [{"name": GATE}]
    return deployment


class Admission:
    """Opens the gate for pods, the oldest first, while their queue has GPUs; tells in its status what they hold."""

    def __init__(self, kube: Kube, namespace: str, flavor: str, queues: dict[str, str]) -> None:
        """`queues`: the ClusterQueue of each LocalQueue."""
        self._kube, self._namespace, self._flavor, self._queues = kube, namespace, flavor, queues

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            for local, queue in self._queues.items():
                await self._turn(local, queue)
            await asyncio.sleep(EVERY_SECONDS)

    async def _turn(self, local: str, queue: str) -> None:
        pods = await self._kube.items("Pod", self._namespace, f"{QUEUE}={local}")
        pods.sort(key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
        waiting = [pod for pod in pods if pod["spec"].get("schedulingGates")]
        held = sum(map(_gpus, pods)) - sum(map(_gpus, waiting))
        left = await self._nominal(queue) - held
        for pod in waiting:
            if _gpus(pod) <= left:
                left, held = left - _gpus(pod), held + _gpus(pod)
                await self._tell(queue, held)
                await self._kube.patch(
                    "Pod", pod["metadata"]["name"], {"spec": {"schedulingGates": None}}, self._namespace
                )
        await self._tell(queue, held)

    async def _nominal(self, queue: str) -> int:
        found = await self._kube.get("ClusterQueue", queue)
        return int(found["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])

    async def _tell(self, queue: str, held: int) -> None:
        used = [{"name": self._flavor, "resources": [{"name": GPU, "total": str(held), "borrowed": "0"}]}]
        status = {"status": {"flavorsReservation": used, "flavorsUsage": used}}
        await self._kube.patch("ClusterQueue", queue, status, subresource="status")


def _gpus(pod: Json) -> int:
    return sum(int(one["resources"]["limits"].get(GPU, 0)) for one in pod["spec"]["containers"])


def _object(kind: str, name: str, spec: dict[str, Any]) -> Json:
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
