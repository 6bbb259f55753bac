"""Where the service and the cluster are: the options that say so, the same in every command."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli.failure import USAGE, Failed

LOCAL_SERVER = "http://127.0.0.1:8080"
SERVICE_NAMESPACE = "rebalancer"
INSTALLATION = "rebalancer/rebalancer"  # the name on what it writes to, unless it was installed otherwise
_OWN = Path("~/.kube/config")


def _unless_elsewhere(parsing: typer.Context, server: str | None) -> str | None:
    """The address `server`; None where it is only exported and a --kubeconfig or --context is typed beside it."""

    def way(option: str) -> str:
        return getattr(parsing.get_parameter_source(option), "name", "")  # what is typed has been read by now

    typed = "COMMANDLINE" in {way("kubeconfig"), way("context")}
    return None if typed and way("server") == "ENVIRONMENT" else server


ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="Address of the service's API; without it the command reaches a pod of the service by your kubeconfig. "
        "An exported one gives way to --kubeconfig and --context.",
        metavar="URL",
        envvar="REBALANCER_SERVER",
        callback=_unless_elsewhere,
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
    """Where the service and the cluster are, as the options say.

    server: address of the service's API; None: by the kubeconfig, or on this machine where there is no kubeconfig.
    kubeconfig: path of the kubeconfig, or several as in PATH; None: in-cluster, else ~/.kube/config.
    context: context in the kubeconfig, None: the current one.
    namespace: namespace that the service runs in.
    """

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

    def need_kubeconfig(self) -> None:
        """Raise Failed when there is no way to a cluster: the client library's words about it help nobody."""
        if self.kubeconfig is not None:  # several files may stand there, separated as in PATH
            if not any(Path(each).exists() for each in str(self.kubeconfig).split(os.pathsep)):
                raise Failed(f"kubeconfig {self.kubeconfig}: no such file", USAGE)
        elif not os.environ.get("KUBERNETES_SERVICE_HOST") and not _OWN.expanduser().exists():
            raise Failed(f"no kubeconfig: there is no {_OWN}; name one with --kubeconfig or KUBECONFIG", USAGE)

    def _has_cluster(self) -> bool:
        if self.kubeconfig is not None or self.context is not None:
            return True
        if os.environ.get("KUBERNETES_SERVICE_HOST") or os.environ.get("KUBECONFIG"):
            return True
        return _OWN.expanduser().exists()
