"""The rules of a head simulated plainly: an agenda of events over lists, no rings and no caches."""

import heapq

from rebalancer.sim.requests.arrivals import Arrivals


class Replica:
    """`free_at`: when it is through with all that it `holds`."""

    def __init__(self) -> None:
        self.holds: list[int] = []
        self.free_at = 0.0


class Plain:
    """One job; `latency` is inf for who is turned away, NaN for who is never answered."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self.latency = [float("nan")] * len(arrivals.at)
        self.agenda: list[tuple[float, int, int, str, int]] = []  # when, rank, serial, what, and to which request
        self.lane: list[int] = []
        self.queue: list[int] = []
        self.pool: list[Replica] = []
        self.owner: dict[int, Replica] = {}
        self.refused: set[int] = set()
        self.back: set[int] = set()
        self.turn = 0

    def live(self, replicas: dict[int, int]) -> list[float]:
        """`replicas`: how many there are from a second on."""
        for at, count in replicas.items():
            self.later(at, "resize", count, rank=0)
        for request, at in enumerate(self.arrivals.at):
            self.later(float(at), "message", request)
        routing = False
        while self.agenda:
            now, _, _, what, which = heapq.heappop(self.agenda)
            if what == "routed":
                routing = False
                self.lane.pop(0)
            getattr(self, what)(now, which)
            if self.lane and not routing:
                routing = True
                first = self.lane[0]
                self.later(now + float(self.arrivals.route_seconds[first, int(first in self.back)]), "routed", first)
        return self.latency

    def later(self, when: float, what: str, which: int, rank: int = 1) -> None:
        heapq.heappush(self.agenda, (when, rank, len(self.agenda), what, which))

    def resize(self, now: float, count: int) -> None:
        if count != len(self.pool):
            self.pool = [*self.pool, *(Replica() for _ in range(count))][:count]
            self.turn = 0
        self.hand_out(now)

    def message(self, _now: float, request: int) -> None:
        self.lane.append(request)

    def done(self, now: float, request: int) -> None:
        self.owner[request].holds.remove(request)
        self.back.add(request)
        self.lane.append(request)
        self.hand_out(now)

    def routed(self, now: float, request: int) -> None:
        if request in self.back:
            refused = request in self.refused
            self.latency[request] = float("inf") if refused else now - float(self.arrivals.at[request])
        elif len(self.queue) > 51:
            self.refused.add(request)
            self.back.add(request)
            self.lane.append(request)
        else:
            self.queue.append(request)
            self.hand_out(now)

    def hand_out(self, now: float) -> None:
        while self.queue:
            order = [(self.turn + step) % len(self.pool) for step in range(len(self.pool))]
            free = [place for place in order if len(self.pool[place].holds) < 4]
            if not free:
                return
            self.turn = (free[0] + 1) % len(self.pool)
            replica, request = self.pool[free[0]], self.queue.pop(0)
            replica.free_at = max(now, replica.free_at) + float(self.arrivals.service_seconds[request])
            replica.holds.append(request)
            self.owner[request] = replica
            self.later(replica.free_at, "done", request)
