"""What a metric is: a name, a kind, what it means, and what bounds its labels."""

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Label(NamedTuple):
    """`words`: all values there are; without them `of` says whose names they are, and so how many."""

    name: str
    words: tuple[str, ...] = ()
    of: str = ""


class Metric(NamedTuple):
    """`buckets` are a histogram's upper bounds."""

    name: str
    kind: str
    help: str
    unit: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
