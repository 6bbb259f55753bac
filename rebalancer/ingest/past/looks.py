"""What a range query says, pod by pod and step by step. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from rebalancer.domain.metric_maps import MetricMap
from rebalancer.ingest.prometheus_answer import chosen
from rebalancer.ingest.promql import AT, MAPS

# (namespace, pod, instant) -> (model, UID or a name in its place, creation time) of the pod of that name then.
PodThen = Callable[[str, str, float], tuple[str, str, float] | None]


class PodLook(NamedTuple):
    """One pod at one step.

    step_at: the step's instant, epoch seconds.
    pod: (model, UID or a name in its place, creation time) of it.
    values: by reading, as metric maps call them; that at `AT` is when it was scraped.
    """

    step_at: float
    pod: tuple[str, str, float]
    values: dict[str, float]


class _Labels(Struct, frozen=True):
    reading: str
    namespace: str = ""
    pod: str = ""


class _Steps(Struct, frozen=True):
    metric: _Labels
    values: list[tuple[float, str]]


def read_range(result: object, pod_then: PodThen, maps: Sequence[MetricMap] = MAPS) -> list[PodLook]:
    """The looks in `data.result` of a range query, in the order of time; pods that are no model's have none.

    A step at which nobody was scraped is no look. `maps`: what was asked by, in order. Raises msgspec.ValidationError
    when it is no such result.
    """
    by_maps: dict[tuple[str, str], dict[float, dict[str, dict[str, float]]]] = {}
    for series in msgspec.convert(result, list[_Steps]):
        labels = series.metric
        name, _, reading = labels.reading.rpartition("/")
        steps = by_maps.setdefault((labels.namespace, labels.pod), {})
        for step_at, value in series.values:
            steps.setdefault(step_at, {}).setdefault(name, {})[reading] = float(value)
    by_pod = {
        pod: {step_at: chosen(by_map, maps)[0] for step_at, by_map in steps.items()} for pod, steps in by_maps.items()
    }
    return sorted(_looks(by_pod, pod_then), key=lambda look: (look.step_at, look.pod))


def _looks(by_pod: dict[tuple[str, str], dict[float, dict[str, float]]], pod_then: PodThen) -> Iterator[PodLook]:
    for (namespace, name), steps in by_pod.items():
        for step_at, values in steps.items():
            pod = pod_then(namespace, name, step_at) if AT in values else None
            if pod is not None and pod[2] <= values[AT]:
                yield PodLook(step_at, pod, values)
