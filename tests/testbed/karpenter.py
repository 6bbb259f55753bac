"""Karpenter launches nodes for pods that find no place; its kwok provider plays the cloud."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

from tests.testbed.build import Built
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import instance_type
from tests.testbed.place import Place, answers
from tests.testbed.process import Process, free_port

PRICES = {"on-demand": 4.0, "spot": 1.5}
INSTANCE_TYPES = [
    instance_type("gpu-1", 1, prices=PRICES),
    instance_type("gpu-4", 4, prices={name: 4 * price for name, price in PRICES.items()}),
    instance_type("gpu-8", 8, prices={name: 8 * price for name, price in PRICES.items()}),
]


class Karpenter:
    """Karpenter with its kwok provider, which offers `instance_types` (see `objects.instance_type`)."""

    def __init__(self, place: Place, built: Built, control_plane: ControlPlane, instance_types: Iterable[Json]) -> None:
        self._place, self._built, self._access = place, built, control_plane.access
        port = free_port()
        command = [
            built.program("kwok"), "--disable-leader-election", "--karpenter-service=karpenter",
            f"--instance-types-file-path={self.offer(instance_types)}",
            f"--metrics-port={free_port()}", f"--health-probe-port={port}",
            # Pods are collected for at most this long before nodes are launched for them. The first is Karpenter's
            # own: a pod that is pending for less than that launches nothing.
            "--batch-idle-duration=1s", "--batch-max-duration=2s",
        ]  # fmt: skip
        environment = {"SYSTEM_NAMESPACE": "kube-system", "KUBECONFIG": str(control_plane.kubeconfigs["karpenter"])}
        self.process = place.process("karpenter", command, lambda: answers(port, "/readyz"), environment)

    @property
    def processes(self) -> list[Process]:
        return [self.process]

    def start(self) -> None:
        asyncio.run(self._install(self._built.manifests("crds", "kwok-crds")))
        self.process.start()

    def offer(self, instance_types: Iterable[Json]) -> Path:
        """Set what the cloud has; a running Karpenter takes it up at its next restart."""
        return self._place.write("instance-types.json", json.dumps(list(instance_types)))

    async def _install(self, crds: list[Json]) -> None:
        async with Kube.connect(self._access) as kube:
            await kube.install_crds(crds)
