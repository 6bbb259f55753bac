"""CloudEvents over Kafka: structured mode (the value is the whole event) and binary mode (attributes are headers)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from rebalancer.domain.events import MAX_AHEAD_SECONDS
from rebalancer.ingest.instants import Instant
from rebalancer.ingest.rejected import MAX_VALUE_BYTES, Reason, RejectedError, explain

Headers = Sequence[tuple[str, bytes | None]]

MAX_ATTRIBUTE_CHARACTERS = 1024
JSON_EVENT_TYPES = frozenset({"application/cloudevents", "application/cloudevents+json"})
NO_DATA = msgspec.Raw()

Attribute = Annotated[str, Meta(min_length=1, max_length=MAX_ATTRIBUTE_CHARACTERS)]


class Envelope(Struct, frozen=True, gc=False):
    """A CloudEvent's attributes and its undecoded data. Unknown attributes are extensions and may stay.

    specversion: version of CloudEvents that the event follows.
    type: what kind of event it is; it decides how the data is read.
    source: name of the producer.
    id: the producer's id of the event.
    data: the data as it was sent; in JSON mode the value of `data`, in binary mode the whole value of the record.
    time: when it happened, by the producer's clock; None where the event does not say.
    datacontenttype: media type of the data; None where the event does not say, and in binary mode, where a header does.
    """

    specversion: Literal["1.0"]
    type: str
    source: Attribute
    id: Attribute
    data: msgspec.Raw = NO_DATA
    time: Instant | None = None
    datacontenttype: str | None = None


class _Marked(Struct, frozen=True):
    specversion: msgspec.Raw = NO_DATA


_marked = msgspec.json.Decoder(_Marked).decode
_structured = msgspec.json.Decoder(Envelope).decode
_instant = msgspec.json.Decoder(Instant).decode


def unwrap(value: bytes, headers: Headers, most_bytes: int = MAX_VALUE_BYTES) -> Envelope | None:
    """The CloudEvent in a record, or None when nothing marks the record as one. Raises RejectedError.

    Without headers that say so, an object that has a `specversion` is a whole event.
    """
    if len(value) > most_bytes:
        detail = f"{len(value)} bytes, at most {most_bytes} are read: send smaller events"
        raise RejectedError(Reason.TOO_LARGE, detail)
    named = dict(headers)
    if "ce_type" not in named and "content-type" not in named:
        named = {name.lower(): text for name, text in headers}
    content_type = named.get("content-type")
    if content_type is not None and _is_structured(content_type):
        return structured(value)
    if "ce_type" in named or "ce_specversion" in named:
        return _unwrap_binary(value, named, content_type)
    if b'"specversion"' not in value or value.lstrip()[:1] != b"{":
        return None
    try:
        return structured(value)
    except RejectedError:
        if _is_around_another(value):
            return None
        raise


def event_time(envelope: Envelope, kafka_timestamp: float, now: float) -> float:
    """The event's own time, else the record's. Raises RejectedError when there is none or it is ahead of `now`."""
    at = kafka_timestamp if envelope.time is None else envelope.time.timestamp()
    return at if 0.0 <= at <= now else refuse_ahead(at, now)


def refuse_ahead(at: float, now: float) -> float:
    """`at`, unless the clock that set it cannot be trusted: then RejectedError is raised."""
    if at - now > MAX_AHEAD_SECONDS:
        detail = f"{at - now:.0f} s ahead, at most {MAX_AHEAD_SECONDS:.0f} s are accepted: set the producer's clock"
        raise RejectedError(Reason.TIME_AHEAD, detail)
    if at < 0:
        raise RejectedError(Reason.NO_TIME, "neither event nor record has a time since 1970: set CloudEvents `time`")
    return at


def structured(value: bytes | msgspec.Raw) -> Envelope:
    """The CloudEvent that `value` is as a whole. Raises RejectedError."""
    try:
        envelope = _structured(value)
    except (ValueError, RecursionError) as error:
        explain(error, value, Reason.BAD_ENVELOPE)
    if envelope.data is NO_DATA:
        raise RejectedError(Reason.BAD_ENVELOPE, "no `data` at `$`: send JSON data (data_base64 is not read)")
    if envelope.datacontenttype is not None:
        _refuse_other_data(envelope.datacontenttype.encode())
    return envelope


def _is_around_another(value: bytes) -> bool:
    """Whether it is an object whose `specversion` stands deeper, as in the envelope of Kafka Connect."""
    try:
        return _marked(value).specversion is NO_DATA
    except (ValueError, RecursionError):
        return False


def _unwrap_binary(value: bytes, named: Mapping[str, bytes | None], content_type: bytes | None) -> Envelope:
    if content_type is not None:
        _refuse_other_data(content_type)
    if named.get("ce_specversion") != b"1.0":
        raise RejectedError(Reason.BAD_ENVELOPE, "header `ce_specversion` is not 1.0: send CloudEvents 1.0")
    return Envelope(
        "1.0",
        _repeated_attribute("ce_type", named.get("ce_type")),
        _repeated_attribute("ce_source", named.get("ce_source")),
        _attribute("ce_id", named.get("ce_id")),
        msgspec.Raw(value),
        _time(named.get("ce_time")),
    )


def _attribute(name: str, text: bytes | None) -> str:
    """A header's text. Raises RejectedError."""
    if not text or len(text) > MAX_ATTRIBUTE_CHARACTERS:
        size = len(text or b"")
        raise RejectedError(Reason.BAD_ENVELOPE, f"header `{name}` has {size} bytes, not 1-{MAX_ATTRIBUTE_CHARACTERS}")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise RejectedError(Reason.NOT_UTF8, f"header `{name}` is not UTF-8: send UTF-8") from error


# Types and sources repeat; one copy of each also saves memory.
_repeated_attribute = lru_cache(maxsize=16_384)(_attribute)


def _time(text: bytes | None) -> datetime | None:
    if text is None:
        return None
    try:
        return _instant(b'"%b"' % text)
    except ValueError as error:
        shown = text[:40].decode(errors="replace")
        raise RejectedError(Reason.BAD_ENVELOPE, f"{shown!r} at `$.time` is no RFC 3339 instant") from error


@lru_cache(maxsize=64)
def _is_structured(content_type: bytes) -> bool:
    """Whether a record of this content type is a whole event. Raises RejectedError when it is, but not in JSON."""
    media_type = _media_type(content_type)
    if not media_type.startswith("application/cloudevents"):
        return False
    if media_type not in JSON_EVENT_TYPES:
        raise RejectedError(Reason.CONTENT_TYPE, f"{media_type} cannot be read: send application/cloudevents+json")
    return True


@lru_cache(maxsize=64)
def _refuse_other_data(content_type: bytes) -> None:
    """Raise RejectedError unless data of this content type is JSON."""
    media_type = _media_type(content_type)
    if media_type not in {"", "application/json", "text/json"} and not media_type.endswith("+json"):
        detail = f"data of type {media_type!r} cannot be read: send application/json"
        raise RejectedError(Reason.CONTENT_TYPE, detail)


def _media_type(content_type: bytes) -> str:
    """Lower case, without parameters."""
    return content_type.decode("latin-1").partition(";")[0].strip().lower()
