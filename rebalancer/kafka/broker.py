"""Where Kafka is, and the topics this service reads and writes there."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLCertVerificationError, SSLContext, SSLError
from typing import Any, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.helpers import create_ssl_context

from rebalancer.obs.effects import effect

REQUEST_SECONDS = 10
MOST_REPLICAS = 3
# What an absent or unwilling broker makes a client raise. A TimeoutError is an OSError; an OverflowError comes of an
# answer with a wrong byte that names a port beyond 65535, and of none of its other bytes comes anything but these.
BROKER_ERRORS = (KafkaError, OSError, OverflowError)
NoConnection = KafkaConnectionError  # that of them which says that no broker was reached
HANDSHAKE_SECONDS = 2.0


class Distrusted(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """A broker was reached, and a certificate, its own or ours, is not good; the text says which broker and why."""


class Topic(NamedTuple):
    """How a topic is made where we are the first to need it."""

    partitions: int = 1
    settings: Mapping[str, str] = {}

    def new(self, name: str, replication: int) -> NewTopic:
        """The client's word for it, under its full name."""
        return NewTopic(name, self.partitions, replication, topic_configs=dict(self.settings))


def _retention(days: int) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(days * 86_400_000)}


# A start without a checkpoint reads 5.1 h of metrics and an hour of notices; the rest is for people who look back.
TOPICS: dict[str, Topic] = {
    "metrics": Topic(partitions=12, settings=_retention(days=1)),
    # Whoever is away for less than it reads back finds everything; of what is older the last word of each partition.
    "readings": Topic(
        partitions=3,
        settings={
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": str(12 * 3_600_000),
            "segment.bytes": str(64 * 1024 * 1024),
        },
    ),
    "notices": Topic(settings=_retention(days=7)),
    "overrides": Topic(settings=_retention(days=7)),
    "decisions": Topic(settings=_retention(days=30)),
    # Only closed segments are compacted: 64 MiB ones close often enough to keep a start short.
    "state": Topic(settings={"cleanup.policy": "compact", "segment.bytes": str(64 * 1024 * 1024)}),
    "dead-letter": Topic(settings=_retention(days=14)),
}


@dataclass(frozen=True)
class Broker:
    """How clients reach Kafka, and what our topics are called there.

    bootstrap: addresses of brokers, as `host:port[,host:port]`.
    prefix: what the full names of our topics begin with.
    security: gives aiokafka's security arguments; it is asked for each new client, and may block.
    files: files with credentials that a client reads once; a client whose files have changed since is to be made anew,
        so that what rotates needs no restart.
    """

    bootstrap: str
    prefix: str = "rebalancer."
    security: Callable[[], Mapping[str, Any]] = dict
    files: tuple[Path, ...] = ()

    def topic(self, name: str) -> str:
        """Full name of one of `TOPICS`."""
        return f"{self.prefix}{name}"

    async def credentials(self) -> tuple[object, ...]:
        """A mark of the files with credentials as they are now: another one means that they have changed."""
        return await asyncio.to_thread(lambda: tuple(map(_mark, self.files))) if self.files else ()

    async def secured(self) -> Mapping[str, Any]:
        """What `security` gives, its files read beside the event loop."""
        return await asyncio.to_thread(self.security)

    async def connection(self) -> dict[str, Any]:
        """Arguments that every aiokafka client gets."""
        return {
            "bootstrap_servers": self.bootstrap,
            "client_id": "rebalancer",
            "request_timeout_ms": REQUEST_SECONDS * 1000,
            "retry_backoff_ms": 250,
            "metadata_max_age_ms": 30_000,
            **await self.secured(),
        }

    async def make_topics(self, others: Collection[str] = ()) -> dict[str, int]:
        """Make those of `TOPICS` that are missing, where that is allowed; partitions of those there are, by full name.

        `others`: full names of topics that are not ours to make, and are told of where they are. Raises one of
        BROKER_ERRORS when the broker is away.
        """
        async with self.admin() as admin:
            there = set(await admin.list_topics())
            await self._create(admin, there)
            ours = [self.topic(name) for name in TOPICS]
            return await _partitions(admin, [*ours, *(name for name in others if name in there and name not in ours)])

    async def partitions(self, topic: str) -> int:
        """Partitions of the topic with this full name; 0 when it does not exist. Raises one of BROKER_ERRORS."""
        async with self.admin() as admin:
            if topic not in await admin.list_topics():
                return 0  # describing it could make it
            return (await _partitions(admin, [topic])).get(topic, 0)

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """A client for topics, while the block lasts. Raises one of BROKER_ERRORS."""
        admin = AIOKafkaAdminClient(**await self.connection())
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._start(admin)
                yield admin
        finally:
            await finish(admin.close(), seconds=1.0)

    async def _start(self, admin: AIOKafkaAdminClient) -> None:
        """Raises Distrusted where TLS is why no broker was reached: the client tells that to its log only."""
        try:
            await bring_up(admin.start())
        except NoConnection as error:
            tls: SSLContext | None = (await self.secured()).get("ssl_context")
            if tls is not None:
                for address in map(str.strip, self.bootstrap.split(",")):
                    if why_not := await _distrust(address, tls):
                        raise Distrusted(f"{address} {why_not}") from error
            raise

    async def _create(self, admin: AIOKafkaAdminClient, there: Collection[str]) -> None:
        cluster = await admin.describe_cluster()
        brokers = {broker["node_id"] for broker in cluster["brokers"]}
        topics = [
            topic.new(self.topic(name), min(MOST_REPLICAS, len(brokers)))
            for name, topic in TOPICS.items()
            if self.topic(name) not in there
        ]
        if topics and cluster["controller_id"] in brokers:
            # Refused, it is not ours to make: describing it makes it where brokers do that, else it stays missing.
            with suppress(*BROKER_ERRORS), effect("kafka/topics", self.prefix):
                await admin.create_topics(topics)


