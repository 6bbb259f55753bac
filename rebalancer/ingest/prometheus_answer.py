"""Metric samples from what Prometheus answers to `promql.question`. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf, isnan
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from rebalancer.domain.events import Counters, Gauges, MetricSample
from rebalancer.domain.metric_maps import ABOVE, MetricMap
from rebalancer.ingest.engines import DEVICES, ENGINES
from rebalancer.ingest.gauges import impossible
from rebalancer.ingest.promql import AT, BELOW, COUNTERS, MAPS, QUANTILES

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
    for (namespace, name), readings in sorted(_by_subject(result, maps).items()):
        pod = pod_named(namespace, name) if namespace else (name, "", 0.0) if name in models else None
        if pod is None:
            unknown += 1
        elif not pod[2] <= readings.at < inf:
            unusable += 1
        else:  # one replica may be told of under two names: vLLM's launcher, and the requester that has the GPUs
            whose = pod[:2]
            before = by_pod.get(whose, _Told(inf, {}, ()))
            by_pod[whose] = _Told(
                min(readings.at, before.at), before.figures | readings.figures, before.maps + readings.maps
            )
            since[whose] = max(pod[2], since.get(whose, 0.0))
    for whose, readings in by_pod.items():
        sample, left_out = sample_of((*whose, since[whose]), readings.figures | {AT: readings.at}, interval_seconds)
        wrong.update(left_out)
        if sample is None:
            unusable += 1
        else:
            samples.append(sample)
            engines["+".join(readings.maps)] += 1
    return Answer(tuple(samples), unknown, unusable, wrong, engines)


def chosen(
    by_map: Mapping[str, Mapping[str, float]], maps: Sequence[MetricMap] = MAPS
) -> tuple[dict[str, float], list[str]]:
    """What counts of all that was told of one pod or model at one instant, by reading, and the maps that it is from.

    `by_map`: figures by map and reading. A user's own maps all count, the first of them first; of our engines the one
    that tells most, and of our devices: two would be summed. The instant at `AT` is the first map's. A percentile above
    its histogram's last bound is told as that.
    """
    by_map = {name: _bounded(figures) for name, figures in by_map.items()}
    order = {each.name: place for place, each in enumerate(maps)}
    names = sorted(by_map, key=lambda name: order.get(name, len(order)))
    every = [name for name in names if not any(name in kind for kind in _KINDS)]
    for kind in _KINDS:
        among = [name for name in names if name in kind]
        if among:
            every.append(max(among, key=lambda name: len(by_map[name])))
    figures: dict[str, float] = {}
    for name in reversed(every):
        figures |= by_map[name]
    return figures, every


def _bounded(figures: Mapping[str, float]) -> dict[str, float]:
    """The same, with percentiles under the names of `ABOVE` where the histogram gave no more than its last bound."""
    bounded = {reading: value for reading, value in figures.items() if not reading.endswith(BELOW)}
    for reading, quantile in QUANTILES.items():
        if reading in bounded and figures.get(f"{reading}{BELOW}", 1.0) < quantile:
            bounded[ABOVE[reading]] = bounded.pop(reading)
    return bounded


def sample_of(
    pod: tuple[str, str, float], values: Mapping[str, float], interval_seconds: float
) -> tuple[MetricSample | None, list[str]]:
    """What is known of `pod` (as `PodNamed` has it; UID "" for a whole model), and the gauges that cannot be.

    `values`: by reading, with its instant at `AT`. None where nothing is left.
    """
    model, uid, since = pod
    known = {reading: value for reading, value in values.items() if not isnan(value)}  # a rate over nothing is NaN
    at = known.pop(AT)
    left_out = impossible(known)
    gauges = {name: value for name, value in known.items() if name not in COUNTERS and name not in left_out}
    counted = {name: value for name, value in known.items() if name in COUNTERS and 0.0 <= value <= MOST_COUNT}
    began = counted.pop("startTime", since)
    if not gauges and not counted:
        return None, list(left_out)
    sample = MetricSample(
        source=SOURCE,
        id=f"{uid or model}/{at}",
        at=at,
        model=model,
        interval_seconds=interval_seconds,
        gauges=msgspec.convert(gauges, Gauges),
        pod=uid or None,
        counters=msgspec.convert({"startTime": began, **counted}, Counters) if counted else None,
    )
    return sample, list(left_out)


def _by_subject(result: object, maps: Sequence[MetricMap]) -> dict[tuple[str, str], _Told]:
    """What the maps that count tell, by (namespace, pod), or by ("", model)."""
    every: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for series in msgspec.convert(result, list[_Series]):
        labels = series.metric
        name, _, reading = labels.reading.rpartition("/")
        subject = (labels.namespace, labels.pod) if labels.pod else ("", labels.model)
        every.setdefault(subject, {}).setdefault(name, {})[reading] = float(series.value[1])
    by_subject = {}
    for subject, by_map in every.items():
        figures, names = chosen(by_map, maps)
        by_subject[subject] = _Told(figures.pop(AT, inf), figures, tuple(names))
    return by_subject
