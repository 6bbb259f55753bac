"""SkyServe's SpotHedge (arXiv 2411.01438): more spot replicas than needed, on-demand ones for what is missing.

From the paper and `sky/serve/autoscalers.py`, `sky/serve/spot_placer.py` of skypilot-org/skypilot.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from rebalancer.sim.controller import Seen

RATE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class HedgeSettings:
    """Settings of SpotHedge, with SkyServe's defaults.

    target: share of a replica's time that the work which arrives shall fill; 1 is all of it.
    extra: spot replicas beyond what is needed.
    always_on_demand: replicas that are on demand whether spot ones are Ready or not; as many fewer are on spot.
    every_seconds: seconds from one decision to the next.
    up_seconds: seconds for which more must be wanted without a break before it is asked for.
    down_seconds: seconds for which less must be wanted without a break before it is asked for.
    """

    target: float
    extra: int = 2
    always_on_demand: int = 0
    every_seconds: int = 20
    up_seconds: int = 300
    down_seconds: int = 1200


@dataclass(frozen=True, slots=True)
class SpotPools:
    """Replicas of one model by how they are bought."""

    spot: int
    on_demand: int


def hedge(needed: int, spot_ready: int, settings: HedgeSettings) -> SpotPools:
    """`needed` and `extra` on spot; on demand as many as of these are not Ready, never more than `needed`."""
    spot = needed + settings.extra - settings.always_on_demand
    missing = max(0, spot - spot_ready)
    return SpotPools(spot, min(settings.always_on_demand + missing, needed))


@dataclass(slots=True)
class Steady:
    """The number of replicas in force, which follows what is wanted only when that stays on one side long enough."""

    replicas: int
    _up: int = 0
    _down: int = 0

    def follow(self, wanted: int, settings: HedgeSettings) -> int:
        """One decision; call it every `every_seconds`."""
        self._up = self._up + 1 if wanted > self.replicas else 0
        self._down = self._down + 1 if wanted < self.replicas else 0
        if self._up >= settings.up_seconds / settings.every_seconds or (
            self._down >= settings.down_seconds / settings.every_seconds
        ):
            self.replicas, self._up, self._down = wanted, 0, 0
        return self.replicas


@dataclass(slots=True)
class Zones:
    """Where the next spot replica goes: zones by price per hour, those that lost one lately are avoided."""

    prices: Mapping[str, float]
    _lost: set[str] = field(default_factory=set)

    @property
    def active(self) -> list[str]:
        """Zones that are not avoided, cheapest first."""
        return sorted((zone for zone in self.prices if zone not in self._lost), key=lambda zone: self.prices[zone])

    def next(self, used: Sequence[str]) -> str:
        """The active zone that has fewest of the replicas that stand in `used`, the cheapest of these."""
        counts = Counter(used)
        return min(self.active, key=lambda zone: (counts[zone], self.prices[zone]))

    def lost(self, zone: str) -> None:
        """A replica was taken away, or not given, there. With fewer than two zones left, all are tried again."""
        self._lost.add(zone)
        if len(self.active) < 2:  # noqa: PLR2004  # one zone alone is no hedge: the paper's rule
            self._lost.clear()

    def launched(self, zone: str) -> None:
        """A replica became Ready there."""
        self._lost.discard(zone)


class SpotHedge:
    """A controller that buys replicas of two kinds: spot ones on the elastic pool, on-demand ones on the primary pool.

    `spot_ready(seen, model)`: how many of a model's Ready replicas are on spot. Where there is one pool, all are.
    """

    def __init__(self, settings: HedgeSettings, spot_ready: Callable[[Seen, int], int] | None = None) -> None:
        self.every_seconds = settings.every_seconds
        self._settings = settings
        self._spot_ready = spot_ready or _on_elastic
        self._steady: list[Steady] = []

    def decide(self, seen: Seen) -> list[int]:
        """Replicas of both kinds asked for, by model."""
        return [on_demand + spot for on_demand, spot in self.decide_by_pool(seen)]

    def decide_by_pool(self, seen: Seen) -> list[tuple[int, int]]:
        """(on demand, spot) replicas asked for, by model."""
        models = seen.scenario.models
        if not self._steady:
            self._steady = [Steady(max(model.floor, model.first)) for model in models]
        desired = []
        for index, model in enumerate(models):
            pools = self._hedge(index, seen)
            on_demand = max(pools.on_demand, model.floor - pools.spot)
            desired.append((on_demand, min(pools.spot, model.most - on_demand)))
        return desired

    def _hedge(self, index: int, seen: Seen) -> SpotPools:
        model, steady = seen.scenario.models[index], self._steady[index]
        rate = seen.rate(index, RATE_SECONDS)
        if rate is not None:
            wanted = min(max(ceil(rate / self._settings.target), model.floor), model.most)
            steady.follow(wanted, self._settings)
        return hedge(steady.replicas, self._spot_ready(seen, index), self._settings)


def _on_elastic(seen: Seen, model: int) -> int:
    return seen.ready_elastic[model] if seen.ready_elastic else seen.ready[model]
