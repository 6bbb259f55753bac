"""Since when the counters of a pod count: Prometheus tells their values, and not that a container began anew. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import asdict, replace

from rebalancer.domain.events import Counters, MetricSample

KEPT_SECONDS = 900.0  # who was away for longer is compared with nothing from before: `state.series.MAX_GAP_SECONDS`


class _Seen(NamedTuple):
    """The counters of one pod as they were seen last, and before they last fell.

    None where they have not, came back, or fell so long ago that nothing is compared with what was before.
    """

    at: float
    counters: Counters
    fell_from: Counters | None


class CounterStarts:
    """Remembers the counters as they were seen last. One that fell began to count from zero meanwhile.

    Without it a restarted engine would look as if all that it ever finished were taken back. While a container restarts
    its pod is missing in a poll or more. One that is back where it fell from began nothing: one of several engines of
    the pod was not scraped. All that this one ever finished would come at once, so that they count from there, too.
    """

    def __init__(self) -> None:
        self._before: dict[str, _Seen] = {}

    def dated(self, samples: Iterable[MetricSample]) -> list[MetricSample]:
        """The samples of one poll, with `start_time` moved to where a counter was first seen lower than before."""
        after: dict[str, _Seen] = {}
        dated = []
        for sample in samples:
            if sample.counters is not None:
                whose = sample.pod or sample.model
                after[whose] = _seen(sample.at, sample.counters, self._before.get(whose))
                sample = replace(sample, counters=after[whose].counters)  # noqa: PLW2901  # the same, its counters dated
            dated.append(sample)
        since = max((seen.at for seen in after.values()), default=0.0) - KEPT_SECONDS
        self._before = {whose: seen for whose, seen in self._before.items() if seen.at >= since} | after
        return dated


def _seen(at: float, counters: Counters, before: _Seen | None) -> _Seen:
    if before is None:
        return _Seen(at, counters, None)
    start, fell_from = before.counters.start_time, before.fell_from
    if _fell(before.counters, counters):
        start, fell_from = at, before.counters
    elif fell_from is not None and at - start > KEPT_SECONDS:  # they count since they fell
        fell_from = None  # else a restarted engine that counts as far one day would begin anew again
    elif fell_from is not None and not _fell(fell_from, counters):
        start, fell_from = at, None
    return _Seen(at, replace(counters, start_time=max(counters.start_time, start)), fell_from)


def _fell(before: Counters, after: Counters) -> bool:
    values = asdict(after)
    return any(
        name != "start_time" and value is not None and values[name] is not None and values[name] < value
        for name, value in asdict(before).items()
    )
