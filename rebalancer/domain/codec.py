"""One spelling of every value, so that equal values are equal bytes.

Replay compares decisions byte by byte, so the journal, the `state` and `decisions` topics and the tests all encode
here: JSON, sorted keys, floats quantised by whoever made them (`quantise`).
"""

import hashlib
import json
import math
from typing import TypeVar

import msgspec

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODERS: dict[object, msgspec.json.Decoder[object]] = {}


def to_bytes(value: object) -> bytes:
    """Canonical JSON of a domain value (no newline)."""
    return _ENCODER.encode(value)


def from_bytes(data: bytes, kind: type[T]) -> T:
    """The value of type `kind` that `data` spells. Raises msgspec.DecodeError / ValidationError."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(data)  # type: ignore[return-value]  # the cache is keyed by the very type it decodes to
    except (UnicodeDecodeError, RecursionError) as error:  # a byte that a disk has turned makes a bad line
        raise msgspec.DecodeError(str(error)) from error


def doubled_key(data: bytes) -> str | None:
    """A key that stands twice in one object of JSON `data`: two readers could understand that differently.

    Takes one pass, since whoever sends `data` chooses how many keys there are. Raises ValueError and RecursionError.
    """
    doubled: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                doubled.append(key)
            seen.add(key)

    json.loads(data, object_pairs_hook=note)
    return doubled[0] if doubled else None


def digest(value: object) -> str:
    """Short stable hash (16 hex digits) of a value's canonical bytes."""
    return hashlib.sha256(to_bytes(value)).hexdigest()[:16]


def quantise(value: float) -> float:
    """`value` on the 1e-6 grid on which planning computes; NaN and infinities are the caller's to refuse.

    Raises ValueError when the value is not finite: unknown is a NoReading, never a number.
    """
    if not math.isfinite(value):
        message = f"{value} is not a quantity"
        raise ValueError(message)
    return round(value, 6) + 0.0  # + 0.0 turns -0.0 into 0.0, which would print differently
