"""kwok plays the kubelets: nodes become Ready and pods run, without machines."""

import asyncio

from tests.testbed.build import Built
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import FAKE_NODE
from tests.testbed.place import Place, answers
from tests.testbed.process import Process, free_port

# What a pod takes for each of its stages, unless its annotations say otherwise. kwok's own figures
# are a second plus chance; tests want no chance.
_STAGE_MILLISECONDS = {"pod-create": 100, "pod-ready": 100, "pod-delete": 100, "pod-complete": 1000}


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
            # A restarted kwok may find its own leases taken and wait them out: well within the 40 s after which
            # a node is NotReady, and its pods with it, which no fake kubelet makes Ready again.
            "--node-lease-duration-seconds=16", "--node-ip=127.0.0.1",
        ]  # fmt: skip
        self.process = place.process("kwok", command, lambda: answers(port, "/healthz"))

    @property
    def processes(self) -> list[Process]:
        return [self.process]

    def start(self) -> None:
        crds = self._built.manifests("crds")
        stages = self._built.manifests("node-initialize", "node-heartbeat", "pods")
        asyncio.run(self._install(crds, [_certain(stage) for stage in stages]))
        self.process.start()

    async def _install(self, crds: list[Json], stages: list[Json]) -> None:
        async with Kube.connect(self._access) as kube:
            await kube.install_crds(crds)
            await kube.apply(*stages)


def _certain(stage: Json) -> Json:
    """The stage with a fixed delay in place of a random one; a pod's own annotation still goes first."""
    if (milliseconds := _STAGE_MILLISECONDS.get(stage["metadata"]["name"])) is not None:
        annotated = stage["spec"]["delay"]["durationFrom"]
        stage["spec"]["delay"] = {"durationMilliseconds": milliseconds, "durationFrom": annotated}
    return stage
