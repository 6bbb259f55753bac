"""What a metric is: a name, a kind, what it means, and what bounds its labels."""

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Label(NamedTuple):
    """`words`: all values there are; without them `of` says whose names they are, and so how many."""

    name: str
    words: tuple[str, ...] = ()
    of: str = ""


class Metric(NamedTuple):
    """A metric that the service exposes.

    name: name of the metric.
    kind: counter, gauge or histogram.
    help: sentence that says what it is.
    unit: unit of its values, in words.
    labels: labels that tell its series apart; empty where it has one series.
    buckets: upper bounds of a histogram's buckets, else empty.
    """

    name: str
    kind: str
    help: str
    unit: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
