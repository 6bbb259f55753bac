"""What Prometheus is asked about pods and models, rendered from metric maps. Pure.

Pod by pod, because only the owner of a pod says whose it is: `model_name` is a hint that two models may share. A pod
that Prometheus did not scrape is thereby absent, where a sum over the model would only have become smaller. Nothing is
asked of metrics that the Prometheus does not have (`MetricInventory`).
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Final, NamedTuple

from rebalancer.domain.events import Counters
from rebalancer.domain.metric_maps import ABOVE, READINGS, MetricMap, MetricSource
from rebalancer.ingest.engines import DCGM, DEVICES, ENGINES, POOLS, VLLM

DNS1123 = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
AT: Final = "at"
MAPS: Final = (*ENGINES, *DEVICES, *POOLS)

LEAST_WINDOW_SECONDS: Final = 60.0
MOST_WINDOW_SECONDS: Final = 300.0
SCRAPES: Final = 4.0  # in a window: `rate` needs two samples, one scrape may fail, and none falls on its ends
COUNTED_SECONDS: Final = 300.0  # in which scrapes are counted

# Labels that name a workload's namespace and pod. Scraped without honorLabels, `pod` and `namespace` are the exporter's
# own and the workload's are `exported_*`; dcgm-exporter's --use-old-namespace; OpenTelemetry's resource attributes.
STYLES: Final = (
    ("namespace", "pod"),
    ("exported_namespace", "exported_pod"),
    ("pod_namespace", "pod_name"),
    ("k8s_namespace_name", "k8s_pod_name"),
)

BY: Final = {"kvCacheUse": "max", "gpuUtilisation": "avg", AT: "min"} | dict.fromkeys((*ABOVE, *ABOVE.values()), "max")
QUANTILES: Final = {"ttftP95Seconds": 0.95, "latencyP95Seconds": 0.95, "latencyP99Seconds": 0.99}
# Behind a percentile's name: the share of its requests below the histogram's last bound. Where that is less than the
# quantile, the percentile is not the bound that histogram_quantile gives then, but somewhere above.
BELOW: Final = ".below"
BOUNDED, UNBOUNDED = 'le!="+Inf"', 'le="+Inf"'
# Labels by which two scrapes of one address differ: of two jobs, Services, names of a port, or Prometheis.
SCRAPED_BY: Final = ("job", "service", "endpoint", "prometheus", "prometheus_replica")
ADDRESSED, UNADDRESSED = 'instance!=""', 'instance=""'
STARTED: Final = "process_start_time_seconds"
COUNTERS: Final = frozenset(Counters.__struct_encode_fields__)


class MetricInventory(NamedTuple):
    """What a Prometheus has of the maps.

    names: metrics that have series.
    labels: labels that those have.
    scrape_seconds: the longest time between two scrapes of an engine; None where nobody knows yet.
    matchers: what is asked of each series beside, as PromQL.
    """

    names: frozenset[str]
    labels: frozenset[str] = frozenset(("namespace", "pod", "exported_namespace", "exported_pod"))
    scrape_seconds: float | None = None
    matchers: str = ""

    @property
    def window_seconds(self) -> float:
        """What rates are taken over: four scrapes, 1 to 5 min."""
        seconds = ceil(SCRAPES * (self.scrape_seconds or 0.0) / 15.0) * 15.0
        return min(max(LEAST_WINDOW_SECONDS, seconds), MOST_WINDOW_SECONDS)


USUAL: Final = MetricInventory(VLLM.names | DCGM.names | {STARTED})


def with_own(maps: Iterable[MetricMap]) -> tuple[MetricMap, ...]:
    """All maps: a user's first, each under a name that none of ours has, `own/NAME`."""
    return (*(each.model_copy(update={"name": f"own/{each.name}"}) for each in maps), *MAPS)


def names_of(maps: Iterable[MetricMap]) -> frozenset[str]:
    """Every metric that is of use with these maps."""
    return frozenset({STARTED}).union(*(each.names for each in maps))


def matchers_of(labels: str) -> str:
    """PromQL's matchers of `cluster=prod-eu,region=eu`, as the settings have it."""
    pairs = (pair.partition("=") for pair in labels.split(",") if pair)
    return ",".join(f"{label}={json.dumps(value, ensure_ascii=False)}" for label, _, value in pairs)


def selector(names: Iterable[str], matchers: str = "") -> str:
    """A selector of all series of these metrics, and of the matchers."""
    return f'{{__name__=~"{"|".join(sorted(names))}"{_more(matchers)}}}'


