"""Which series of a Prometheus hold our readings: one map an engine or exporter, those of `ingest.engines` or yours."""

from typing import Annotated, Literal, get_args

from pydantic import Field, FiniteFloat

from rebalancer.domain.part import Part

METRIC = r"^[a-zA-Z_:][a-zA-Z0-9_:]*$"
LABEL = r"^[a-zA-Z_][a-zA-Z0-9_]*$"
MATCHER = r'^[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"[A-Za-z0-9_.:/|+*? ()-]*"$'

MetricName = Annotated[str, Field(pattern=METRIC, max_length=200)]
LabelName = Annotated[str, Field(pattern=LABEL, max_length=100)]
Matcher = Annotated[str, Field(pattern=MATCHER, max_length=300)]
GaugeName = Literal[
    "running",
    "waiting",
    "kvCacheUse",
    "gpuUtilisation",
    "fbUsedMib",
    "fbFreeMib",
    "ttftP95Seconds",
    "latencyP95Seconds",
    "latencyP99Seconds",
    "ttftP95AboveSeconds",
    "latencyP95AboveSeconds",
    "latencyP99AboveSeconds",
]
CounterName = Literal["requestsFinished", "requestsLeft", "promptTokens", "generatedTokens"]
ReadingName = Literal[GaugeName, CounterName]
READINGS: tuple[str, ...] = get_args(ReadingName)
"""Gauges and counters, by the names that samples have on the wire."""

ABOVE: dict[str, str] = {
    "ttftP95Seconds": "ttftP95AboveSeconds",
    "latencyP95Seconds": "latencyP95AboveSeconds",
    "latencyP99Seconds": "latencyP99AboveSeconds",
}
"""Percentiles, and what each is called that is only known to lie above a figure."""

Aggregation = Literal["sum", "max", "avg", "min"]


class MetricSource(Part):
    """One metric that holds a reading, and how a pod's figure is made of its series."""

    reading: ReadingName = Field(description="What it holds, as metric samples in Kafka call it.")
    series: MetricName = Field(
        description="Name of the metric. One that ends in _bucket is a histogram: its percentile is taken."
    )
    where: tuple[Matcher, ...] = Field(
        default=(), description='Label matchers that pick the series, as request_type="waiting".'
    )
    by: Aggregation | None = Field(
        default=None,
        description="How several series of one pod become one figure. None said: counts and memory are summed, of"
        " kvCacheUse and latencies the highest counts, gpuUtilisation is averaged.",
    )
    per: Annotated[FiniteFloat, Field(gt=0, le=1e12)] = Field(
        default=1.0, description="What it is divided by: 100 for percent, 1000 for milliseconds, 1048576 for bytes."
    )
    mean_over: MetricName | None = Field(
        default=None, description="Where the series is a mean: the metric that says over how many; both are multiplied."
    )


class MetricMap(Part):
    """Where the readings of one engine or exporter are."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=63)] = Field(
        description="Name of the engine or exporter, shown to people."
    )
    model_label: LabelName | None = Field(
        default=None,
        description="Where the series are of whole models, as a gateway's: the label that names the model by its id or"
        " an alias. Without it they are of pods.",
    )
    copies: tuple[LabelName, ...] = Field(
        default=(), description="Labels that tell copies of one figure apart: of them the highest counts, once."
    )
    readings: tuple[MetricSource, ...] = Field(
        min_length=1,
        description="The metrics that it is read from. Of several for one reading the first counts of which the pod has"
        " series.",
    )

    def sources(self, reading: str) -> tuple[MetricSource, ...]:
        """The sources of one of READINGS, in order."""
        return tuple(source for source in self.readings if source.reading == reading)

    @property
    def names(self) -> frozenset[str]:
        """Every metric that it names."""
        return frozenset(
            name for source in self.readings for name in (source.series, source.mean_over) if name is not None
        )


class MetricRules(Part):
    """What is read from Prometheus beside the maps that we have."""

    maps: Annotated[tuple[MetricMap, ...], Field(max_length=20)] = Field(
        default=(), description="Maps of your own; what they tell of a pod or model stands before what ours do."
    )
