"""What all decoders of stock producers make: a number with a name and labels, at an instant."""

from collections.abc import Callable, Iterator, Mapping
from math import inf, isfinite, nan
from typing import NamedTuple

from rebalancer.ingest.rejected import RejectedError

# Values of this size are read: Telegraf and collectors put some thousand metrics into one record.
MAX_BATCH_BYTES = 1024 * 1024


class MetricSeries(NamedTuple):
    """One number of one metric.

    name: of the metric, as its exporter spells it.
    labels: all that says whose it is.
    value: the number, which may be NaN or infinite.
    at: when it was measured, UTC epoch seconds; None where the record does not say.
    own: those of `labels` that are its own, where others are of whom it was collected from; None where nobody can tell.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    at: float | None
    own: Mapping[str, str] | None = None


# A record's value -> its series, and beside them why a part of it is none. Raises RejectedError where no part can be
# read; what is no number, or a counter's increment, makes no series.
Decoder = Callable[[bytes], Iterator[MetricSeries | RejectedError]]

DIGITS_OF_SECONDS = 1e11  # epoch seconds stay below this until the year 5138, milliseconds have passed it in 1973


def number_of(value: float | str) -> float:
    """A number that JSON spells, in quotes or not: it may be an integer of any length; inf beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return inf


def epoch_of(number: float) -> float:
    """Epoch seconds of a number of seconds, milliseconds, microseconds or nanoseconds: its size tells which.

    NaN of what is no finite number.
    """
    number = number_of(number)
    if not isfinite(number):
        return nan
    while number >= DIGITS_OF_SECONDS:
        number /= 1000
    return number
