"""Where the service and the cluster are: the options that say so, the same in every command."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

LOCAL_SERVER = "http://127.0.0.1:8080"
SERVICE_NAMESPACE = "rebalancer"

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="Address of the service's API; without it the command reaches a pod of the service by your kubeconfig.",
        metavar="URL",
        envvar="REBALANCER_SERVER",
    ),
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        help="Kubeconfig; default: in-cluster, else ~/.kube/config.",
        metavar="FILE",
        envvar="KUBECONFIG",
    ),
]
ContextOption = Annotated[str | None, typer.Option("--context", help="Context in the kubeconfig.", metavar="NAME")]
ServiceNamespaceOption = Annotated[
    str,
    typer.Option(
        "--service-namespace",
        help="Namespace the service runs in.",
        metavar="NAMESPACE",
        envvar="REBALANCER_SERVICE_NAMESPACE",
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace of the override; default: its model's.", metavar="NAMESPACE"),
]


@dataclass(frozen=True, slots=True)
class Where:
    """What the options say. `server` None: by the kubeconfig, or on this machine where there is no kubeconfig."""

    server: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = SERVICE_NAMESPACE

    @property
    def address(self) -> str | None:
        """The API's address when it needs no kubeconfig, None when it does."""
        if self.server is not None:
            return self.server.rstrip("/")
        return None if self._has_cluster() else LOCAL_SERVER

    @property
    def local(self) -> bool:
        """Whether the address is on this machine."""
        return self.address is not None and self.address.split("://")[-1].split(":")[0] in {"127.0.0.1", "localhost"}

    def _has_cluster(self) -> bool:
        if self.kubeconfig is not None or self.context is not None:
            return True
        if os.environ.get("KUBERNETES_SERVICE_HOST") or os.environ.get("KUBECONFIG"):
            return True
        return (Path.home() / ".kube" / "config").exists()
