"""Why a record cannot become an event: a closed set of reasons, and a sentence for the person who sent it."""

import json
import math
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn

import msgspec

from rebalancer.domain.codec import doubled_key
from rebalancer.domain.events import Position, Rejection

MAX_VALUE_BYTES = 64 * 1024  # checked before anything is parsed
MAX_DETAIL_CHARACTERS = 300
FRAME_BYTES = 5  # a zero byte and a schema's number, before what a Schema Registry's serializers write
FRAMED = (
    "begins with the zero byte and the schema's number that a Schema Registry's serializers (JSON Schema, Avro, "
    "Protobuf) write: send plain JSON, by a serializer of strings or bytes"
)


class Reason(StrEnum):
    """All reasons there are: they are label values of a metric and a header of the dead-letter topic."""

    TOO_LARGE = "too-large"
    NOT_CLOUDEVENT = "not-cloudevent"
    CONTENT_TYPE = "unsupported-content-type"
    NOT_UTF8 = "not-utf8"
    NOT_JSON = "not-json"
    NOT_FINITE = "not-finite"
    TOO_DEEP = "too-deep"
    DUPLICATE_KEY = "duplicate-key"
    BAD_ENVELOPE = "bad-envelope"
    UNKNOWN_TYPE = "unknown-type"
    NO_TIME = "no-time"
    TIME_AHEAD = "time-ahead"
    STALE = "stale"
    INVALID_DATA = "invalid-data"
    IMPOSSIBLE_GAUGE = "impossible-gauge"
    UNKNOWN_GAUGE = "unknown-gauge"
    NO_POD = "no-pod"
    OVERRIDE_UNSIGNED = "override-unsigned"
    OVERRIDE_SIGNATURE = "override-signature"
    OVERRIDE_LATE = "override-late"
    OVERRIDE_REFUSED = "override-refused"
    NOT_APPLIED = "not-applied"


class RejectedError(Exception):
    """Raised inside the decoders, which all turn it into a `Rejection`."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail

    def at(self, position: Position, now: float) -> Rejection:
        """The rejection of the record at `position`."""
        return rejection(position, now, self.reason, self.detail)


def rejection(position: Position, now: float, reason: Reason, detail: str) -> Rejection:
    """A rejection whose detail is short and printable, whatever the sender put into it."""
    printable = "".join(c if c.isprintable() else "?" for c in detail[:MAX_DETAIL_CHARACTERS])
    return Rejection(position, now, reason.value, printable)


def explain(error: Exception, value: bytes | msgspec.Raw, shape_reason: Reason, root: str = "$") -> NoReturn:
    """Raise what a failed decode of `value` means; `root` is where in the record `value` stands."""
    if isinstance(error, msgspec.ValidationError):
        text = str(error).replace("`$", f"`{root}", 1)
        raise RejectedError(shape_reason, text if "`$" in text else f"{text} - at `{root}`") from error
    if isinstance(error, RecursionError):
        raise RejectedError(Reason.TOO_DEEP, f"JSON at `{root}` is nested too deeply: flatten it") from error
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        _explain_text(error, bytes(value), root)
    raise RejectedError(shape_reason, f"{error} - at `{root}`") from error


def is_framed(value: bytes) -> bool:
    """Whether a Schema Registry's serializer wrote it: no JSON begins with a zero byte."""
    return value[:1] == b"\0" and len(value) >= FRAME_BYTES


def _explain_text(error: Exception, value: bytes, root: str) -> NoReturn:
    """`value` is not JSON; say whether it is framed, is no text either, or JSON but for a NaN."""
    if is_framed(value):
        raise RejectedError(Reason.NOT_JSON, FRAMED) from error
    try:
        text = value.decode()
    except UnicodeDecodeError as encoding:
        place = f"byte {encoding.start} of the JSON at `{root}`"
        raise RejectedError(Reason.NOT_UTF8, f"{place} is not UTF-8: send UTF-8") from error
    path = not_finite_at(text)
    if path is not None:
        detail = f"not a finite number at `{root}{path}`: leave out what is unknown"
        raise RejectedError(Reason.NOT_FINITE, detail) from error
    raise RejectedError(Reason.NOT_JSON, f"{error}; at `{root}`: send one JSON object") from error


def not_finite_at(text: str) -> str | None:
    """Path of the first NaN or Infinity in `text`, JSON but for those; None when that is not what is wrong."""
    try:
        todo: list[tuple[_Place | None, Any]] = [(None, json.loads(text))]
    except (ValueError, RecursionError):
        return None
    while todo:
        place, value = todo.pop()
        if isinstance(value, dict):
            todo += [(_Place(place, f".{key}"), item) for key, item in value.items()]
        elif isinstance(value, list):
            todo += [(_Place(place, f"[{index}]"), item) for index, item in enumerate(value)]
        elif isinstance(value, float) and not math.isfinite(value):
            return _spelled(place)
    return None


class _Place(NamedTuple):
    """The path to a value: a last step, and its parent. Whole paths of 20,000 values would take half a GiB."""

    around: "_Place | None"
    step: str


def _spelled(place: _Place | None) -> str:
    steps = []
    while place is not None:
        steps.append(place.step)
        place = place.around
    return "".join(reversed(steps))


def refuse_duplicate_keys(value: bytes) -> None:
    """Raise RejectedError when an object in `value` has a key twice: two readers could understand it differently.

    Says nothing about anything else that may be wrong.
    """
    try:
        twice = doubled_key(value)
    except (ValueError, RecursionError):
        return
    if twice is not None:
        raise RejectedError(Reason.DUPLICATE_KEY, f"key {twice!r} is there twice: send it once")
