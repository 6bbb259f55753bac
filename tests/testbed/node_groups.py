"""One node group as Cluster Autoscaler grows it: a node for pods that are pending, and its status in a ConfigMap.

Cluster Autoscaler itself wants a cloud, so it is no part of the testbed. This controller brings nodes of one shape, in
no time, up to the group's maximum; it tells so in the words of 1.30 and newer, and never removes a node.
"""

import asyncio
from datetime import UTC, datetime

from tests.testbed.kube import Json, Kube
from tests.testbed.objects import GPU, gpu_node

NAME, NAMESPACE = "cluster-autoscaler-status", "kube-system"
EVERY_SECONDS = 0.3

_STATUS = """\
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
nodeGroups:
- health:
    cloudProviderTarget: {target}
    maxSize: {most}
    minSize: 0
    nodeCounts:
      registered:
        ready: {target}
        total: {target}
    status: Healthy
  name: {name}
  scaleUp:
    backoffInfo: {backoff}
    status: {scale_up}
time: {now:%Y-%m-%d %H:%M:%S.%f} +0000 UTC
"""


class NodeGroup:
    """Nodes with `labels`, of `gpus` GPUs each; `refuses`: why the cloud gives it none, "" where it does."""

    def __init__(self, kube: Kube, namespace: str, labels: dict[str, str], most: int, gpus: int = 1) -> None:
        self.name = f"eks-{namespace}-0cc8d4ef"
        self.refuses = ""
        self._kube, self._namespace, self._labels, self._most, self._gpus = kube, namespace, labels, most, gpus
        self._nodes = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.turn()
            await asyncio.sleep(EVERY_SECONDS)

    async def turn(self) -> None:
        """Bring one node where pods are pending for want of one, and tell."""
        pods = await self._kube.items("Pod", self._namespace)
        if not self.refuses and self._nodes < self._most and any(map(_unschedulable, pods)):
            self._nodes += 1
            await self._kube.create(gpu_node(f"{self.name}-{self._nodes}", gpus=self._gpus, labels=self._labels))
        await self._kube.apply(self._status())

    def _status(self) -> Json:
        text = _STATUS.format(
            target=self._nodes,
            most=self._most,
            name=self.name,
            backoff=f'{{errorCode: OutOfResource, errorMessage: "{self.refuses}"}}' if self.refuses else "{}",
            scale_up="Backoff" if self.refuses else "NoActivity",
            now=datetime.now(UTC),
        )
        metadata = {"name": NAME, "namespace": NAMESPACE}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"status": text}}


def _unschedulable(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    limits = (one["resources"].get("limits", {}) for one in pod["spec"]["containers"])
    waits = any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)
    return waits and any(GPU in each for each in limits)
