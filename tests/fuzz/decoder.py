"""What spoiled records are played into."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Decoder:
    """One reader of others' bytes, and the real records that spoiled ones are made from.

    longest_seconds: of CPU for one record; more where a thread reads it, which the event loop does not wait for.
    """

    name: str
    seeds: Callable[[], Iterator[bytes]]
    read: Callable[[bytes], object]
    longest_seconds: float = 0.2
