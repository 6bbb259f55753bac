"""What the last week looked like, where Prometheus has it: replicas that had work, by workload. Pure."""

from collections.abc import Iterable, Iterator
from math import ceil, isfinite
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.past.names import PODS, pod_names

DAYS: Final = 7
STEP_MINUTES: Final = 10  # 1,008 looks at each pod
_RUNNING: Final = "vllm:num_requests_running"


class Use(NamedTuple):
    """Replicas of one workload that had a request in flight; `hours`: how long it was seen at all.

    median: over the week.
    most: at the busiest look.
    """

    median: float
    most: float
    hours: float

    def replicas(self) -> int:
        """Whole replicas of the median."""
        return ceil(self.median)


class _Labels(Struct, frozen=True):
    reading: str = ""
    workload: str = ""


class _Series(Struct, frozen=True):
    metric: _Labels
    value: tuple[float, str]


def questions(workloads: Iterable[WorkloadRef], matchers: str = "", size: int = 10) -> Iterator[str]:
    """PromQL about `size` workloads each; of a pod only the name is known after a week, which begins with theirs.

    matchers: what is asked of each series beside, as PromQL.
    """
    refs = sorted(ref for ref in workloads if ref.kind in PODS)
    for start in range(0, len(refs), size):
        yield " or ".join(branch for ref in refs[start : start + size] for branch in _branches(ref, matchers))


def use_of(result: object) -> dict[str, Use]:
    """By `str` of the workload, from `data.result` of an instant query; what is not finite is not there.

    Raises msgspec.ValidationError when it is no such thing.
    """
    by_workload: dict[str, dict[str, float]] = {}
    for series in msgspec.convert(result, list[_Series]):
        value = float(series.value[1])
        if isfinite(value):
            by_workload.setdefault(series.metric.workload, {})[series.metric.reading] = value
    return {
        workload: Use(
            values["median"], values.get("most", values["median"]), values.get("looks", 0) * STEP_MINUTES / 60
        )
        for workload, values in by_workload.items()
        if "median" in values
    }


def _branches(ref: WorkloadRef, matchers: str) -> Iterator[str]:
    pods = f'namespace="{ref.namespace}",pod=~"{pod_names(ref.kind, ref.name)}"'.replace("\\", "\\\\")
    also = f",{matchers}" if matchers else ""
    busy = f"sum({_RUNNING}{{{pods}{also}}} > bool 0)[{DAYS}d:{STEP_MINUTES}m]"
    for reading, function in (
        ("median", "quantile_over_time(0.5, {})"),
        ("most", "max_over_time({})"),
        ("looks", "count_over_time({})"),
    ):
        labelled = f'label_replace({function.format(busy)}, "workload", "{ref}", "", "")'
        yield f'label_replace({labelled}, "reading", "{reading}", "", "")'
