"""Which pods the series in a Prometheus name, metric by metric of the maps (`ingest.engines`)."""

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Final

import msgspec
from msgspec import Struct

from rebalancer.ingest.promql import STYLES, selector

UPPER: Final = "le"
LABELS: Final = tuple(label for style in STYLES for label in style)

Series = Mapping[str, frozenset[tuple[str, str]]]


def question(names: Iterable[str], matchers: str = "") -> str:
    """Which pods the series of these metrics name, a line for each metric and pod."""
    return f"count by (__name__, {', '.join(LABELS)}) ({selector(names, matchers)})"


def bounds_question(names: Iterable[str], matchers: str = "") -> str:
    """The bounds of the histograms among these metrics, a line for each."""
    return f"count by (__name__, {UPPER}) ({selector(names, matchers)})"


def last_bounds(result: object) -> Mapping[str, float]:
    """By histogram the last bound but infinity, from `data.result` of an instant query.

    Raises msgspec.ValidationError when the result is no such thing.
    """
    bounds: dict[str, float] = {}
    for each in msgspec.convert(result, list[_Series]):
        name, upper = each.metric.get("__name__", ""), float(each.metric.get(UPPER, "inf"))
        if isfinite(upper):
            bounds[name] = max(upper, bounds.get(name, upper))
    return bounds


class _Series(Struct, frozen=True):
    metric: dict[str, str]


def pods_by_metric(result: object, names: Iterable[str]) -> Series:
    """By metric the pods, as (namespace, name), of its series, from `data.result` of an instant query.

    A metric without series names none. Raises msgspec.ValidationError when the result is no such thing.
    """
    named: dict[str, set[tuple[str, str]]] = {name: set() for name in names}
    for each in msgspec.convert(result, list[_Series]):
        named.setdefault(each.metric.get("__name__", ""), set()).update(_pods(each.metric))
    return {metric: frozenset(pods) for metric, pods in named.items()}


def _pods(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """By every style of labels: where a workload's are the exported ones, the plain ones are the exporter's own."""
    for namespace, pod in STYLES:
        if labels.get(pod):
            yield labels.get(namespace, ""), labels[pod]
