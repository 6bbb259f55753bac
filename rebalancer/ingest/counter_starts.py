"""Since when the counters of a pod count: Prometheus tells their values, and not that a container began anew. Pure."""

from collections.abc import Iterable

from msgspec.structs import asdict, replace

from rebalancer.domain.events import Counters, MetricSample

KEPT_SECONDS = 900.0  # who was away for longer is compared with nothing from before: `state.series.MAX_GAP_SECONDS`


class CounterStarts:
    """Remembers the counters as they were seen last. One that fell began to count from zero meanwhile.

    Without it a restarted engine would look as if all that it ever finished were taken back. While a container restarts
    its pod is missing in a poll or more.
    """

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, Counters]] = {}

    def dated(self, samples: Iterable[MetricSample]) -> list[MetricSample]:
        """The samples of one poll, with `start_time` moved to where a counter was first seen lower than before."""
        after: dict[str, tuple[float, Counters]] = {}
        dated = []
        for sample in samples:
            counters = sample.counters
            if counters is not None:
                whose = sample.pod or sample.model
                if whose in self._before:
                    _, before = self._before[whose]
                    start = sample.at if _fell(before, counters) else before.start_time
                    counters = replace(counters, start_time=max(counters.start_time, start))
                after[whose] = sample.at, counters
                sample = replace(sample, counters=counters)  # noqa: PLW2901  # the same sample, its counters dated
            dated.append(sample)
        since = max((at for at, _ in after.values()), default=0.0) - KEPT_SECONDS
        self._before = {whose: seen for whose, seen in self._before.items() if seen[0] >= since} | after
        return dated


def _fell(before: Counters, after: Counters) -> bool:
    values = asdict(after)
    return any(
        name != "start_time" and value is not None and values[name] is not None and values[name] < value
        for name, value in asdict(before).items()
    )
