"""The reference page of the metrics, written from the catalogue."""

from rebalancer.obs.metrics.catalogue import METRICS
from rebalancer.obs.metrics.metric import Label, Metric
from rebalancer.obs.metrics.of_aggregate import AGGREGATE_ONLY

_HEAD = """\
# Metrics

The probe port serves these at `/metrics`, and no others. A figure that is unknown is absent, never zero. Labels are
bounded: their values are the words given here, or names from the policy; a name that only a producer or the cluster
knows never becomes a label.

"""


def metrics_page() -> str:
    """The whole page."""
    return _HEAD + "\n".join(_entry(metric) for metric in (*METRICS, *AGGREGATE_ONLY))


def _entry(metric: Metric) -> str:
    lines = [f"## `{metric.name}`", "", f"{metric.help} {metric.kind.capitalize()}, in {metric.unit}.", ""]
    lines += [f"- `{label.name}`: {_values(label)}" for label in metric.labels]
    if metric.buckets:
        lines.append("- buckets: " + ", ".join(f"{bound:g}" for bound in metric.buckets))
    return "\n".join(lines).rstrip() + "\n"


def _values(label: Label) -> str:
    return ", ".join(f"`{word}`" for word in label.words) or label.of
