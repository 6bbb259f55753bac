"""`rebalancer bridge`: what Prometheus knows, as records of our own in Kafka."""

from typing import Annotated

import typer

from rebalancer.cli.failure import DONE, FAILED, USAGE, Failed


def command(
    namespaces: Annotated[
        list[str], typer.Option("--namespace", "-n", help="Namespace of model servers; may be given again.")
    ],
    once: Annotated[bool, typer.Option("--once", help="Ask once, write, and end; 1 when nothing was written.")] = False,
    kafka_bootstrap: Annotated[
        str | None, typer.Option("--kafka-bootstrap", help="HOST:PORT of brokers.", envvar="REBALANCER_KAFKA_BOOTSTRAP")
    ] = None,
) -> int:
    """Write what Prometheus knows of these namespaces' pods into the topic `metrics`, until Ctrl-C.

    Prometheus' address and login come from the REBALANCER_PROMETHEUS_... settings, Kafka's from REBALANCER_KAFKA_...;
    no cluster is asked. For one rebalancer that reads Prometheus itself there is no need of it.
    """
    import asyncio
    import random

    from rebalancer.app.bridge import Bridge
    from rebalancer.app.sources import server_of
    from rebalancer.app.topics import broker_of
    from rebalancer.cli.remote.kafka import kafka_settings
    from rebalancer.ingest.promql import question
    from rebalancer.loop.clock import RealClock
    from rebalancer.obs import log

    settings = kafka_settings(kafka_bootstrap)
    if not settings.prometheus_url:
        raise Failed("REBALANCER_PROMETHEUS_URL is not set: http(s)://HOST:PORT of the Prometheus to ask", USAGE)
    try:
        question(namespaces)
    except ValueError as wrong:
        raise Failed(f"--namespace: {wrong}", USAGE) from wrong

    async def run() -> int:
        bridge = Bridge(
            server_of(settings),
            broker_of(settings),
            namespaces,
            settings.prometheus_interval_seconds,
            RealClock(),
            random.Random(),  # noqa: S311  jitter of back-offs, no secret
        )
        if not once:
            await bridge.run()
        written = await bridge.once()
        why = bridge.prometheus.trouble or bridge.outbox.trouble
        typer.echo(f"{written} records written" + (f": {why}" if why and not written else ""))
        return DONE if written else FAILED

    lines = log.configure(settings.log_level, settings.log_format)  # on stderr: what is printed is the command's answer
    try:
        return asyncio.run(run())
    finally:
        lines.flush()
