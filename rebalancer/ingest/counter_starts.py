"""Finds restarts of engines in Prometheus' counters: one that fell has counted from zero since. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import asdict, replace

from rebalancer.domain.events import Counters, MetricSample

KEPT_SECONDS = 900.0  # a pod not seen for longer begins anew: `state.series.MAX_GAP_SECONDS`


class _Seen(NamedTuple):
    """The counters of one pod as they were seen last.

    fell_from: the counters before the last fall; None where none fell, it came back, or KEPT_SECONDS have passed.
    """

    at: float
    counters: Counters
    fell_from: Counters | None


class CounterStarts:
    """Remembers each pod's counters. When one falls, the engine has restarted, and its `start_time` moves to this poll.

    Without it a restarted engine would look as if it took back all that it ever finished. While a container restarts,
    its pod may be missing in a few polls. A counter that is back where it fell from was no restart: one of several
    engines of the pod was not scraped. Its whole count would come at once, so `start_time` moves to this poll, too.
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
