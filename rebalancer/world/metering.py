"""What a model's metrics say: at each scrape one sample per producer, and some time later it is there to be read."""

from collections.abc import Iterable

from rebalancer.domain.events import MetricSample
from rebalancer.world.service import Look


class Meter:
    """Makes samples of one model's looks."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._number = 0

    def read(self, looks: Iterable[Look], at: float, interval_seconds: float) -> list[MetricSample]:
        """The samples of one interval that ends at `at`."""
        self._number += 1
        return [self._sample(look, at, interval_seconds) for look in looks]

    def _sample(self, look: Look, at: float, interval_seconds: float) -> MetricSample:
        return MetricSample(
            source="/world/gateway" if look.pod is None else f"/world/pods/{look.pod}",
            id=f"{self._model if look.pod is None else look.pod}-{self._number}",
            at=at,
            model=self._model,
            interval_seconds=interval_seconds,
            gauges=look.gauges,
            pod=look.pod,
            counters=look.counters,
        )
