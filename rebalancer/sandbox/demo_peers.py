"""The same traffic without the service: clusters like the demo's own, in which KEDA and Karpenter alone decide.

They are played in this process by the code that plays the demo's cluster: same machines, same engines, same seed, so
the same requests arrive at the same instants. What differs is who sets replicas.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from rebalancer.domain.policy import Model, Policy
from rebalancer.sandbox.demo_cluster import SEED, DemoCluster, build
from rebalancer.world import World

OURS = "rebalancer"


def _own(model: Model) -> int:
    """The replicas that the model owns; the policy's most for a model that owns none."""
    return model.entitlement or model.max_replicas


# What people set who run KEDA alone: every model within its own GPUs, or any model up to the policy's maximum.
MAXIMUMS: Mapping[str, Callable[[Model], int]] = {
    "KEDA, own GPUs": _own,
    "KEDA, shared": lambda model: model.max_replicas,
}


def peers(policy: Policy, started_at: float, seed: int = SEED) -> dict[str, DemoCluster]:
    """A cluster for each way to set KEDA up, all of them at the end of the demo's history."""
    return {name: build(policy, started_at, maximum, seed) for name, maximum in MAXIMUMS.items()}


class Count(NamedTuple):
    """One model's requests since the world began; fractions occur, as they are those of a fluid.

    arrived: requests that came.
    late: requests that were late; of a model without an SLO, those that gave up.
    gave_up: requests whose client went away before an answer.
    waiting: requests that wait now.
    """

    arrived: float
    late: float
    gave_up: float
    waiting: float


Counts = Mapping[str, Mapping[str, Count]]  # by side, by model


class TallyLook(NamedTuple):
    """How all sides stand at one instant.

    at: the instant, by the demo's clock.
    counts: requests by side and model.
    rented: GPUs of nodes that Karpenter brought, by side.
    """

    at: float
    counts: Counts
    rented: Mapping[str, int]


@dataclass(slots=True)
class SideTally:
    """Counts of all sides, `OURS` first, at instants of the demo's clock; `looks` are in order."""

    worlds: Mapping[str, World]
    looks: list[TallyLook] = field(default_factory=list)

    def look(self, now: float) -> None:
        """Note how all sides stand. The sandbox moves the first world, we the others."""
        for name, world in self.worlds.items():
            if name != OURS:
                world.advance(now)
        counts = {name: _counts(world) for name, world in self.worlds.items()}
        self.looks.append(TallyLook(now, counts, {name: _rented(world) for name, world in self.worlds.items()}))

    def between(self, since: float, until: float) -> "Stretch":
        """What was noted in [since, until], from the last look before it on."""
        before = [look for look in self.looks if look.at <= since][-1:]
        return Stretch([*before, *(look for look in self.looks if since < look.at <= until)])


def _counts(world: World) -> dict[str, Count]:
    lines = {model: lined.line for model, lined in world.lines.items()}
    return {model: Count(line.arrived.count, line.late, line.gave_up, line.waiting) for model, line in lines.items()}


def _rented(world: World) -> int:
    return sum(node.gpus for node in world.nodes.values() if node.node_pool is not None)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The looks of a stretch of time; its numbers count from its first look on."""

    looks: Sequence[TallyLook]

    @property
    def sides(self) -> list[str]:
        """Names, ours first; none where nothing was noted."""
        return list(self.looks[0].counts) if self.looks else []

    def arrived(self, side: str, model: str) -> float:
        """Requests that came."""
        return self._last(side, model).arrived - self._first(side, model).arrived

    def late(self, side: str, model: str) -> float:
        """Requests that were late; of a model without an SLO, those that gave up."""
        return self._last(side, model).late - self._first(side, model).late

    def gave_up(self, side: str, model: str) -> float:
        """Requests whose client went away before an answer."""
        return self._last(side, model).gave_up - self._first(side, model).gave_up

    def longest_queue(self, side: str) -> float:
        """The most requests that waited at one look, of all models together."""
        return max((_waiting(look.counts[side]) for look in self.looks), default=0.0)

    def rented(self, side: str) -> float:
        """GPUs of nodes that Karpenter brought, on the average over time; 0 without two looks."""
        spans = [(after.at - before.at, before.rented[side]) for before, after in pairwise(self.looks)]
        seconds = sum(each for each, _ in spans)
        return sum(each * gpus for each, gpus in spans) / seconds if seconds else 0.0

    def late_by(self, side: str, columns: int) -> list[float]:
        """Requests that became late in each of so many equal pieces of the stretch."""
        sums = [(look.at, sum(count.late for count in look.counts[side].values())) for look in self.looks]
        edges = self._edges(columns)
        ends = [max((late for at, late in sums if at <= edge), default=sums[0][1]) for edge in edges]
        return [after - before for before, after in pairwise(ends)]

    def waiting_by(self, side: str, columns: int) -> list[float]:
        """The most requests that waited in each of so many equal pieces; of an empty piece, what the one before had."""
        edges, values = self._edges(columns), list[float]()
        for since, until in pairwise(edges):
            inside = [_waiting(look.counts[side]) for look in self.looks if since < look.at <= until]
            values.append(max(inside, default=values[-1] if values else 0.0))
        return values

    def _edges(self, columns: int) -> list[float]:
        begin, end = self.looks[0].at, self.looks[-1].at
        return [begin + (end - begin) * step / columns for step in range(columns)] + [end]

    def _first(self, side: str, model: str) -> Count:
        return self.looks[0].counts[side][model]

    def _last(self, side: str, model: str) -> Count:
        return self.looks[-1].counts[side][model]


def _waiting(counts: Mapping[str, Count]) -> float:
    return sum(count.waiting for count in counts.values())
