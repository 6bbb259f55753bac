"""What a broker has beside what the service needs, and the latter in the words of Kafka's tools and of Strimzi."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rebalancer.app.topics import broker_of
from rebalancer.cli.failure import UNREACHABLE, USAGE, Failed
from rebalancer.cli.remote.kafka import kafka_settings, policy_in, trouble_of
from rebalancer.cli.render.topics import TopicsCompared, principal_of, render_commands, render_strimzi
from rebalancer.kafka.acls import give
from rebalancer.kafka.broker import BROKER_ERRORS, Broker, why
from rebalancer.kafka.topic_plan import TopicRight, create, differences, rights, there_now, wanted
from rebalancer.settings.service import PREFIX, BadSettings, ServiceSettings

BOOTSTRAP = "$BOOTSTRAP"  # where nobody says which; a shell fills it in
USER = "rebalancer"


class TopicNeeds(NamedTuple):
    """What an installation needs of Kafka.

    policy: file whose producers' topics are read, too.
    user: its Kafka user, None where nobody said.
    replication: copies of each partition.
    aggregates: whether `rebalancer aggregate` is the same user.
    queue: whether it brings the notices of a queue into their topic.
    """

    policy: Path | None
    user: str | None
    replication: int
    aggregates: bool
    queue: bool = False

    def rights(self, prefix: str) -> tuple[TopicRight, ...]:
        """Raises Failed for a policy that is none."""
        policy = policy_in(self.policy)
        producers = [each.topic for each in policy.producers] if policy else []
        return rights(prefix, producers, aggregates=self.aggregates, queue=self.queue)


def printed(form: str, needs: TopicNeeds, bootstrap: str | None) -> str:
    """Commands or YAML that make all that the service needs. Raises Failed for a policy that is none."""
    prefix = os.environ.get(f"{PREFIX}TOPIC_PREFIX", str(ServiceSettings.model_fields["topic_prefix"].default))
    user, granted = needs.user or USER, needs.rights(prefix)
    if form == "strimzi":
        return render_strimzi(wanted(prefix), granted, user, needs.replication)
    return render_commands(wanted(prefix), granted, user, needs.replication, bootstrap or BOOTSTRAP)


def compared(needs: TopicNeeds, bootstrap: str | None, *, create: bool) -> TopicsCompared:
    """What was made and given, and what differs then. Raises Failed where Kafka cannot be asked, or makes no topic."""
    settings = kafka_settings(bootstrap)
    granted = needs.rights(settings.topic_prefix) if create and needs.user else ()
    try:
        return asyncio.run(_compared(broker_of(settings), needs, granted, making=create))
    except BadSettings as wrong:
        raise Failed(str(wrong), USAGE) from wrong
    except BROKER_ERRORS as error:
        raise Failed(trouble_of(settings, error), UNREACHABLE) from error


async def _compared(
    broker: Broker, needs: TopicNeeds, granted: Sequence[TopicRight], *, making: bool
) -> TopicsCompared:
    names = list(wanted(broker.prefix))
    there = await there_now(broker, names)
    missing = [name for name in names if name not in there]
    if making and missing:
        await create(broker, missing, needs.replication)
        there = await there_now(broker, names)
    return TopicsCompared(
        made=missing if making else [],
        differences=list(differences(broker.prefix, there, needs.replication)),
        given=granted,
        user=needs.user if granted else None,
        not_given=await _not_given(broker, granted, needs.user or "") if granted else None,
    )


async def _not_given(broker: Broker, granted: Sequence[TopicRight], user: str) -> str | None:
    """Why the rights are not all given now, None when they are. The topics that were made are told of either way."""
    try:
        await give(broker, granted, principal_of(user))
    except BROKER_ERRORS as error:
        return why(error)
    return None
