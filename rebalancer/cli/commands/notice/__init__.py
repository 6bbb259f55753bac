"""`rebalancer notice`: says to the service that a node goes, or that it stays after all."""

from enum import StrEnum
from typing import Annotated

import typer

from rebalancer.cli.failure import DONE
from rebalancer.cli.group import group
from rebalancer.cli.remote.where import (
    SERVICE_NAMESPACE,
    ContextOption,
    KubeconfigOption,
    ServerOption,
    ServiceNamespaceOption,
    Where,
)
from rebalancer.cli.terminal.talk import DryRunOption, NoInputOption, QuietOption, Talk, YesOption

MOST_SECONDS = 3650 * 86_400.0  # ten years: who types more means something else


class NoticeKind(StrEnum):
    """Why capacity goes: `notice_kinds.KINDS`, as typer wants them."""

    SPOT = "spot-interruption"
    REBALANCE = "rebalance"
    SCHEDULED = "scheduled-change"
    RESERVATION = "reservation-interruption"
    STATE = "state-change"
    DISRUPTION = "disruption"
    FAULT = "fault"


app = group("Capacity notices, as a cloud would send them.")


@app.command()
def add(
    node: Annotated[str | None, typer.Argument(help="Name of the node that goes.", metavar="NODE")] = None,
    instance: Annotated[
        str | None,
        typer.Option("--instance", help="Instead of NODE: its instance at the cloud, or its providerID.", metavar="ID"),
    ] = None,
    lasts: Annotated[str, typer.Option("--in", help="When it goes, from now.", metavar="DURATION")] = "2m",
    kind: Annotated[
        NoticeKind | None,
        typer.Option(
            "--kind", help="Why it goes, spot-interruption where nothing is said. With --cancel: this one alone."
        ),
    ] = None,
    voluntary: Annotated[
        bool, typer.Option("--voluntary", help="Its replacement comes by itself (consolidation, drift).")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take earlier notices of this node back, of every kind.")
    ] = False,
    kafka_bootstrap: Annotated[
        str | None,
        typer.Option("--kafka-bootstrap", help="HOST:PORT of brokers.", envvar="REBALANCER_KAFKA_BOOTSTRAP"),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    server: ServerOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    service_namespace: ServiceNamespaceOption = SERVICE_NAMESPACE,
    no_input: NoInputOption = False,
    quiet: QuietOption = False,
) -> int:
    """Tell the service that a node goes, by an event in Kafka: for what a cloud knows and does not tell by itself.

    Kafka's address and login come from the REBALANCER_KAFKA_... settings, the topic from REBALANCER_TOPIC_PREFIX;
    --dry-run prints the event and needs none of them. Where the service answers and sees no such node, it is said
    afterwards, unless --quiet is; it may come later. When it is you who wants a node emptied:
    rebalancer override add drain node/NODE, in your own name.
    """
    import asyncio

    from rebalancer.cli.commands.notice.event import event_of, send
    from rebalancer.cli.commands.notice.named import doubt, node_name
    from rebalancer.cli.failure import USAGE, Failed
    from rebalancer.cli.remote.kafka import kafka_settings
    from rebalancer.cli.render.overrides import hour
    from rebalancer.cli.terminal.spans import seconds_of
    from rebalancer.loop.clock import RealClock

    if (node is None) is (instance is None):
        raise Failed("give either a NODE or --instance and its ID", USAGE)
    node = None if node is None else node_name(node)
    name = node or instance
    now, talk = RealClock().now(), Talk(quiet, no_input)
    deadline = now + seconds_of(lasts, "--in", MOST_SECONDS)
    goes = {"node": node} if node is not None else {"instanceId": instance}
    kinds = [kind] if kind is not None else list(NoticeKind) if cancel else [NoticeKind.SPOT]
    events = [event_of(goes, one.value, now, deadline, voluntary=voluntary, cancelled=cancel) for one in kinds]
    what = f"Take the notices of {name} back" if cancel else f"Move off {name} by {hour(deadline)} UTC"
    if dry_run:
        for event in events:
            typer.echo(event.value.decode())
    else:
        settings = kafka_settings(kafka_bootstrap)
        talk.agreed(f"{what}?", yes=yes)
        topic = asyncio.run(send(settings, events))
        names = [event.id for event in events]
        written = names[0] if len(names) == 1 else f"{len(names)} events, one of each kind,"
        typer.echo("\n".join(names) if quiet else f"{written} written to {topic}. See it: rebalancer status")
    if node is not None and not quiet:  # last: a login plugin of the kubeconfig may take long
        talk.say(*filter(None, [asyncio.run(doubt(Where(server, kubeconfig, context, service_namespace), node))]))
    return DONE
