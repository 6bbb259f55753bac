"""`rebalancer demo`."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rebalancer.cli.failure import DONE, FAILED, USAGE, Failed, NoAnswer

if TYPE_CHECKING:
    from rebalancer.world.traffic import Rows


def command(
    deed: Annotated[
        Literal["surge"] | None,
        typer.Argument(help="surge: in the demo that runs with --keep, MODEL gets more users.", metavar="surge"),
    ] = None,
    model: Annotated[str | None, typer.Argument(help="With surge: chat, code or image.", metavar="MODEL")] = None,
    lasts: Annotated[
        str, typer.Option("--for", help="With surge: how long, by the demo's clock.", metavar="DURATION")
    ] = "10m",
    speed: Annotated[
        float, typer.Option(help="How many times faster than life the world and the service's clock run.", min=0.1)
    ] = 4.0,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="CSV t_seconds,model,requests,input_tokens,output_tokens that drives the traffic in the story's place."
        ),
    ] = None,
    write_mode: Annotated[
        Literal["act", "shadow"],
        typer.Option(help="shadow: it decides and writes nothing; with --keep, without the story."),
    ] = "act",
) -> int:
    """Play a surge, a reclaim, a spot notice and an override to the real service on an embedded Kafka and Kubernetes.

    Exit code 0 when all of it happened, judged by the API's audit trail; 1 when not. With --keep it goes on with
    traffic in a loop, and `rebalancer demo surge chat` from the same folder makes a surge: ten minutes of its
    clock, two and a half of yours, unless --for says how long.
    """
    if deed is not None:
        return _surge(model, lasts)
    if write_mode == "shadow" and not keep:
        raise Failed(
            "--write-mode shadow: nothing is written, so the story cannot happen; look around with --keep", USAGE
        )
    rows = None if trace is None else _rows(trace)
    try:
        from rebalancer.app import Service
        from rebalancer.sandbox.demo import AddressTaken, Broke, Options, run_demo
    except ModuleNotFoundError as missing:
        raise Failed(f"{missing.name} is not installed: pip install 'rebalancer[sandbox]'") from missing

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it to what it starts in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    options = Options(speed=speed, keep=keep, write_mode=write_mode, trace=rows)
    try:
        happened = run_demo(options, lambda settings, clock, journal: Service(settings, clock, journal=journal))
    except AddressTaken as taken:
        raise Failed(str(taken)) from taken
    except Broke as broke:
        raise Failed(f"{broke}; see {options.folder / 'service.log'}") from broke
    return DONE if happened else FAILED


def _surge(model: str | None, lasts: str) -> int:
    """Ask the demo that runs in this folder for a surge. Raises Failed when there is none, or no such model."""
    import asyncio

    from rebalancer.cli.remote.cluster import open_cluster
    from rebalancer.cli.remote.where import Where
    from rebalancer.cli.terminal.spans import as_typed, seconds_of
    from rebalancer.cli.terminal.wrong import nearest
    from rebalancer.kube.errors import Invalid
    from rebalancer.kube.resources import DEPLOYMENTS, Ref
    from rebalancer.sandbox.demo_loop import ANNOTATION, LONGEST_SECONDS, SURGES

    if model not in SURGES:
        what = "say which model" if model is None else f"no model {model} in the demo{nearest(model, list(SURGES))}"
        raise Failed(f"{what}; it has {', '.join(SURGES)}", USAGE)
    seconds = seconds_of(lasts, "--for", LONGEST_SECONDS)
    kubeconfig = Path("build/demo/operator")
    if not kubeconfig.exists():
        raise Failed("no demo runs in this folder: start one here with rebalancer demo --keep")

    async def ask() -> None:
        async with open_cluster(Where(None, kubeconfig)) as cluster:
            note = {"metadata": {"annotations": {ANNOTATION: f"{seconds:.0f} s, asked at {cluster.clock.now()}"}}}
            try:
                await cluster.kube.patch(Ref(DEPLOYMENTS, "serving", model), note)
            except Invalid as refused:
                raise Failed(
                    "the demo still plays its story, or runs without --keep; surges are for after it"
                ) from refused

    try:
        asyncio.run(ask())
    except NoAnswer as silent:
        raise Failed("the demo of this folder has ended: start one here with rebalancer demo --keep") from silent
    typer.echo(
        f"{model} gets more users for {as_typed(seconds)} of the demo's clock. See it: rebalancer status --watch"
    )
    return DONE


def _rows(path: Path) -> "Mapping[str, Rows]":
    from rebalancer.sandbox.demo_cluster import IDLE_RATES
    from rebalancer.world.traffic import BadTrace, read_trace

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # Excel writes a BOM before the first column
            rows = read_trace(file)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise Failed(f"--trace {path}: cannot be read ({why})", USAGE) from error
    except BadTrace as wrong:
        raise Failed(f"{path}: {wrong}", USAGE) from wrong
    unknown = sorted(rows.keys() - IDLE_RATES.keys())
    if unknown:
        raise Failed(f"{path}: no model {', '.join(unknown)} in the demo; it has {', '.join(IDLE_RATES)}", USAGE)
    return rows
