"""What a broker has beside what the service needs, and the latter in the words of Kafka's tools and of Strimzi."""

import asyncio
import os
from pathlib import Path

from rebalancer.app.topics import broker_of
from rebalancer.cli.failure import UNREACHABLE, USAGE, Failed
from rebalancer.cli.remote.kafka import kafka_settings, policy_in
from rebalancer.cli.render.topics import render_commands, render_strimzi
from rebalancer.kafka.broker import BROKER_ERRORS, Broker
from rebalancer.kafka.topic_plan import TopicDifference, create, differences, rights, there_now, wanted
from rebalancer.settings.service import PREFIX, BadSettings, ServiceSettings

BOOTSTRAP = "$BOOTSTRAP"  # where nobody says which; a shell fills it in


def printed(
    form: str, policy: Path | None, user: str, replication: int, bootstrap: str | None, *, aggregates: bool
) -> str:
    """Commands or YAML that make all that the service needs, and its aggregate tier where `aggregates`.

    Raises Failed for a policy that is none.
    """
    prefix = os.environ.get(f"{PREFIX}TOPIC_PREFIX", str(ServiceSettings.model_fields["topic_prefix"].default))
    followed = policy_in(policy)
    granted = rights(prefix, [one.topic for one in followed.producers] if followed else [], aggregates=aggregates)
    if form == "strimzi":
        return render_strimzi(wanted(prefix), granted, user, replication)
    return render_commands(wanted(prefix), granted, user, replication, bootstrap or BOOTSTRAP)


def compared(bootstrap: str | None, replication: int, *, create: bool) -> tuple[list[str], list[TopicDifference]]:
    """Topics that were made, and what differs then. Raises Failed where Kafka cannot be asked, or refuses."""
    settings = kafka_settings(bootstrap)
    try:
        return asyncio.run(_compared(broker_of(settings), replication, making=create))
    except BadSettings as wrong:
        raise Failed(str(wrong), USAGE) from wrong
    except BROKER_ERRORS as error:
        what = f"Kafka at {settings.kafka_bootstrap}: {type(error).__name__}: {error}"
        raise Failed(what, UNREACHABLE) from error


async def _compared(broker: Broker, replication: int, *, making: bool) -> tuple[list[str], list[TopicDifference]]:
    names = list(wanted(broker.prefix))
    there = await there_now(broker, names)
    missing = [name for name in names if name not in there]
    if making and missing:
        await create(broker, missing, replication)
        there = await there_now(broker, names)
    return missing if making else [], list(differences(broker.prefix, there, replication))
