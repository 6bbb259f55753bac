"""Instants: UTC epoch seconds here and in the journal, RFC 3339 where people read them (the API)."""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

Instant = Annotated[float, Meta(extra={"instant": True})]
"""A float that is a point in time; durations are floats whose names end in `_seconds`."""


def clock(at: float) -> str:
    """An instant as UTC time of day, 03:12:07."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
