"""How a deed picks what it hits, and for how long: by numbers in [0, 1), so that it can be told and replayed."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
Touched = frozenset[str] | None


def pick(some: Sequence[T], x: float) -> T | None:
    """One of them."""
    return some[int(x * len(some))] if some else None


def lasting(y: float, least: float, most: float) -> float:
    """Seconds between the two, more often few."""
    return least + (most - least) * y * y
