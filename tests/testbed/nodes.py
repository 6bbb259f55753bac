"""Nodes without machines: kwok plays the kubelets, Karpenter launches nodes for pods that find no place."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.testbed.build import Built
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kube import Json, Kube, is_ready
from tests.testbed.objects import FAKE_NODE, instance_type
from tests.testbed.place import Place, answers
from tests.testbed.process import Process, free_port

# What a pod takes for each of its stages, unless its annotations say otherwise. kwok's own figures
# are a second plus chance; tests want no chance.
_STAGE_MILLISECONDS = {"pod-create": 100, "pod-ready": 100, "pod-delete": 100, "pod-complete": 1000}

PRICES = {"on-demand": 4.0, "spot": 1.5}
INSTANCE_TYPES = [
    instance_type("gpu-1", 1, prices=PRICES),
    instance_type("gpu-4", 4, prices={name: 4 * price for name, price in PRICES.items()}),
    instance_type("gpu-8", 8, prices={name: 8 * price for name, price in PRICES.items()}),
]


class Kwok:
    """Fake kubelets for every node that carries the annotation `kwok.x-k8s.io/node`."""

    def __init__(self, place: Place, built: Built, control_plane: ControlPlane) -> None:
        self._built, self._access = built, control_plane.access
        port = free_port()
        command = [
            built.program("kwok"), f"--kubeconfig={control_plane.kubeconfigs['kwok']}",
            f"--server-address=127.0.0.1:{port}",
            f"--manage-nodes-with-annotation-selector={FAKE_NODE}=fake", "--enable-crds=Stage",
            # Leases are renewed in a quarter of this.
            "--node-lease-duration-seconds=40", "--node-ip=127.0.0.1",
        ]  # fmt: skip
        self.process = place.process("kwok", command, lambda: answers(port, "/healthz"))

    @property
    def processes(self) -> list[Process]:
        return [self.process]

    def start(self) -> None:
        asyncio.run(self._install())
        self.process.start()

    async def _install(self) -> None:
        files = [path for name in ("node-initialize", "node-heartbeat", "pods") for path in self._built.manifests(name)]
        async with Kube.connect(self._access) as kube:
            await install_crds(kube, self._built.manifests("crds"))
            await kube.apply(*[_certain(yaml.safe_load(path.read_text())) for path in files])


class Karpenter:
    """Karpenter with its kwok provider, which offers `instance_types` (see `objects.instance_type`)."""

    def __init__(self, place: Place, built: Built, control_plane: ControlPlane, instance_types: Iterable[Json]) -> None:
        self._place, self._built, self._access = place, built, control_plane.access
        port = free_port()
        command = [
            built.program("kwok"), "--disable-leader-election", "--karpenter-service=karpenter",
            f"--instance-types-file-path={self.offer(instance_types)}",
            f"--metrics-port={free_port()}", f"--health-probe-port={port}",
            # Pods are collected for at most this long before nodes are launched for them.
            "--batch-idle-duration=500ms", "--batch-max-duration=2s",
        ]  # fmt: skip
        environment = {"SYSTEM_NAMESPACE": "kube-system", "KUBECONFIG": str(control_plane.kubeconfigs["karpenter"])}
        self.process = place.process("karpenter", command, lambda: answers(port, "/readyz"), environment)

    @property
    def processes(self) -> list[Process]:
        return [self.process]

    def start(self) -> None:
        asyncio.run(self._install())
        self.process.start()

    def offer(self, instance_types: Iterable[Json]) -> Path:
        """Set what the cloud has; a running Karpenter takes it up at its next restart."""
        return self._place.write("instance-types.json", json.dumps(list(instance_types)))

    async def _install(self) -> None:
        async with Kube.connect(self._access) as kube:
            await install_crds(kube, [*self._built.manifests("crds"), *self._built.manifests("kwok-crds")])


async def install_crds(kube: Kube, files: Iterable[Path]) -> None:
    """Apply CRDs and wait until the API server serves them."""
    crds = await kube.apply(*files)

    async def served() -> bool:
        found = [await kube.get("CustomResourceDefinition", crd["metadata"]["name"]) for crd in crds]
        return all(is_ready(crd, "Established") for crd in found)

    await kube.wait_for(served, "CRDs established")


def _certain(stage: dict[str, Any]) -> dict[str, Any]:
    """The stage with a fixed delay in place of a random one; a pod's own annotation still goes first."""
    if (milliseconds := _STAGE_MILLISECONDS.get(stage["metadata"]["name"])) is not None:
        annotated = stage["spec"]["delay"]["durationFrom"]
        stage["spec"]["delay"] = {"durationMilliseconds": milliseconds, "durationFrom": annotated}
    return stage
