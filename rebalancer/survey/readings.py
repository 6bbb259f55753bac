"""What a Prometheus tells of each model: which readings, by which map, which are missing, and what that costs."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from rebalancer.domain.metric_maps import ABOVE, READINGS, MetricSource
from rebalancer.domain.words import seconds
from rebalancer.ingest.prometheus_answer import chosen
from rebalancer.ingest.promql import with_own
from rebalancer.survey.case import Case, address_of
from rebalancer.survey.finding import OK, WARN, Finding
from rebalancer.survey.objects import Object, address
from rebalancer.survey.parts import namespace, text

DOCS: Final = "docs/metrics.md"


class MissingReading(NamedTuple):
    """Readings of which one would do, the signal that has no vote without any ("" for none), and what it costs."""

    readings: tuple[str, ...]
    signal: str
    cost: str


LACKS: Final = (
    MissingReading(("running",), "concurrency", "no count of requests running: demand is taken from GPU use"),
    MissingReading(
        ("waiting",), "queue", "no count of requests waiting: a queue is seen when answers are late, and not before"
    ),
    MissingReading(
        ("kvCacheUse",), "kvCache", "no use of the KV cache: that it is full is not seen before requests wait"
    ),
    MissingReading(
        tuple(ABOVE),
        "latency",
        "no latency: whether the SLO is kept is not seen, and what a replica carries is learnt from queues alone",
    ),
    MissingReading(("gpuUtilisation",), "utilisation", "no GPU use: idle GPUs look like busy ones"),
    MissingReading(("requestsFinished",), "", "no arrivals counter: demand is taken from requests in flight"),
    MissingReading(("promptTokens", "generatedTokens"), "", "no count of tokens: a long request counts as a short one"),
)


def of_models(case: Case) -> Iterator[Finding]:
    """For each model, or workload where no policy is known, what is read of it. Nothing where nobody asked.

    A warning: what the model's own signals need is missing, or nothing is read at all.
    """
    if case.series is None:
        return
    for about, (signals, pods) in sorted(_models(case).items()):
        maps, readings = _read(case, pods)
        if not readings:
            text = f"no series that a map knows names one of its {_pods(len(pods))}: nothing is read of it"
            yield Finding(
                WARN, about, text, "see series-of-no-pod and docs/metrics.md; or a map of your own", docs=DOCS
            )
            continue
        parts = (_part(reading, readings[reading], len(pods)) for reading in READINGS if reading in readings)
        yield Finding(OK, about, f"read by {' and '.join(maps)}: {', '.join(parts)}", docs=DOCS)
        for lack in LACKS:
            if not readings.keys() & set(lack.readings):
                state = WARN if lack.signal and lack.signal in signals else OK
                vote = f"; its signal {lack.signal} has no vote" if state == WARN else ""
                yield Finding(
                    state, about, lack.cost + vote, f"metrics.maps of the policy, where {_by(lack)}", docs=DOCS
                )
        yield from _ends_early(case, about, maps, pods)


def _ends_early(case: Case, about: str, maps: list[str], pods: list[Object]) -> Iterator[Finding]:
    """A histogram of the model's latency whose last bound is below the SLO: what lies between is not told."""
    slo = next((each.slo for each in (case.policy.models if case.policy else ()) if about == f"model/{each.id}"), None)
    named = {(namespace(pod), text(pod, "metadata", "name")) for pod in pods}
    own = case.policy.metrics.maps if case.policy else ()
    for source in (source for each in with_own(own) if each.name in maps for source in each.readings):
        bound = case.last_bounds.get(source.series)
        if slo is None or bound is None or source.reading not in ABOVE or named.isdisjoint(_pods_with(case, source)):
            continue
        if bound / source.per < slo.latency_seconds:
            ends, promised = seconds(bound / source.per), seconds(slo.latency_seconds)
            short = f"{source.series} ends at {ends}, below the SLO of {promised}: a latency above"
            fix = f"buckets up to {promised} in the engine; until then its latency asks for no replica more"
            yield Finding(WARN, about, f"{short} is more than {ends}, and who is late is not seen", fix, docs=DOCS)


def _pods_with(case: Case, source: MetricSource) -> frozenset[tuple[str, str]]:
    return (case.series or {}).get(source.series, frozenset())


def _models(case: Case) -> dict[str, tuple[frozenset[str], list[Object]]]:
    """By model or workload the signals that it votes by, and its pods that run."""
    models: dict[str, tuple[frozenset[str], list[Object]]] = {}
    for template in case.gpu_templates:
        owner = template.owner
        pods = [owner] if owner.get("kind") == "Pod" else case.pods_of(owner)
        running = [pod for pod in pods if text(pod, "status", "phase") == "Running"]
        homes = {f"model/{home.model.id}": home.model.signals.configured for home in case.homes(address_of(owner))}
        for about, signals in (homes or {address(owner): ()}).items():
            if running:
                models.setdefault(about, (frozenset(signals), []))[1].extend(running)
    return models


def _read(case: Case, pods: list[Object]) -> tuple[list[str], Counter[str]]:
    """The maps that pods are read by, and by reading the number of pods that have it."""
    all_maps = with_own(case.policy.metrics.maps if case.policy else ())
    readings: Counter[str] = Counter()
    used: dict[str, None] = {}
    for pod in pods:
        named = (namespace(pod), text(pod, "metadata", "name"))
        metrics = {metric for metric, has in (case.series or {}).items() if named in has}
        by_map: dict[str, dict[str, float]] = {
            each.name: dict.fromkeys((source.reading for source in each.readings if source.series in metrics), 0.0)
            for each in all_maps
            if each.model_label is None
        }
        figures, maps = chosen({name: figures_read for name, figures_read in by_map.items() if figures_read}, all_maps)
        readings.update(figures.keys())
        used.update(dict.fromkeys(maps))
    return list(used), readings


def _part(reading: str, pods: int, of: int) -> str:
    return reading if pods == of else f"{reading} of {pods} of {_pods(of)}"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _by(lack: MissingReading) -> str:
    return f"another metric has {' or '.join(lack.readings)}"