def question(
    namespaces: Iterable[str], has: MetricInventory = USUAL, maps: Sequence[MetricMap] = MAPS, *, counted: bool = False
) -> str:
    """One query for all readings of all pods of these namespaces, and of models: one answer is one instant.

    `counted`: the engines' counters, too, by which arrivals are known. "" where there is nothing to ask for. Good for
    instant and range queries: rates have the inventory's window. Raises ValueError for a name that is not DNS-1123: it
    would be read as PromQL.
    """
    among = _among(namespaces)
    return " or ".join(branch for each in maps for branch in _branches(each, has, among, counted))


def scrapes_question(namespaces: Iterable[str], has: MetricInventory, maps: Sequence[MetricMap] = MAPS) -> str:
    """How often the seldomest scraped pod was scraped within COUNTED_SECONDS; of pods that are older. "" for nothing.

    Of each map one metric is looked at.
    """
    among, parts = _among(namespaces), []
    for each in maps:
        clocks = _clocks(each, has)
        if clocks and each.model_label is None:
            counted = [
                f"(count_over_time({series}[{COUNTED_SECONDS:g}s]) and {series} offset {COUNTED_SECONDS:g}s)"
                for series, _ in _series(clocks[0], has, among)
            ]
            parts.append(f'label_replace(min({" or ".join(counted)}), "reading", "{each.name}", "", "")')
    return " or ".join(parts)


def expression(each: MetricMap, reading: str, has: MetricInventory, among: str) -> str:
    """One reading of a map, by pod or model, of namespaces that match the pattern `among`; "" without its metric."""
    sources = [source for source in each.sources(reading) if source.series in has.names]
    return " or ".join(
        _divided(_figure(each, source, reading, has, among), source.per)
        for source in sources
        if source.mean_over is None or source.mean_over in has.names
    )


def batches(namespaces: Iterable[str], size: int = 20) -> Iterator[list[str]]:
    """Namespaces of one question each: 20 of the longest names make a URL of 25 KB."""
    names = sorted(namespaces)
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _among(namespaces: Iterable[str]) -> str:
    names = sorted(namespaces)
    for name in names:
        if not DNS1123.fullmatch(name):
            raise ValueError(f"{name!r} is not a DNS-1123 name")
    return "|".join(name.replace(".", "[.]") for name in names)


def _branches(each: MetricMap, has: MetricInventory, among: str, counted: bool) -> Iterator[str]:  # noqa: FBT001  # passed on
    """The readings of one map that there are, named MAP/READING, and when they were measured and counted from."""
    clocks = _clocks(each, has)
    queries = {
        reading: expression(each, reading, has, among) for reading in READINGS if counted or reading not in COUNTERS
    }
    if not any(queries.values()):
        return
    yield _named(" or ".join(_figure(each, clock, AT, has, among) for clock in clocks), each, AT)
    yield from (_named(text, each, reading) for reading, text in queries.items() if text)
    for reading in QUANTILES:
        if text := _below(each, reading, has, among):
            yield _named(text, each, f"{reading}{BELOW}")
    if (
        any(text and reading in COUNTERS for reading, text in queries.items())
        and STARTED in has.names
        and not each.model_label
    ):
        yield _named(_started(clocks[0], has, among), each, "startTime")


def _started(clock: MetricSource, has: MetricInventory, among: str) -> str:
    """PromQL for the start of the process behind a map's series. One beside the engine may be older; it is left out."""
    process = MetricSource(reading=clock.reading, series=STARTED)
    pairs = zip(_series(process, has, among), _series(clock, has, among), strict=True)
    starts = (
        _renamed(f"({began} and on ({namespace}, {pod}, instance) {engine})", (namespace, pod))
        for (began, (namespace, pod)), (engine, _) in pairs
    )
    return f"max by (namespace, pod) ({' or '.join(starts)})"


def _named(query: str, each: MetricMap, reading: str) -> str:
    if each.model_label is not None and each.model_label != "model":
        query = f'label_replace({query}, "model", "$1", "{each.model_label}", "(.*)")'
    return f'label_replace({query}, "reading", "{each.name}/{reading}", "", "")'


def _clocks(each: MetricMap, has: MetricInventory) -> list[MetricSource]:
    """The metrics whose scrape dates the readings, each once: a pod may lack any of them. Of a histogram its end."""
    every = dict.fromkeys(source.series for source in each.readings)
    return [
        MetricSource(reading="running", series=name, where=(UNBOUNDED,) if name.endswith("_bucket") else ())
        for name in every
        if name in has.names
    ]


