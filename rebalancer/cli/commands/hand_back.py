"""`rebalancer hand-back`."""

from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli.failure import DONE, FAILED, USAGE, Failed

STOP_SECONDS = 90.0  # a stop takes up to 45 s, and the kubelet a while to tell


def command(
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig; default: in-cluster, else your own.")] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be restored, write nothing.")] = False,
    stop: Annotated[
        str,
        typer.Option(metavar="NAMESPACE/NAME", help="First end the service: this Deployment, scaled to 0, waited for."),
    ] = "",
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Only what is in this namespace (may be repeated), and NodePools."),
    ] = None,
) -> int:
    """Restore what we changed: autoscalers' own bounds, NodePools' limits and budgets, pods' deletion costs."""
    import asyncio

    lines = asyncio.run(_hand_back(kubeconfig, context, dry_run, _deployment(stop), namespaces or []))
    for line in lines:
        typer.echo(line)
    if not lines:
        typer.echo("nothing of ours is on any object", err=True)
    return FAILED if any(line.startswith("failed") for line in lines) else DONE


def _deployment(stop: str) -> tuple[str, str] | None:
    namespace, _, name = stop.partition("/")
    if stop and not (namespace and name):
        raise Failed(f"--stop {stop}: give the service's Deployment as NAMESPACE/NAME", USAGE)
    return (namespace, name) if stop else None


async def _hand_back(
    kubeconfig: Path | None, context: str | None, dry_run: bool, stop: tuple[str, str] | None, namespaces: list[str]
) -> tuple[str, ...]:
    import random

    from rebalancer.act.hand_back import hand_back
    from rebalancer.act.stop_service import StillThere, stop_service
    from rebalancer.kube.access import find_access
    from rebalancer.kube.client import KubeClient
    from rebalancer.kube.errors import KubeError
    from rebalancer.kube.resources import DEPLOYMENTS, Ref
    from rebalancer.loop.clock import RealClock

    try:
        clock = RealClock()
        async with KubeClient(await find_access(kubeconfig, context), clock, random.Random()) as kube:  # noqa: S311  # jitter
            if stop and not dry_run:
                await stop_service(kube, Ref(DEPLOYMENTS, *stop), clock, within_seconds=STOP_SECONDS)
            return await hand_back(kube, None, dry_run=dry_run, namespaces=namespaces)
    except (KubeError, StillThere) as error:
        raise Failed(str(error)) from error
