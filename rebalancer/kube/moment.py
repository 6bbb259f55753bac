"""Instants as Kubernetes spells them."""

from datetime import UTC, datetime


def written_as(at: float) -> str:
    """UTC epoch seconds as RFC 3339 with microseconds (Kubernetes' MicroTime)."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
