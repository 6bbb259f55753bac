"""Seconds put together so that a plot of any length has a few hundred points, and a table a few dozen rows."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class Bins:
    """`seconds` in pieces of `width`; the last may be shorter."""

    seconds: int
    width: int

    @property
    def begins(self) -> F64:
        """(bins,) the second at which each begins."""
        return np.arange(0, self.seconds, self.width).astype(np.float64)

    def sums(self, values: F64) -> F64:
        """(bins,) of values (seconds,)."""
        return np.add.reduceat(values[: self.seconds], self.begins.astype(np.int64))

    def means(self, values: F64) -> F64:
        """(bins,) of values (seconds,)."""
        lengths = np.minimum(self.begins + self.width, self.seconds) - self.begins
        return self.sums(values.astype(np.float64)) / lengths

    def peaks(self, values: F64) -> F64:
        """(bins,) of values (seconds,)."""
        return np.maximum.reduceat(values[: self.seconds], self.begins.astype(np.int64))


Reduced = Callable[[Bins], F64]


def bins(seconds: int, most: int) -> Bins:
    """At most `most` bins over `seconds`, of a width that a person would choose."""
    return Bins(seconds, next((width for width in WIDTHS if seconds <= width * most), WIDTHS[-1]))


def clock(second: float) -> str:
    """The time since the beginning: 1:05, and 1:05:30 where seconds matter."""
    hours, rest = divmod(round(second), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}" + (f":{seconds:02}" if seconds else "")
