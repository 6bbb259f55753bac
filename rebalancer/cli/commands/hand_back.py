"""`rebalancer hand-back`."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from rebalancer.cli.failure import DONE, FAILED, USAGE, Failed
from rebalancer.cli.remote.where import INSTALLATION, SERVICE_NAMESPACE, ContextOption, KubeconfigOption, Where

STOP_SECONDS = 90.0  # a stop takes up to 45 s, and the kubelet a while to tell
ROLLOUT_SECONDS = 180.0  # the same, and a start


class _Ask(NamedTuple):
    """What is to be given back, and what is waited for before it."""

    installation: str
    unnamed: bool
    dry_run: bool
    namespaces: list[str]
    stop: tuple[str, str] | None
    after: tuple[str, str] | None


def command(
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be restored, write nothing.")] = False,
    installation: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help="Whose objects: namespace and account of the service. Default: what --stop or --after names, else "
            f"{INSTALLATION}.",
        ),
    ] = "",
    unnamed: Annotated[
        bool, typer.Option("--unnamed", help="Also what carries no installation's name, as an older version left it.")
    ] = False,
    stop: Annotated[
        str,
        typer.Option(metavar="NAMESPACE/NAME", help="First end the service: this Deployment, scaled to 0, waited for."),
    ] = "",
    after: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE/NAME", help="First wait until the service's Deployment runs its newest template alone."
        ),
    ] = "",
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Only what is in this namespace (may be repeated), and NodePools."),
    ] = None,
) -> int:
    """Restore what we changed: autoscalers' own bounds, NodePools' limits and budgets, pods' deletion costs."""
    import asyncio

    ask = _Ask(
        installation=installation or stop or after or INSTALLATION,
        unnamed=unnamed,
        dry_run=dry_run,
        namespaces=namespaces or [],
        stop=_deployment("--stop", stop),
        after=_deployment("--after", after),
    )
    Where(None, kubeconfig, context, SERVICE_NAMESPACE).need_kubeconfig()
    lines = asyncio.run(_hand_back(kubeconfig, context, ask))
    for line in lines:
        typer.echo(line)
    if not any(line.startswith(("restored", "would restore", "failed")) for line in lines):
        typer.echo(f"nothing of {ask.installation} is on any object", err=True)
    return FAILED if any(line.startswith("failed") for line in lines) else DONE


def _deployment(option: str, named: str) -> tuple[str, str] | None:
    namespace, _, name = named.partition("/")
    if named and not (namespace and name):
        raise Failed(f"{option} {named}: give the service's Deployment as NAMESPACE/NAME", USAGE)
    return (namespace, name) if named else None


async def _hand_back(kubeconfig: Path | None, context: str | None, ask: _Ask) -> tuple[str, ...]:
    import random

    from rebalancer.act.hand_back import hand_back
    from rebalancer.act.rollout import StillOld, rolled_out
    from rebalancer.act.stop_service import StillThere, stop_service
    from rebalancer.kube.access import find_access
    from rebalancer.kube.client import KubeClient
    from rebalancer.kube.errors import KubeError
    from rebalancer.kube.resources import DEPLOYMENTS, Ref
    from rebalancer.loop.clock import RealClock

    try:
        clock = RealClock()
        async with KubeClient(await find_access(kubeconfig, context), clock, random.Random()) as kube:  # noqa: S311  # jitter
            if ask.stop and not ask.dry_run:
                await stop_service(kube, Ref(DEPLOYMENTS, *ask.stop), clock, within_seconds=STOP_SECONDS)
            if ask.after:
                await rolled_out(kube, Ref(DEPLOYMENTS, *ask.after), clock, within_seconds=ROLLOUT_SECONDS)
            return await hand_back(
                kube, ask.installation, dry_run=ask.dry_run, unnamed=ask.unnamed, namespaces=ask.namespaces
            )
    except (KubeError, StillThere, StillOld) as error:
        raise Failed(str(error)) from error
