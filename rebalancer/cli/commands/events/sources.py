"""Where records to be checked come from, and as what they are read."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
from msgspec import Raw, Struct

from rebalancer.app.topics import broker_of
from rebalancer.cli.failure import UNREACHABLE, USAGE, Failed
from rebalancer.cli.remote.kafka import kafka_settings, policy_in, trouble_of
from rebalancer.cli.terminal.output import in_utf8
from rebalancer.domain.producers import DecoderName, MetricProducer
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.understood import NOTICES, SentRecord, Understanding, is_ours, understanding_of
from rebalancer.kafka.broker import BROKER_ERRORS
from rebalancer.kafka.last_records import last_records
from rebalancer.obs import log
from rebalancer.settings.service import PREFIX, BadSettings, ServiceSettings

STDIN = "-"


class SourceRecords(NamedTuple):
    """Records, whether they stood in a file, and how many beside them Kafka's client cannot decode."""

    records: list[SentRecord]
    in_file: bool
    unreadable: int = 0


def instant(text: str) -> float:
    """Epoch seconds of an RFC 3339 instant. Raises Failed."""
    try:
        return epoch(text)
    except ValueError as error:
        raise Failed(f"--at {text}: no RFC 3339 instant, like 2027-01-15T08:00:00Z", USAGE) from error


def records_of(source: str, limit: int, bootstrap: str | None, now: float) -> SourceRecords:
    """The records of a file, else the newest `limit` of a topic. Raises Failed."""
    if source == STDIN:
        return SourceRecords(list(in_text(sys.stdin.buffer.read(), "standard input", now)), in_file=True)
    path = Path(source)
    if path.is_file():
        try:
            return SourceRecords(list(in_text(path.read_bytes(), in_utf8(source), now)), in_file=True)
        except OSError as error:
            raise Failed(f"{source} cannot be read: {error.strerror}", USAGE) from error
    try:
        settings = kafka_settings(bootstrap)
    except Failed as wrong:
        raise Failed(f"{source} is no file here, and no topic can be read: {wrong}", USAGE) from wrong
    lines = log.configure(settings.log_level, settings.log_format)  # on stderr, beside the answer
    try:
        return asyncio.run(_in_topic(source, limit, settings))
    finally:
        lines.flush()


def understanding(read_as: str | None, topic: str, policy: Path | None, *, in_file: bool) -> Understanding:
    """How records are read. Raises Failed where the policy or the topic is none."""
    if read_as == NOTICES:
        return Understanding(notices=True)
    if read_as is not None:
        return Understanding(MetricProducer(topic="file", decoder=cast("DecoderName", read_as)))
    if in_file:
        return Understanding()
    default = str(ServiceSettings.model_fields["topic_prefix"].default)
    prefix = os.environ.get(f"{PREFIX}TOPIC_PREFIX", default)
    reading = understanding_of(topic, prefix, policy_in(policy))
    if reading is None and is_ours(topic, prefix):
        raise Failed(f"{topic} is our own: the service reads neither metrics nor notices of others there", USAGE)
    if reading is None:
        what = "no producer of the policy has it" if policy else "give --policy, whose producers say how it is read"
        raise Failed(f"{topic} is none of our own topics: {what}, or say --as FORMAT", USAGE)
    return reading


def in_text(text: bytes, name: str, now: float) -> Iterator[SentRecord]:
    """One document is one record, as is what is no text at all; else each line is."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        lines = text.splitlines() if _is_text(text) else [text]
    else:
        lines = [text]
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _record(line, f"{name}:{number}", now)


def _is_text(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Kcat(Struct, frozen=True):
    """A line of `kcat -J`; what another tool or a hand made otherwise is a record as it stands."""

    topic: str
    partition: int
    offset: int
    payload: Raw
    headers: list[str | None] | None = None
    ts: float | None = None


_kcat = msgspec.json.Decoder(_Kcat).decode
_text = msgspec.json.Decoder(str).decode


def _record(line: bytes, where: str, now: float) -> SentRecord:
    """A record as it is, or as `kcat -J` prints it: with headers, and with where it stands in Kafka."""
    try:
        record = _kcat(line)
        payload = bytes(record.payload)
        value = None if payload == b"null" else _text(payload).encode() if payload[:1] == b'"' else payload
    except (ValueError, RecursionError):
        return SentRecord(where, line, (), now)
    flat = record.headers or []
    headers = tuple(
        (name or "", None if text is None else text.encode()) for name, text in zip(flat[::2], flat[1::2], strict=False)
    )
    place = f"{record.topic}/{record.partition}@{record.offset}"
    return SentRecord(place, value, headers, now if record.ts is None else record.ts / 1000)


async def _in_topic(topic: str, limit: int, settings: ServiceSettings) -> SourceRecords:
    try:
        last = await last_records(broker_of(settings), topic, limit)
    except BadSettings as wrong:
        raise Failed(str(wrong), USAGE) from wrong
    except BROKER_ERRORS as error:
        raise Failed(f"{topic} cannot be read. {trouble_of(settings, error)}", UNREACHABLE) from error
    if last is None:
        raise Failed(f"{topic} is no file here and no topic of {settings.kafka_bootstrap}", USAGE)
    records = [
        SentRecord(f"{one.topic}/{one.partition}@{one.offset}", one.value, one.headers, one.timestamp / 1000)
        for one in last.records
    ]
    return SourceRecords(records, in_file=False, unreadable=last.unreadable)