async def _partitions(admin: AIOKafkaAdminClient, topics: list[str]) -> dict[str, int]:
    described = await admin.describe_topics(topics)
    return {topic["topic"]: len(topic["partitions"]) for topic in described if not topic["error_code"]}


async def _distrust(address: str, tls: SSLContext) -> str:
    """What is wrong with a certificate there, its own or ours; empty where it is something else."""
    host, _, port = address.rpartition(":")
    writer = None
    with suppress(TimeoutError, OSError, ValueError):
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls)
                await reader.read(1)  # a broker that does not take our certificate says so behind the handshake
        except SSLCertVerificationError as error:
            return f"shows a certificate that is not good: {error.verify_message}"
        except SSLError as error:
            if "ALERT" in (error.reason or ""):
                return f"does not take our certificate; has it expired, is its CA known there? ({error.reason})"
        finally:
            if writer is not None:
                writer.transport.abort()
    return ""


def why(error: Exception) -> str:
    """What one of BROKER_ERRORS says to people: the client puts the name of its class before it."""
    return str(error).removeprefix(f"{type(error).__name__}: ") or type(error).__name__


def _mark(file: Path) -> object:
    """A file that is away for a moment, as while it is replaced, is not yet another one."""
    try:
        status = file.stat()  # follows the links by which Kubernetes flips a Secret
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def trust(ca_file: Path | None, cert_file: Path | None = None, key_file: Path | None = None) -> SSLContext:
    """The TLS settings of a client: it trusts certificates of this CA, else of those that the machine knows.

    `cert_file` and `key_file` are what the client shows of itself. Raises OSError with the file that is not good, what
    is wrong with it, and what to do.
    """
    for file, what in ((ca_file, "certificate"), (cert_file, "certificate"), (key_file, "private key")):
        if file is not None:
            _look_for(what, file)
    files = {"cafile": ca_file, "certfile": cert_file, "keyfile": key_file}
    try:
        context: SSLContext = create_ssl_context(
            **{name: str(file) for name, file in files.items() if file is not None},
            password="",  # else OpenSSL asks the terminal for one
        )
    except SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise OSError(f"{key_file}: is not the key of the certificate in {cert_file}; write both again") from error
        spoiled = ", ".join(str(file) for file in files.values() if file is not None)
        raise OSError(f"{spoiled}: no PEM that can be used ({error}); a key must have no passphrase") from error
    return context


def _look_for(what: str, file: Path) -> None:
    """OpenSSL names no file. Raises OSError with this one where it does not hold a whole `what`."""
    try:
        held = file.read_bytes()
    except OSError as error:
        raise OSError(f"{file}: cannot be read ({error.strerror}); mount it again, or correct its path") from error
    if not re.search(rf"-----END [A-Z0-9 ]*{what.upper()}-----".encode(), held):
        raise OSError(f"{file}: no {what} in PEM, or not all of it; write it again")


async def bring_up(starting: Coroutine[Any, Any, Any], seconds: float = 1.0) -> None:
    """Run a client's start. One that is cancelled meanwhile comes to its end first, or is cut off after `seconds`.

    A client that is cancelled while it asks its first question keeps that connection open, and no stop knows of it.
    """
    task = asyncio.ensure_future(starting)
    try:
        await asyncio.shield(task)
    finally:
        if not task.done():
            await asyncio.wait({task}, timeout=seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


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
