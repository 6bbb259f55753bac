"""`rebalancer hand-back`."""

from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli.failure import DONE, FAILED, Failed


def command(
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig; default: in-cluster, else your own.")] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be restored, write nothing.")] = False,
) -> int:
    """Restore what we changed: autoscalers' own bounds, NodePools' limits and budgets, pods' deletion costs."""
    import asyncio

    lines = asyncio.run(_hand_back(kubeconfig, context, dry_run))
    for line in lines:
        typer.echo(line)
    if not lines:
        typer.echo("nothing of ours is on any object", err=True)
    return FAILED if any(line.startswith("failed") for line in lines) else DONE


async def _hand_back(kubeconfig: Path | None, context: str | None, dry_run: bool) -> tuple[str, ...]:
    import random

    from rebalancer.act.hand_back import hand_back
    from rebalancer.kube.access import find_access
    from rebalancer.kube.client import KubeClient
    from rebalancer.kube.errors import KubeError
    from rebalancer.loop.clock import RealClock

    try:
        async with KubeClient(await find_access(kubeconfig, context), RealClock(), random.Random()) as kube:  # noqa: S311  # jitter
            return await hand_back(kube, None, dry_run=dry_run)
    except KubeError as error:
        raise Failed(str(error)) from error
