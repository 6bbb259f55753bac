"""`rebalancer topics`: the topics and rights that the service needs, and how they differ from what there is."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli.failure import DIFFERS, DONE
from rebalancer.cli.terminal.output import ExitCodeOption, Output, OutputOption, show


class PrintAs(StrEnum):
    """Forms in which topics and rights are printed, as typer wants them."""

    COMMANDS = "commands"
    STRIMZI = "strimzi"


def command(
    print_as: Annotated[
        PrintAs | None,
        typer.Option("--print", help="Ask no broker: print Kafka's own commands, or YAML for Strimzi."),
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Make the topics that are missing; change no other.")
    ] = False,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", help="Policy file: its producers' topics are read, too.", envvar="REBALANCER_POLICY_PATH"
        ),
    ] = None,
    user: Annotated[str, typer.Option("--user", help="Kafka user of the service, in what is printed.")] = "rebalancer",
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="Also the rights of `rebalancer aggregate`, in what is printed.")
    ] = False,
    replication: Annotated[int, typer.Option("--replication", min=1, max=9, help="Copies of each partition.")] = 3,
    kafka_bootstrap: Annotated[
        str | None, typer.Option("--kafka-bootstrap", help="HOST:PORT of brokers.", envvar="REBALANCER_KAFKA_BOOTSTRAP")
    ] = None,
    exit_code: ExitCodeOption = False,
    output: OutputOption = Output.TABLE,
) -> int:
    """Say how Kafka's topics differ from what the service needs: partitions, retention, cleanup policy.

    Without --create nothing is changed anywhere. Rights (ACLs) are printed, never made: who may give them is another
    user than the service's.
    """
    import msgspec

    from rebalancer.cli.commands.topics.asked import compared, printed
    from rebalancer.cli.render.topics import render_differences

    if print_as is not None:
        typer.echo(printed(print_as.value, policy, user, replication, kafka_bootstrap, aggregates=aggregate), nl=False)
        return DONE
    made, differing = compared(kafka_bootstrap, replication, create=create)
    body = msgspec.json.encode({"made": made, "differences": [one._asdict() for one in differing]})
    show(output, body, lambda: render_differences(made, differing))
    return DIFFERS if exit_code and differing else DONE
