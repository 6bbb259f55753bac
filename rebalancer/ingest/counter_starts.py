"""Since when the counters of a pod count: Prometheus tells their values, and not that a container began anew. Pure."""

from collections.abc import Iterable

from msgspec.structs import asdict, replace

from rebalancer.domain.events import Counters, MetricSample


class CounterStarts:
    """Remembers the counters of the poll before. One that fell began to count from zero meanwhile.

    Without it a restarted engine would look as if all that it ever finished were taken back.
    """

    def __init__(self) -> None:
        self._before: dict[str, Counters] = {}

    def dated(self, samples: Iterable[MetricSample]) -> list[MetricSample]:
        """The samples of one poll, with `start_time` moved to where a counter was first seen lower than before."""
        after: dict[str, Counters] = {}
        dated = []
        for sample in samples:
            counters = sample.counters
            if counters is not None:
                whose = sample.pod or sample.model
                before = self._before.get(whose)
                if before is not None:
                    start = sample.at if _fell(before, counters) else before.start_time
                    counters = replace(counters, start_time=max(counters.start_time, start))
                after[whose] = counters
                sample = replace(sample, counters=counters)  # noqa: PLW2901  # the same sample, its counters dated
            dated.append(sample)
        self._before = after
        return dated


def _fell(before: Counters, after: Counters) -> bool:
    values = asdict(after)
    return any(
        name != "start_time" and value is not None and values[name] is not None and values[name] < value
        for name, value in asdict(before).items()
    )
