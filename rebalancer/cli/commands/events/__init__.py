"""`rebalancer events check`: what the service would understand of records in a file or a topic."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli.failure import DONE, FAILED
from rebalancer.cli.group import group
from rebalancer.cli.terminal.output import Output, OutputOption, show

app = group("Records of producers, as the service would read them.")


class ReadAs(StrEnum):
    """Formats of records: `producers.DecoderName` and the notices, as typer wants them."""

    REBALANCER = "rebalancer"
    NOTICES = "notices"
    TELEGRAF = "telegraf"
    PROMETHEUS = "prometheus"
    OTLP_JSON = "otlp-json"
    OTLP_PROTO = "otlp-proto"
    VECTOR = "vector"
    FLAT = "flat"


KafkaOption = Annotated[
    str | None, typer.Option("--kafka-bootstrap", help="HOST:PORT of brokers.", envvar="REBALANCER_KAFKA_BOOTSTRAP")
]


@app.command()
def check(
    source: Annotated[
        str,
        typer.Argument(
            help="A file of records (a record a line, one JSON document, or `kcat -J`; - is standard input), else the "
            "whole name of a topic.",
            metavar="FILE|TOPIC",
        ),
    ],
    policy: Annotated[
        Path | None,
        typer.Option("--policy", help="Policy file whose producers say how.", envvar="REBALANCER_POLICY_PATH"),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Read a FILE as the producer of this topic in the policy.")
    ] = None,
    read_as: Annotated[
        ReadAs | None, typer.Option("--as", help="Read it as this format, with the names known without a policy.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Newest records of a TOPIC.")] = 100,
    at: Annotated[
        str | None,
        typer.Option("--at", help="Judge as at this RFC 3339 instant, not now: records of a FILE are old."),
    ] = None,
    kafka_bootstrap: KafkaOption = None,
    output: OutputOption = Output.TABLE,
) -> int:
    """Say for each record what would be understood, and what is dropped and why.

    The exit code is 1 when anything is dropped, or nothing understood.

    Nothing is written anywhere. How records are read comes from --as, else from the policy's producers, else they are
    our own: a topic of the notices by its name, any other as metrics.
    """
    import msgspec

    from rebalancer.api.text.words import counted
    from rebalancer.cli.commands.events.sources import instant, records_of, understanding
    from rebalancer.cli.render.events import render_events, summary
    from rebalancer.ingest.understood import Understood
    from rebalancer.loop.clock import RealClock

    now = RealClock().now() if at is None else instant(at)
    records = records_of(source, limit, kafka_bootstrap, now)
    reading = understanding(read_as, topic or source, policy, in_file=topic is None and records.in_file)
    understood = [reading.of(record, now) for record in records.records]
    if records.unreadable:
        what = f"unreadable: {counted(records.unreadable, 'record')} that Kafka's client cannot decode, as where a"
        what += " header's name is no UTF-8. The service gives them up, too"
        understood.append(Understood(source, dropped=(what,)))
    body = msgspec.json.encode({"records": understood, "summary": summary(understood)})
    show(output, body, lambda: render_events(understood))
    good = any(one.readings or one.notices for one in understood) and not any(one.dropped for one in understood)
    return DONE if good else FAILED
