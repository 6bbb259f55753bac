"""`rebalancer topics`: the topics and rights that the service needs, and how they differ from what there is."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli.failure import DIFFERS, DONE, FAILED
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
        bool,
        typer.Option("--create", help="Make the topics that are missing and give --user its rights; change no other."),
    ] = False,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", help="Policy file: its producers' topics are read, too.", envvar="REBALANCER_POLICY_PATH"
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            help="Kafka user of the service, who has or gets the rights: CN=NAME where a certificate says who it is. "
            "Printed, it is rebalancer; --create gives nobody rights who is not named.",
        ),
    ] = None,
    aggregate: Annotated[bool, typer.Option("--aggregate", help="Also the rights of `rebalancer aggregate`.")] = False,
    notice_queue: Annotated[
        bool, typer.Option("--notice-queue", help="Also the right to write what a queue of SQS says into notices.")
    ] = False,
    replication: Annotated[int, typer.Option("--replication", min=1, max=9, help="Copies of each partition.")] = 3,
    kafka_bootstrap: Annotated[
        str | None, typer.Option("--kafka-bootstrap", help="HOST:PORT of brokers.", envvar="REBALANCER_KAFKA_BOOTSTRAP")
    ] = None,
    exit_code: ExitCodeOption = False,
    output: OutputOption = Output.TABLE,
) -> int:
    """Say how Kafka's topics differ from what the service needs: partitions, retention, cleanup policy.

    Without --create nothing is changed anywhere. Rights (ACLs) are given with --create and --user, by a login that may
    alter the cluster: another one than the service's. Whoever may not prints them.
    """
    import msgspec

    from rebalancer.cli.commands.topics.needs import TopicNeeds, compared, printed
    from rebalancer.cli.render.topics import as_object, render_comparison

    needs = TopicNeeds(policy, user, replication, aggregates=aggregate, queue=notice_queue)
    if print_as is not None:
        typer.echo(printed(print_as.value, needs, kafka_bootstrap), nl=False)
        return DONE
    comparison = compared(needs, kafka_bootstrap, create=create)
    show(output, msgspec.json.encode(as_object(comparison)), lambda: render_comparison(comparison))
    if comparison.not_given:
        return FAILED
    return DIFFERS if exit_code and comparison.differences else DONE
