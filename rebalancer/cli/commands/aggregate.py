"""`rebalancer aggregate`: one process of the tier that reads the metrics topic for a service that cannot alone."""

from typing import Annotated

import typer


def command(
    member: Annotated[
        str | None,
        typer.Option(
            "--member",
            help="Our name among the processes of the tier, the same after a restart; else the host's, as in a pod.",
            envvar="REBALANCER_INSTANCE",
        ),
    ] = None,
    kafka_bootstrap: Annotated[
        str | None, typer.Option("--kafka-bootstrap", help="HOST:PORT of brokers.", envvar="REBALANCER_KAFKA_BOOTSTRAP")
    ] = None,
) -> None:
    """Read a share of the topic `metrics` and write what it says into the topic `readings`, until SIGTERM or Ctrl-C.

    As many as there are divide the partitions among them, as a consumer group. A service reads `readings` in the place
    of `metrics` where REBALANCER_AGGREGATED is true. Kafka's address and login come from the REBALANCER_KAFKA_...
    settings; no policy is read and no cluster is asked. Probes and metrics are at REBALANCER_PROBE_PORT.
    """
    import random
    import socket

    import uvloop

    from rebalancer.app.aggregate import Aggregate, serve_aggregate
    from rebalancer.app.topics import broker_of
    from rebalancer.cli.failure import Failed
    from rebalancer.cli.remote.kafka import kafka_settings
    from rebalancer.loop.clock import RealClock
    from rebalancer.obs import log

    settings = kafka_settings(kafka_bootstrap)
    lines = log.configure(settings.log_level, settings.log_format)
    rng = random.Random()  # noqa: S311  jitter of back-offs, no secret

    async def run() -> None:
        aggregate = Aggregate(broker_of(settings), member or socket.gethostname(), RealClock(), rng)
        await serve_aggregate(aggregate, settings.probe_host, settings.probe_port)

    try:
        uvloop.run(run())
    except OSError as error:
        raise Failed(f"probes on {settings.probe_host}:{settings.probe_port}: {error}") from error
    finally:
        lines.flush()
