"""Metric samples from what Prometheus answers to `promql.question`. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from math import inf, isnan
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from rebalancer.domain.events import Counters, Gauges, MetricSample
from rebalancer.domain.metric_maps import MetricMap
from rebalancer.ingest.engines import DEVICES, ENGINES
from rebalancer.ingest.gauges import impossible
from rebalancer.ingest.promql import AT, COUNTERS, MAPS

SOURCE: Final = "prometheus"

# (namespace, name) -> (model, UID, creation time) of a model's pod. A pod made anew under an old name has readings from
# before its time.
PodNamed = Callable[[str, str], tuple[str, str, float] | None]

MOST_COUNT: Final = 1e12  # `events.Amount`: what is above is a fault
_KINDS: Final = (frozenset(each.name for each in ENGINES), frozenset(each.name for each in DEVICES))


class _Labels(Struct, frozen=True):
    reading: str
    namespace: str = ""
    pod: str = ""
    model: str = ""


class _Series(Struct, frozen=True):
    metric: _Labels
    value: tuple[float, str]


class Answer(NamedTuple):
    """What one answer says.

    samples: by pod, then by model.
    unknown: number of pods, and names of models, that are nobody's.
    unusable: number of pods and models of which nothing is known.
    impossible: values that cannot be and were left out, by gauge.
    engines: number of pods by the maps that their readings are from, as `vllm` or `vllm+dcgm`.
    """

    samples: tuple[MetricSample, ...]
    unknown: int
    unusable: int
    impossible: Counter[str]
    engines: Counter[str]


class _Told(NamedTuple):
    """What was told of one pod or model: when, figures by reading, and the maps that they are from."""

    at: float
    figures: dict[str, float]
    maps: tuple[str, ...]


def read_answer(
    result: object,
    pod_named: PodNamed,
    interval_seconds: float,
    models: Collection[str] = (),
    maps: Sequence[MetricMap] = MAPS,
) -> Answer:
    """Samples from `data.result` of an instant query. Raises msgspec.ValidationError when it is no such thing.

    A value that is not finite, that cannot be or that is not there is absent, never zero. `models`: ids and aliases
    of which samples of whole models are made. `maps`: what was asked by, in order.
    """
    by_pod: dict[tuple[str, str], _Told] = {}
    since: dict[tuple[str, str], float] = {}
    unknown, unusable, engines, samples, wrong = 0, 0, Counter[str](), list[MetricSample](), Counter[str]()
    for (namespace, name), told in sorted(_by_subject(result, maps).items()):
        pod = pod_named(namespace, name) if namespace else (name, "", 0.0) if name in models else None
        if pod is None:
            unknown += 1
        elif not pod[2] <= told.at < inf:
            unusable += 1
        else:  # one replica may be told of under two names: vLLM's launcher, and the requester that has the GPUs
            whose = pod[:2]
            before = by_pod.get(whose, _Told(inf, {}, ()))
            by_pod[whose] = _Told(min(told.at, before.at), before.figures | told.figures, before.maps + told.maps)
            since[whose] = max(pod[2], since.get(whose, 0.0))
    for whose, told in by_pod.items():
        known = {reading: value for reading, value in told.figures.items() if not isnan(value)}  # a rate over nothing
        left_out = impossible(known)
        wrong.update(left_out.keys())
        figures = {name: known[name] for name in known.keys() - left_out.keys()}
        if sample := _sample(*whose, since[whose], told.at, figures, interval_seconds):
            samples.append(sample)
            engines["+".join(told.maps)] += 1
        else:
            unusable += 1
    return Answer(tuple(samples), unknown, unusable, wrong, engines)


def _by_subject(result: object, maps: Sequence[MetricMap]) -> dict[tuple[str, str], _Told]:
    """What the maps that count tell, by (namespace, pod), or by ("", model)."""
    order = {each.name: place for place, each in enumerate(maps)}
    every: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for series in msgspec.convert(result, list[_Series]):
        labels = series.metric
        name, _, reading = labels.reading.partition("/")
        subject = (labels.namespace, labels.pod) if labels.pod else ("", labels.model)
        every.setdefault(subject, {}).setdefault(name, {})[reading] = float(series.value[1])
    told = {}
    for subject, by_map in every.items():
        names = list(_counted(sorted(by_map, key=lambda name: order.get(name, len(order))), by_map))
        figures: dict[str, float] = {}
        for name in reversed(names):
            figures |= by_map[name]
        at = next((by_map[name][AT] for name in names if AT in by_map[name]), inf)
        figures.pop(AT, None)
        told[subject] = _Told(at, figures, tuple(names))
    return told


def _counted(names: Sequence[str], by_map: dict[str, dict[str, float]]) -> Iterator[str]:
    """A user's own maps all count; of our engines the one that tells most, and of our devices: two would be summed."""
    ours = frozenset[str]().union(*_KINDS)
    yield from (name for name in names if name not in ours)
    for kind in _KINDS:
        among = [name for name in names if name in kind]
        if among:
            yield max(among, key=lambda name: len(by_map[name]))


def _sample(  # noqa: PLR0913  # what a sample is made of
    model: str, uid: str, since: float, at: float, figures: dict[str, float], interval_seconds: float
) -> MetricSample | None:
    """None without any figure."""
    counted = {name: value for name, value in figures.items() if name in COUNTERS and 0.0 <= value <= MOST_COUNT}
    gauges = {name: value for name, value in figures.items() if name not in COUNTERS}
    if not gauges and not counted:
        return None
    return MetricSample(
        source=SOURCE,
        id=f"{uid or model}/{at}",
        at=at,
        model=model,
        interval_seconds=interval_seconds,
        gauges=msgspec.convert(gauges, Gauges),
        pod=uid or None,
        counters=msgspec.convert({"startTime": since, **counted}, Counters) if counted else None,
    )
