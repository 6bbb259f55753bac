"""Instants: UTC epoch seconds here and in the journal, RFC 3339 where people read them (the API)."""

from typing import Annotated

from msgspec import Meta

Instant = Annotated[float, Meta(extra={"instant": True})]
"""A float that is a point in time; durations are floats whose names end in `_seconds`."""
