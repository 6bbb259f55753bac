"""Equal values of two looks stay one object, so that what rests on them is not computed anew."""

from typing import TypeVar

T = TypeVar("T")


def unchanged(old: T | None, new: T) -> T:
    """`old` where it equals `new`, so that equal values stay the very same one; else `new`."""
    return old if old is not None and old == new else new
