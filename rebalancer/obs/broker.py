"""Where Kafka is, and the topics this service reads and writes there."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

REQUEST_SECONDS = 10
MOST_REPLICAS = 3
# What an absent or unwilling broker makes a client raise.
BROKER_ERRORS = (KafkaError, OSError)  # a TimeoutError is an OSError


class Topic(NamedTuple):
    """How a topic is made where we are the first to need it."""

    partitions: int = 1
    settings: Mapping[str, str] = {}


TOPICS: dict[str, Topic] = {
    "metrics": Topic(partitions=12),
    "notices": Topic(),
    "overrides": Topic(),
    "decisions": Topic(),
    # Only closed segments are compacted: 64 MiB ones close often enough to keep a start short.
    "state": Topic(settings={"cleanup.policy": "compact", "segment.bytes": str(64 * 1024 * 1024)}),
    "dead-letter": Topic(),
}


@dataclass(frozen=True)
class Broker:
    """`bootstrap` is `host:port[,host:port]`; `security` gives aiokafka's security arguments.

    It is asked at each new connection, so that rotated credentials are read again.
    """

    bootstrap: str
    prefix: str = "rebalancer."
    security: Callable[[], Mapping[str, Any]] = dict

    def topic(self, name: str) -> str:
        """Full name of one of `TOPICS`."""
        return f"{self.prefix}{name}"

    def connection(self) -> dict[str, Any]:
        """Arguments that every aiokafka client gets."""
        return {
            "bootstrap_servers": self.bootstrap,
            "client_id": "rebalancer",
            "request_timeout_ms": REQUEST_SECONDS * 1000,
            "retry_backoff_ms": 250,
            "metadata_max_age_ms": 30_000,
            **self.security(),
        }

    async def partitions(self, names: Sequence[str]) -> dict[str, int]:
        """Partitions of those topics of ours that exist, by full name; makes missing ones where that is allowed.

        Raises one of BROKER_ERRORS when the broker is away.
        """
        admin = AIOKafkaAdminClient(**self.connection())
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await admin.start()
                await self._create_missing(admin, names)
                found = await admin.describe_topics([self.topic(name) for name in names])
        finally:
            await finish(admin.close(), seconds=1.0)
        return {topic["topic"]: len(topic["partitions"]) for topic in found if not topic["error_code"]}

    async def _create_missing(self, admin: AIOKafkaAdminClient, names: Sequence[str]) -> None:
        there = set(await admin.list_topics())
        missing = [name for name in names if self.topic(name) not in there]
        if not missing:
            return
        cluster = await admin.describe_cluster()
        brokers = {broker["node_id"] for broker in cluster["brokers"]}
        if cluster["controller_id"] not in brokers:
            return  # nobody to ask
        replicas = min(MOST_REPLICAS, len(brokers))
        topics = [
            NewTopic(self.topic(name), TOPICS[name].partitions, replicas, topic_configs=dict(TOPICS[name].settings))
            for name in missing
        ]
        try:
            await admin.create_topics(topics)
        except BROKER_ERRORS:
            return  # not ours to make: describing them makes them where the broker does that, else they stay missing


async def finish(ending: Coroutine[Any, Any, Any], seconds: float) -> bool:
    """Run a client's stop or close, but not for ever; whether it came to its end.

    A client that loses its broker while it stops may hang, or raise CancelledError although nobody cancelled it.
    """
    task = asyncio.ensure_future(ending)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.cancel()
        await asyncio.wait({task}, timeout=seconds)
        return False
    return not task.cancelled() and task.exception() is None
