"""Which series of a Prometheus hold our readings: one map an engine or exporter, those of `ingest.engines` or yours."""

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from rebalancer.domain.part import Part

METRIC = r"^[a-zA-Z_:][a-zA-Z0-9_:]*$"
LABEL = r"^[a-zA-Z_][a-zA-Z0-9_]*$"
MATCHER = r'^[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"[^"\\{}\n]*"$'

MetricName = Annotated[str, Field(pattern=METRIC, max_length=200)]
LabelName = Annotated[str, Field(pattern=LABEL, max_length=100)]
Matcher = Annotated[str, Field(pattern=MATCHER, max_length=300)]
Aggregation = Literal["sum", "max", "avg", "min"]


class MetricSource(Part):
    """One metric that holds a reading, and how a pod's figure is made of its series."""

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


Sources = tuple[MetricSource, ...]


class MetricMap(Part):
    """Where the readings of one engine or exporter are. A reading has its first source of which the pod has series."""

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
    running: Sources = Field(default=(), description="Requests in work.")
    waiting: Sources = Field(default=(), description="Requests in the queue.")
    kv_cache_use: Sources = Field(default=(), description="Share of the KV cache in use, 0-1.")
    gpu_utilisation: Sources = Field(default=(), description="Share of the time in which the GPUs had work, 0-1.")
    fb_used_mib: Sources = Field(default=(), description="GPU memory in use, MiB.")
    fb_free_mib: Sources = Field(default=(), description="GPU memory that is free, MiB.")
    ttft_p95_seconds: Sources = Field(default=(), description="95th percentile of the time to the first token.")
    latency_p95_seconds: Sources = Field(default=(), description="95th percentile of the latency.")
    latency_p99_seconds: Sources = Field(default=(), description="99th percentile of the latency.")
    requests_finished: Sources = Field(default=(), description="Counter of requests answered.")
    requests_left: Sources = Field(default=(), description="Counter of requests given up or turned away.")
    prompt_tokens: Sources = Field(default=(), description="Counter of tokens read.")
    generated_tokens: Sources = Field(default=(), description="Counter of tokens written.")

    def sources(self, field: str) -> Sources:
        """The sources of one of READING_FIELDS."""
        found: Sources = getattr(self, field)
        return found

    @property
    def names(self) -> frozenset[str]:
        """Every metric that it names."""
        every = [source for field in READING_FIELDS for source in self.sources(field)]
        return frozenset(name for source in every for name in (source.series, source.mean_over) if name is not None)


READING_FIELDS: tuple[str, ...] = tuple(
    name for name in MetricMap.model_fields if name not in {"name", "model_label", "copies"}
)
"""The fields of a map that are readings, by their Python names."""


class MetricRules(Part):
    """What is read from Prometheus beside the maps that we have."""

    maps: Annotated[tuple[MetricMap, ...], Field(max_length=20)] = Field(
        default=(), description="Maps of your own; what they tell of a pod or model stands before what ours do."
    )
