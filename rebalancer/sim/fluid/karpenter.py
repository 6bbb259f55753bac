"""Nodes that Karpenter brings for the waiting pods of a fleet, and takes when they are empty: the fast path's."""

from rebalancer.sim.fluid.fleet import NEVER, Fleet
from rebalancer.sim.scenario import ELASTIC, Launches

BATCH_SECONDS = 1  # it waits this long for more pending pods before it launches
DRAIN_AFTER_SECONDS = 2  # from a cloud's notice to the first eviction
NO_CAPACITY_AFTER_SECONDS = 3  # from the order to the cloud's refusal; the claim goes as long after that


class FluidKarpenter:
    """Looks at what waits a batch after it came, as `rebalancer.world.karpenter` does by the second."""

    def __init__(self, launches: Launches, fleet: Fleet) -> None:
        self._launches = launches
        self._fleet = fleet
        self._orders = 0
        self._look_at = NEVER
        self._known = 0  # pods that had waited when it looked last
        self._rests_until = 0
        self._coming: list[int] = []  # when their nodes come
        self._refused: list[int] = []  # when their claims go
        self._ordered_at: dict[int, int] = {}  # of the nodes there are
        self._due: dict[int, list[int]] = {}  # when nodes come: when they were ordered
        self._empty_since: dict[int, int] = {}
        self._paid_seconds = 0

    @property
    def next_event(self) -> int:
        """The second in which it does something by itself, NEVER when there is nothing to do."""
        empty = [since + self._launches.empty_seconds for since in self._empty_since.values()]
        return min((self._look_at, *self._coming, *self._refused, *empty), default=NEVER)

    def advance(self, now: int) -> None:
        """What is due at `now`, in a fleet that is as far."""
        self._refused = [at for at in self._refused if at > now]
        self._register(now)
        self._take_empty(now)
        if self._look_at <= now:
            self._look_at = self._provision(now)
        if self._fleet.queue and self._fleet.queued != self._known:
            self._look_at = min(self._look_at, now + BATCH_SECONDS)

    def gpu_seconds(self, now: int) -> int:
        """GPU-seconds that were paid for so far: of each node from its order on."""
        under_way = [*self._ordered_at.values(), *(at for ordered in self._due.values() for at in ordered)]
        return self._launches.gpus * (self._paid_seconds + sum(now - at for at in under_way))

    def _register(self, now: int) -> None:
        for at in [at for at in self._coming if at <= now]:
            self._coming.remove(at)
            node = self._fleet.add(self._launches.gpus, ELASTIC)
            self._ordered_at[node] = self._due[at].pop(0)
        self._fleet.advance(now)

    def _take_empty(self, now: int) -> None:
        for node in tuple(self._ordered_at):
            if self._fleet.holds(node):
                self._empty_since.pop(node, None)
            elif now - self._empty_since.setdefault(node, now) >= self._launches.empty_seconds:
                self._fleet.remove(node)
                del self._empty_since[node]
                self._paid_seconds += now - self._ordered_at.pop(node)

    def _provision(self, now: int) -> int:
        """Order what the waiting pods need beyond what is on its way; when to look again though nobody new waits."""
        self._known = self._fleet.queued
        size = self._launches.gpus
        room = [size] * (len(self._coming) + len(self._refused))
        for pod in self._fleet.queue:
            gpus = self._fleet.models[pod.model].gpus
            if pod.pool not in {None, ELASTIC} or gpus > size:
                continue
            place = next((index for index, left in enumerate(room) if left >= gpus), None)
            if place is None:
                if now < self._rests_until:
                    return self._rests_until
                if len(self._ordered_at) + len(self._coming) + len(self._refused) >= self._launches.most:
                    return min(self._refused, default=NEVER)
                self._order(now)
                room.append(size)
                place = len(room) - 1
            room[place] -= gpus
        return min(self._refused, default=NEVER)

    def _order(self, now: int) -> None:
        took = self._launches.took[self._orders % len(self._launches.took)]
        self._orders += 1
        if took is None:
            refused_at = now + NO_CAPACITY_AFTER_SECONDS
            self._refused.append(refused_at + NO_CAPACITY_AFTER_SECONDS)
            self._rests_until = refused_at + self._launches.rest_seconds
        else:
            self._coming.append(now + took)
            self._due.setdefault(now + took, []).append(now)
