"""`rebalancer writes`: the red button, pressed, looked at and taken away."""

from typing import Annotated

import typer

from rebalancer.cli.failure import DONE, Failed
from rebalancer.cli.group import group
from rebalancer.cli.remote.where import (
    SERVICE_NAMESPACE,
    ContextOption,
    KubeconfigOption,
    ServerOption,
    ServiceNamespaceOption,
    Where,
)
from rebalancer.cli.terminal.output import Output, OutputOption, show
from rebalancer.cli.terminal.talk import DryRunOption, KeyOption, NoInputOption, QuietOption, Talk, YesOption

RESUME = "resume"

app = group("The red button: stop every write of the service, resume them, see who stopped them.")


@app.command()
def stop(
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever is asked to resume.")],
    key: KeyOption = None,
    dry_run: DryRunOption = False,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    quiet: QuietOption = False,
) -> int:
    """Stop every write at once: within 2 s nothing is written until somebody resumes. Never asks back."""
    import asyncio
    import uuid

    from rebalancer.cli.commands.writes.write_stops import confirmation, create_stop

    where, talk = Where(server, kubeconfig, context, service_namespace), Talk(quiet)
    name, actor = asyncio.run(create_stop(where, reason, key or str(uuid.uuid4()), dry_run=dry_run))
    if dry_run:
        typer.echo(f"would create WriteStop {name} as {actor}; nothing was written")
        return DONE
    typer.echo(name if quiet else f"Writes stopped by {actor} ({name}). Resume: rebalancer writes resume")
    if not quiet:
        talk.say(asyncio.run(confirmation(where)))
    return DONE


@app.command()
def resume(
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    no_input: NoInputOption = False,
    quiet: QuietOption = False,
) -> int:
    """Take the write stops away that it shows, with what is written first then. Wants the word resume, or --yes."""
    import asyncio

    from rebalancer.cli.commands.writes.write_stops import first_plan, remove_stops, stops
    from rebalancer.cli.render.overrides import render_stops

    where, talk = Where(server, kubeconfig, context, service_namespace), Talk(quiet, no_input)
    there = asyncio.run(stops(where))
    if not there:
        talk.say("Writes are not stopped.")
        return DONE
    talk.say(render_stops(there), *asyncio.run(first_plan(where)))
    if dry_run:
        typer.echo(f"would delete {', '.join(each.name for each in there)}; nothing was written")
        return DONE
    talk.typed(RESUME, "Writing again", RESUME if yes else None, "--yes")
    asyncio.run(remove_stops(where, there))
    if pressed := asyncio.run(stops(where)):
        raise Failed(f"writes stay stopped, somebody pressed meanwhile; look again: {render_stops(pressed)}")
    typer.echo("Writes resumed.")
    return DONE


@app.command()
def status(
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> int:
    """Say whether writes are stopped, by whom, since when and why, as the cluster has it."""
    import asyncio

    from rebalancer.api.http.json_codec import to_wire
    from rebalancer.cli.commands.writes.write_stops import stops
    from rebalancer.cli.render.overrides import render_stops

    there = asyncio.run(stops(Where(None, kubeconfig, context)))
    show(output, to_wire({"stopped": bool(there), "stops": there}), lambda: render_stops(there))
    return DONE