def _figure(each: MetricMap, source: MetricSource, reading: str, has: MetricInventory, among: str) -> str:
    """One source's figure by pod or model, before it is brought to our unit."""
    if _is_histogram(source, reading):
        return f"histogram_quantile({QUANTILES[reading]:g}, {_buckets(each, source, has, among)})"
    by = BY.get(reading, "sum") if source.by is None or reading == AT else source.by
    whose = each.model_label or "namespace, pod"

    def series_of(*more: str) -> str:
        of_them = source.model_copy(update={"where": (*source.where, *more)})
        of = "timestamp({})" if reading == AT else "{}"
        series = " or ".join(_renamed(of.format(name), style) for name, style in _series(of_them, has, among, each))
        return series if reading == AT else _once(each, series)

    if by != "sum":
        series = series_of()
    elif each.model_label is None:
        series = _of_each_target(whose, series_of())
    else:  # what a recording rule makes of several addresses has none, and all of it counts, whatever labels it keeps
        series = f"{_of_each_target(whose, series_of(ADDRESSED))} or sum by ({whose}) ({series_of(UNADDRESSED)})"
    figure = f"{by} by ({whose}) ({series})"
    if source.mean_over is not None and reading != AT:
        counts = _series(MetricSource(reading=source.reading, series=source.mean_over), has, among, each)
        figure += f" * max by ({whose}) ({' or '.join(_renamed(*count) for count in counts)})"
    return figure


def _is_histogram(source: MetricSource, reading: str) -> bool:
    return source.series.endswith("_bucket") and reading in QUANTILES


def _buckets(each: MetricMap, source: MetricSource, has: MetricInventory, among: str, *more: str) -> str:
    """Requests a second below each bound of a histogram, by pod or model; `more`: matchers beside the source's."""
    source = source.model_copy(update={"where": (*source.where, *more)})
    rates = (
        _renamed(f"rate({series}[{has.window_seconds:g}s])", style)
        for series, style in _series(source, has, among, each)
    )
    return f"sum by ({each.model_label or 'namespace, pod'}, le) ({_once(each, ' or '.join(rates))})"


def _below(each: MetricMap, reading: str, has: MetricInventory, among: str) -> str:
    """Which share of a percentile's requests its histogram has below its last bound; "" where it is of none.

    Source by source as the percentile itself; of one that is no histogram all are. It reads the buckets once more: pods
    of one engine in two versions have two last bounds, and no query makes a number of a label.
    """
    sources = [source for source in each.sources(reading) if source.series in has.names]
    if not any(_is_histogram(source, reading) for source in sources):
        return ""
    whose = each.model_label or "namespace, pod"
    return " or ".join(
        f"max by ({whose}) ({_buckets(each, source, has, among, BOUNDED)})"
        f" / sum by ({whose}) ({_buckets(each, source, has, among, UNBOUNDED)})"
        if _is_histogram(source, reading)
        else f"0 * ({_figure(each, source, reading, has, among)}) + 1"
        for source in sources
    )


def _once(each: MetricMap, series: str) -> str:
    """The highest of several copies of one figure, as each rank of an engine may export it."""
    return f"max without ({', '.join(each.copies)}) ({series})" if each.copies else series


def _of_each_target(whose: str, series: str) -> str:
    """A sum for each scraped address, so that a pod scraped by two jobs, services or Prometheis counts once.

    Two engines of one pod have two addresses, and each job has all series of an address.
    """
    return f"max by ({whose}, instance) (sum by ({whose}, instance, {', '.join(SCRAPED_BY)}) ({series}))"


def _divided(figure: str, per: float) -> str:
    return figure if per == 1.0 else f"({figure}) / {per:.15g}"


def _series(
    source: MetricSource, has: MetricInventory, among: str, each: MetricMap | None = None
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Selectors of a source's series, with the labels that name the pod there."""
    more = "".join(map(_more, (*source.where, has.matchers)))
    if each is not None and each.model_label is not None:
        yield f'{source.series}{{{each.model_label}!=""{more}}}', STYLES[0]
        return
    for style in STYLES:
        namespace, pod = style
        if has.labels.issuperset(style):
            yield f'{source.series}{{{namespace}=~"{among}",{pod}!=""{more}}}', style


def _more(condition: str) -> str:
    return f",{condition}" if condition else ""


def _renamed(series: str, style: tuple[str, str]) -> str:
    if style == STYLES[0]:
        return series
    for ours, theirs in zip(STYLES[0], style, strict=True):
        series = f'label_replace({series}, "{ours}", "$1", "{theirs}", "(.*)")'
    return series
