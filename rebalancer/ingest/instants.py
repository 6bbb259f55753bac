"""Instants as they are written outside, to UTC epoch seconds."""

from datetime import datetime
from functools import lru_cache
from typing import Annotated

import msgspec

from rebalancer.domain.instant import rfc1123

# Without its offset an instant would mean this machine's zone.
Instant = Annotated[datetime, msgspec.Meta(tz=True)]


@lru_cache(maxsize=16_384)
def epoch(text: str) -> float:
    """Epoch seconds of an RFC 3339 instant. Raises msgspec.ValidationError, a ValueError, when it is none.

    Remembers: start times and what a controller stamped within one second come again and again.
    """
    return msgspec.convert(text, Instant).timestamp()


def cloud_time(text: str) -> float:
    """Epoch seconds of an instant in RFC 1123, as AWS Health and Azure write, or RFC 3339. Raises ValueError."""
    return rfc1123(text) if text.endswith("GMT") else epoch(text)
