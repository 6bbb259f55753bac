"""Instants: UTC epoch seconds here and in the journal, RFC 3339 where people read them (the API)."""

import re
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

Instant = Annotated[float, Meta(extra={"instant": True})]
"""A float that is a point in time; durations are floats whose names end in `_seconds`."""


def clock(at: float) -> str:
    """An instant as UTC time of day, 03:12:07."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def when(at: float, now: float) -> str:
    """An instant seen from `now`: 03:12:07, or 2027-01-29 07:57 on another day."""
    there, here = datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(now, UTC)
    return clock(at) if there.date() == here.date() else there.strftime("%Y-%m-%d %H:%M")


def rfc1123(text: str) -> float:
    """Epoch seconds of `Sat, 05 Jun 2027 15:10:09 GMT`. Raises ValueError.

    The day of the week is not held against the date: Azure's own examples have them disagree.
    """
    return datetime.strptime(text, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC).timestamp()


_RFC_1123 = re.compile(r"[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT")


def date_in(text: str) -> float | None:
    """Epoch seconds of the first date of RFC 1123 in a sentence, None where there is none."""
    match = _RFC_1123.search(text)
    try:
        return rfc1123(match[0]) if match else None
    except ValueError:
        return None
