"""`rebalancer bundle`: a support file that replays and simulates on another machine, without secrets."""

from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli.failure import DONE, Failed
from rebalancer.cli.remote.where import (
    SERVICE_NAMESPACE,
    ContextOption,
    KubeconfigOption,
    ServerOption,
    ServiceNamespaceOption,
    Where,
)

STDOUT = Path("-")


def command(
    to: Annotated[Path, typer.Argument(help="File to write, .tar.gz; - is standard output.", metavar="BUNDLE")] = Path(
        "rebalancer-bundle.tar.gz"
    ),
    last: Annotated[str, typer.Option(help="So much of the journal, up to its end: 30m, 12h, 2d.")] = "2h",
    journal: Annotated[
        Path,
        typer.Option(help="The service's journal: its folder, or one file.", envvar="REBALANCER_JOURNAL_DIR"),
    ] = Path("/var/lib/rebalancer/journal"),
    log: Annotated[
        Path | None, typer.Option(help="A log of the service, of which the last 4 MB go along.", metavar="FILE")
    ] = None,
    probes: Annotated[
        str, typer.Option(help="Address of the service's probe port, where its metrics are.", metavar="URL")
    ] = "http://127.0.0.1:8081",
    anonymous: Annotated[
        bool,
        typer.Option("--anonymous", help="Other names for models, namespaces, nodes, pods, teams, people and labels."),
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Only say what would go out, and how much of it; nothing is written.")
    ] = False,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
) -> int:
    """Pack what helps others to help you: journal, policy, settings, status, doctor's findings, metrics, a log.

    What looks like a secret is taken out, everywhere; look at it before you send it all the same. It is made where the
    journal is: kubectl exec deploy/rebalancer -- rebalancer bundle - > bundle.tar.gz. Elsewhere `rebalancer replay
    BUNDLE` makes its decisions again, byte by byte, and `rebalancer simulate BUNDLE` plays its work.
    """
    import sys

    from rebalancer.cli.commands.bundle.archive import packed, write
    from rebalancer.cli.commands.bundle.enclosing import BundleSources, enclose, seal
    from rebalancer.cli.terminal.spans import seconds_of
    from rebalancer.loop.clock import RealClock

    where = Where(server, kubeconfig, context, service_namespace)
    sealed = seal(enclose(BundleSources(journal, seconds_of(last, "--last"), where, probes, log)), anonymous=anonymous)
    if not sealed.files:
        raise Failed("nothing could be read")
    for name, content in sealed.files.items():
        typer.echo(f"{len(content):>10}  {name}", err=to == STDOUT)
    for line in sealed.remarks:
        typer.echo(f"note: {line}", err=True)
    if listed:
        return DONE
    archive = packed(sealed.files, RealClock().now())
    if to == STDOUT:
        sys.stdout.buffer.write(archive)
    else:
        write(to, archive)
        typer.echo(f"{len(archive):>10}  {to}")
    return DONE
