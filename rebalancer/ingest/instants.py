"""RFC 3339 instants to epoch seconds, quickly: a flood carries few different seconds."""

from datetime import datetime
from functools import lru_cache
from typing import Annotated

import msgspec

# Without its offset an instant would mean this machine's zone.
Instant = Annotated[datetime, msgspec.Meta(tz=True)]

SECOND_CHARACTERS = len("2026-11-20T10:00:00")


def epoch(text: str) -> float:
    """Epoch seconds of an RFC 3339 instant. Raises msgspec.ValidationError, a ValueError, when it is none."""
    tail = text[SECOND_CHARACTERS:]
    if tail == "Z":
        return _epoch_of_second(text[:SECOND_CHARACTERS])
    fraction = tail[1:-1]
    if tail[:1] == "." and tail[-1] == "Z" and fraction.isdecimal() and fraction.isascii():
        return _epoch_of_second(text[:SECOND_CHARACTERS]) + float(tail[:-1])
    return msgspec.convert(text, Instant).timestamp()


@lru_cache(maxsize=4096)
def _epoch_of_second(text: str) -> float:
    return msgspec.convert(text + "Z", Instant).timestamp()
