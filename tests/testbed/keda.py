"""KEDA: the operator, the adapter that serves external metrics to the HPA, and the admission webhooks."""

import asyncio
import base64
from pathlib import Path

from tests.testbed.build import Built
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kube import Json, Kube, is_ready
from tests.testbed.place import Place, answers
from tests.testbed.process import Process, free_port, start_together

_NAMESPACE = "keda"


class Keda:
    """Three processes; `processes` in the order in which they start."""

    def __init__(self, place: Place, built: Built, control_plane: ControlPlane) -> None:
        self._place, self._built, self._access = place, built, control_plane.access
        self._certificates, kubeconfig = control_plane.certificates, control_plane.kubeconfigs["keda"]
        self._grpc_port, self._adapter_port, self._webhooks_port = free_port(), free_port(), free_port()
        self._environment = {
            "KUBECONFIG": str(kubeconfig),
            "KEDA_CLUSTER_OBJECT_NAMESPACE": _NAMESPACE,
            "POD_NAMESPACE": _NAMESPACE,
            "POD_NAME": "keda-operator",
            "OPERATOR_NAME": "keda-operator",
            "WATCH_NAMESPACE": "",  # all; it has to be set
        }
        self.operator = self._operator()
        self.adapter = self._adapter(kubeconfig)
        self.webhooks = self._webhooks()

    @property
    def processes(self) -> list[Process]:
        return [self.operator, self.adapter, self.webhooks]

    def start(self) -> None:
        asyncio.run(self._install(self._built.manifests("crds")))
        start_together(self.processes)
        asyncio.run(self._announce(self._built.manifests("webhooks")))

    async def _install(self, crds: list[Json]) -> None:
        async with Kube.connect(self._access) as kube:
            await kube.install_crds(crds)
            await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})

    async def _announce(self, configurations: list[Json]) -> None:
        """Tell the API server where the adapter and the webhooks are."""
        service, api_service = self._api_service()
        webhooks = [self._on_loopback(configuration) for configuration in configurations]
        async with Kube.connect(self._access) as kube:
            await kube.apply(service, api_service, *webhooks)

            async def available() -> bool:
                return is_ready(await kube.get("APIService", api_service["metadata"]["name"]), "Available")

            await kube.wait_for(available, "external metrics served by KEDA's adapter", 60.0)

    def _operator(self) -> Process:
        probe = free_port()
        command = [
            self._built.program("operator"), f"--cert-dir={self._certificates.folder}", "--enable-cert-rotation=false",
            f"--metrics-service-bind-address=127.0.0.1:{self._grpc_port}",
            f"--metrics-bind-address=127.0.0.1:{free_port()}", f"--health-probe-bind-address=127.0.0.1:{probe}",
        ]  # fmt: skip
        return self._process("keda-operator", command, probe)

    def _adapter(self, kubeconfig: Path) -> Process:
        command = [
            self._built.program("adapter"),
            *[f"--{what}kubeconfig={kubeconfig}" for what in ("", "lister-", "authentication-", "authorization-")],
            f"--cert-dir={self._certificates.folder}",
            f"--tls-cert-file={self._certificates.certificate}", f"--tls-private-key-file={self._certificates.key}",
            "--bind-address=127.0.0.1", f"--secure-port={self._adapter_port}", f"--port={free_port()}",
            f"--metrics-service-address=localhost:{self._grpc_port}",
        ]  # fmt: skip
        return self._process("keda-adapter", command, self._adapter_port, self._certificates.ca)

    def _webhooks(self) -> Process:
        probe = free_port()
        command = [
            self._built.program("webhooks"), f"--cert-dir={self._certificates.folder}", f"--port={self._webhooks_port}",
            f"--metrics-bind-address=127.0.0.1:{free_port()}", f"--health-probe-bind-address=127.0.0.1:{probe}",
        ]  # fmt: skip
        return self._process("keda-webhooks", command, probe)

    def _process(self, name: str, command: list[str], port: int, ca: Path | None = None) -> Process:
        return self._place.process(name, command, lambda: answers(port, "/readyz", ca=ca), self._environment)

    def _api_service(self) -> tuple[Json, Json]:
        name = "keda-metrics-apiserver"
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": _NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        api_service = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
            "spec": {
                "group": "external.metrics.k8s.io",
                "version": "v1beta1",
                "service": {"name": name, "namespace": _NAMESPACE, "port": self._adapter_port},
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
            },
        }
        return service, api_service

    def _on_loopback(self, configuration: Json) -> Json:
        """KEDA's own webhook configuration, with the service it names replaced by an address."""
        bundle = base64.b64encode(self._access.ca.encode()).decode()
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://localhost:{self._webhooks_port}{path}", "caBundle": bundle}
        return configuration
