"""Which pods the series in a Prometheus name."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

METRICS: Final = ("vllm:num_requests_running", "DCGM_FI_DEV_FB_USED")
"""What every engine of vLLM and every dcgm-exporter has: who names pods here names them everywhere."""

QUESTION: Final = (
    f'count by (__name__, namespace, pod, exported_namespace, exported_pod) ({{__name__=~"{"|".join(METRICS)}"}})'
)


class _Labels(Struct, frozen=True):
    metric: str = msgspec.field(name="__name__", default="")
    namespace: str = ""
    pod: str = ""
    exported_namespace: str = ""
    exported_pod: str = ""


class _Series(Struct, frozen=True):
    metric: _Labels


def pods_by_metric(result: object) -> dict[str, frozenset[tuple[str, str]]]:
    """By metric the pods, as (namespace, name), of its series, from `data.result` of an instant query.

    A metric without series names none. Raises msgspec.ValidationError when the result is no such thing.
    """
    series = [each.metric for each in msgspec.convert(result, list[_Series])]
    return {
        metric: frozenset(pod for each in series if each.metric == metric for pod in _pods(each)) for metric in METRICS
    }


def _pods(labels: _Labels) -> Iterator[tuple[str, str]]:
    """Without honorLabels the workload's labels are the exported ones, and the plain ones are the exporter's own."""
    if labels.pod:
        yield labels.namespace, labels.pod
    if labels.exported_pod:
        yield labels.exported_namespace, labels.exported_pod
