"""The same world twice on one control plane: one side with the service, one with Karpenter alone, under one storm.

A side has a namespace, a NodePool of spot nodes of one GPU, and models whose replicas stand on a node each. Karpenter's
kwok provider reads no queue of interruptions, so what Karpenter does of one is done here, on both sides alike: the
NodeClaim is deleted, upon which Karpenter taints, drains and brings a node in its place.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.testbed.kube import ApiError, Kube, is_ready
from tests.testbed.objects import deployment, node_class, node_pool

Json = dict[str, Any]

NODE_CLASS = "slow"
REGISTRATION_SECONDS = 10.0  # from a node's launch to its registration
LOAD_SECONDS = 15.0  # from a pod's binding to Ready


@dataclass
class Side:
    """`name` is also its namespace and its NodePool; `wanted` replicas by model, all of which serve at first."""

    kube: Kube
    name: str
    labels: Mapping[str, str]
    wanted: Mapping[str, int]
    claims: dict[str, str] = field(default_factory=dict)  # by node, of those that stood at first
    stands: dict[str, str] = field(default_factory=dict)  # the model on each of these nodes
    short_seconds: Counter[str] = field(default_factory=Counter)  # replicas below what is wanted x seconds, by model
    least: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)  # nodes whose machine the cloud has taken
    whole_at: float | None = None
    _looked_at: float | None = None

    @property
    def replicas(self) -> int:
        return sum(self.wanted.values())

    async def set_up(self, gpu_limit: int, budgets: int) -> None:
        """Nodes by Karpenter, a replica on each; so many budgets on each model, which let one replica go at a time."""
        nodes = node_pool(
            self.name,
            labels=self.labels,
            capacity_types=["spot"],
            instance_types=["gpu-1"],
            gpu_limit=gpu_limit,
            node_class_name=NODE_CLASS,
        )
        # What it offers changes in one of the storms, and nobody is to move pods for that.
        nodes["spec"]["disruption"]["budgets"] = [{"nodes": "0"}]
        await self.kube.apply(node_class(NODE_CLASS, registration_seconds=REGISTRATION_SECONDS), nodes)
        for app, replicas in self.wanted.items():
            await self.kube.apply(
                deployment(app, self.name, replicas, node_labels=self.labels, load_seconds=LOAD_SECONDS, end_seconds=1),
                *(_budget(f"{app}-{number}", self.name, app) for number in range(budgets)),
            )

    async def settled(self) -> None:
        """Wait until all replicas serve; remember where."""
        pods = await self.kube.wait_ready(self.replicas, self.name, seconds=180)
        self.stands = {pod["spec"]["nodeName"]: pod["metadata"]["labels"]["app"] for pod in pods}
        claims = await self.kube.items("NodeClaim", labels=f"karpenter.sh/nodepool={self.name}")
        self.claims = {claim["status"]["nodeName"]: claim["metadata"]["name"] for claim in claims}

    def nodes_of(self, counts: Mapping[str, int]) -> list[str]:
        """So many nodes on which each of these models stands, by turns."""
        left, chosen = Counter(counts), list[str]()
        for node, app in sorted(self.stands.items()):
            if left[app] > 0:
                chosen.append(node)
                left[app] -= 1
        return chosen

    async def interrupted(self, node: str) -> None:
        """What Karpenter does of a spot interruption."""
        await self.kube.delete("NodeClaim", self.claims[node])

    async def end(self, node: str) -> None:
        """The cloud takes the machine, whatever still runs there."""
        self.ended.add(node)
        for pod in await self.kube.items("Pod", self.name):
            if pod["spec"].get("nodeName") == node:
                await self.kube.delete("Pod", pod["metadata"]["name"], self.name, gracePeriodSeconds=0)
        for kind, name in (("Node", node), ("NodeClaim", self.claims[node])):
            try:
                await self.kube.patch(kind, name, {"metadata": {"finalizers": None}})
            except ApiError as error:
                if error.status != 404:  # Karpenter has ended with it, perhaps at this moment
                    raise
            await self.kube.delete(kind, name)

    async def look(self) -> None:
        """Count who serves now: Ready, not being deleted, on a machine that there is."""
        pods = await self.kube.items("Pod", self.name)
        now = time.time()
        lasted = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        serving = Counter(
            pod["metadata"]["labels"]["app"]
            for pod in pods
            if is_ready(pod) and pod["spec"].get("nodeName") not in self.ended
        )
        for app, wanted in self.wanted.items():
            self.short_seconds[app] += max(0, wanted - serving[app]) * lasted  # type: ignore[assignment]  # seconds
            self.least[app] = min(self.least.get(app, wanted), serving[app])
        whole = all(serving[app] >= wanted for app, wanted in self.wanted.items())
        self.whole_at = (self.whole_at or now) if whole else None


def _budget(name: str, namespace: str, app: str) -> Json:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
