"""`rebalancer override`: `add` shows what an override would do, asks, and creates it; also `list` and `delete`."""

from typing import Annotated

import typer

from rebalancer.cli.commands.override.kinds import Kind
from rebalancer.cli.failure import DONE
from rebalancer.cli.group import group
from rebalancer.cli.remote.where import (
    SERVICE_NAMESPACE,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    ServerOption,
    ServiceNamespaceOption,
    Where,
)
from rebalancer.cli.terminal.complete import overrides, subjects
from rebalancer.cli.terminal.output import Output, OutputOption, show
from rebalancer.cli.terminal.talk import (
    ConfirmOption,
    DryRunOption,
    KeyOption,
    NoInputOption,
    QuietOption,
    Talk,
    YesOption,
)

MOST_REPLICAS = 100_000  # as the API takes; the policy allows less

app = group("Decide for a while in the rebalancer's place: pause, freeze, pin, cap, floor, drain, exclude, stand up.")


@app.command()
def add(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="pause and freeze a model; pin it to exactly VALUE replicas, floor: at least so many, cap: at most; "
            "drain or exclude a node or pool; "
            "standUp: end a stand-down, as stand-up does.",
        ),
    ],
    subject: Annotated[
        str,
        typer.Argument(
            help="A model's id; for drain and exclude node/NAME or pool/NAME.",
            metavar="SUBJECT",
            autocompletion=subjects,
        ),
    ],
    value: Annotated[
        int | None, typer.Argument(help="Replicas, for pin, cap and floor.", metavar="VALUE", min=0, max=MOST_REPLICAS)
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever reads it at night.")] = ...,  # type: ignore[assignment]  # typer's way to say required
    lasts: Annotated[
        str | None,
        typer.Option("--for", help="How long: 30m, 1h30m; without it the policy's default.", metavar="DURATION"),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="With exclude: this model only.")] = None,
    allow_below_floor: Annotated[
        bool, typer.Option("--allow-below-floor", help="A pin or cap may go below the policy's floor. It is audited.")
    ] = False,
    namespace: NamespaceOption = None,
    key: KeyOption = None,
    yes: YesOption = False,
    confirm: ConfirmOption = None,
    dry_run: DryRunOption = False,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    output: OutputOption = Output.TABLE,
    no_input: NoInputOption = False,
    quiet: QuietOption = False,
) -> int:
    """Make an override after showing what it would do now. It ends by itself.

    It is written in your own name through your kubeconfig. What is severe (a drain, a pool, below the floor) wants its
    name typed, or --confirm NAME.
    """
    from rebalancer.cli.commands.override.arguments import OverrideArguments
    from rebalancer.cli.commands.override.create import Manner, create

    where, talk = Where(server, kubeconfig, context, service_namespace), Talk(quiet, no_input)
    arguments = OverrideArguments(kind, subject, value, reason, lasts, model, namespace, allow_below_floor)
    return create(where, talk, arguments, Manner(key, yes, confirm, dry_run, output))


@app.command("list")
def list_(
    all_: Annotated[
        bool,
        typer.Option("--all", help="Those that are over too: expired, and deleted ones that the service remembers."),
    ] = False,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Only those of this namespace.")
    ] = None,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    output: OutputOption = Output.TABLE,
) -> int:
    """List overrides: what is in force, until when, who decided and why."""
    import asyncio
    from contextlib import suppress

    from msgspec.structs import replace

    from rebalancer.api.http.json_codec import to_wire
    from rebalancer.api.ports.operator import Overrides
    from rebalancer.api.ports.status import Status
    from rebalancer.cli.commands.override.prepared import stored
    from rebalancer.cli.failure import Failed, NoAnswer
    from rebalancer.cli.remote.answers import decoded, read
    from rebalancer.cli.render.overrides import as_planned, clock_words, render_overrides
    from rebalancer.loop.clock import RealClock

    where = Where(server, kubeconfig, context, service_namespace)
    try:
        body, status = read(where, "/v1/overrides", "/v1/status")
        listed = decoded(body, Overrides)
        with suppress(Failed):  # a status of another version: then as the objects have it
            listed = replace(listed, overrides=as_planned(listed.overrides, decoded(status, Status).plan))
    except NoAnswer as failed:
        typer.echo(f"as Kubernetes has it; the service could not be asked: {failed}", err=True)
        listed = asyncio.run(stored(where))
    known = (
        (*listed.overrides, *listed.gone) if all_ else [each for each in listed.overrides if each.phase != "Expired"]
    )
    shown = tuple(each for each in known if namespace in {None, each.namespace})
    chosen = to_wire(replace(listed, overrides=shown, gone=()))
    clock = clock_words(listed.at, RealClock().now())
    show(output, chosen, lambda: render_overrides(shown, wide=output is Output.WIDE, clock=clock))
    return DONE


@app.command()
def delete(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Names of overrides, also as kubectl prints them.", metavar="NAME...", autocompletion=overrides
        ),
    ],
    namespace: NamespaceOption = None,
    yes: YesOption = False,  # noqa: ARG001  taken as elsewhere; nothing is asked
    dry_run: DryRunOption = False,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    quiet: QuietOption = False,
) -> int:
    """Take overrides back, in whatever namespace they are, after showing what comes then."""
    import asyncio

    from rebalancer.cli.commands.override.prepared import what_comes_without
    from rebalancer.cli.failure import Failed
    from rebalancer.cli.remote.cluster import open_cluster
    from rebalancer.cli.remote.objects import find_override, override_in, remove

    where = Where(server, kubeconfig, context, service_namespace)

    def warn(line: str) -> None:
        typer.echo(line, err=True)

    async def take_back(name: str) -> str:
        async with open_cluster(where) as cluster:
            ref = await (override_in(cluster, name, namespace, warn) if namespace else find_override(cluster, name))
            if ref is None:
                return f"{name} was gone already"
            if not quiet:
                typer.echo("\n".join(await what_comes_without(where, ref)))
            if dry_run:
                return f"would delete override {name} in {ref.namespace}; nothing was written"
            there = await remove(cluster, ref)
            return f"{name} deleted" if there else f"{name} was gone already"

    failures = []
    for name in (each.removeprefix("override.rebalancer.io/").removeprefix("override/") for each in names):
        try:
            line = asyncio.run(take_back(name))
        except Failed as failed:  # the others are taken back all the same
            failures.append(failed)
        else:
            typer.echo(name if quiet else line)
    if failures:
        raise Failed("\n".join(map(str, failures)), failures[0].code)
    return DONE
