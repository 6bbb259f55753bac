"""Capacity notices into Kafka, as CloudEvents."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from rebalancer.app.topics import broker_of
from rebalancer.cli.failure import UNREACHABLE, USAGE, Failed
from rebalancer.cli.remote.kafka import trouble_of
from rebalancer.domain.events import CAPACITY_NOTICE_TYPE
from rebalancer.kafka.broker import BROKER_ERRORS
from rebalancer.kafka.outbox import send_once
from rebalancer.settings.service import BadSettings, ServiceSettings

SOURCE = "rebalancer-cli"
HEADERS = [("content-type", b"application/cloudevents+json")]


class Event(Struct, frozen=True):
    """A record's value and the event's id in it."""

    id: str
    value: bytes


def event_of(
    goes: Mapping[str, object], kind: str, now: float, deadline: float, *, voluntary: bool, cancelled: bool
) -> Event:
    """The CloudEvent that says that what `goes` names, a `node` or an `instanceId`, goes at `deadline` or stays."""
    name = f"notice-{uuid.uuid4()}"
    data: dict[str, object] = {"kind": kind, **goes, "voluntary": voluntary, "cancelled": cancelled}
    if not cancelled:
        data["deadline"] = _spelled(deadline)
    event = {
        "specversion": "1.0",
        "type": CAPACITY_NOTICE_TYPE,
        "source": SOURCE,
        "id": name,
        "time": _spelled(now),
        "datacontenttype": "application/json",
        "data": data,
    }
    return Event(name, msgspec.json.encode(event))


async def send(settings: ServiceSettings, events: Sequence[Event]) -> str:
    """Write them to the notices topic; the topic's name. Raises Failed when Kafka does not take one."""
    broker = broker_of(settings)
    topic = broker.topic("notices")
    written = 0
    try:
        for event in events:
            await send_once(broker, topic, event.value, HEADERS)
            written += 1
    except BadSettings as wrong:
        raise Failed(str(wrong), USAGE) from wrong
    except BROKER_ERRORS as error:
        what = f"{written} of {len(events)} were written" if written else "nothing was written"
        raise Failed(f"{what} to {topic}. {trouble_of(settings, error)}", UNREACHABLE) from error
    return topic


def _spelled(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
