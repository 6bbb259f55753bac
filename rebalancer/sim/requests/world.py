"""The request-level world: a fleet, a head per job, and every request simulated."""

from dataclasses import dataclass

import numpy as np

from rebalancer.sim.controller import Controller, Seen
from rebalancer.sim.demand import F64
from rebalancer.sim.fluid.fleet import Fleet
from rebalancer.sim.record import Record
from rebalancer.sim.requests.arrivals import Arrivals
from rebalancer.sim.requests.head import Head
from rebalancer.sim.requests.minutes import Minutes
from rebalancer.sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class RequestScenario:
    """A scenario with every request of its models.

    scenario: what a controller sees and moves.
    jobs: the requests that each model gets, in the scenario's order.
    seed: seed from which the requests were drawn.
    slo_seconds: seconds from its arrival to its answer above which a request is late.
    ongoing_limit: requests that one replica holds at most, the one that it serves included.
    queue_limit: limit of a head's queue, in requests: it holds one more, another is in the dispatcher's hand, and the
        next is turned away.
    """

    scenario: Scenario
    jobs: tuple[Arrivals, ...]
    seed: int
    slo_seconds: float
    ongoing_limit: int
    queue_limit: int


@dataclass(slots=True, kw_only=True)
class RequestSeen(Seen):
    """What a head's metrics show besides, by the second of the answer; arrays of shape (jobs, seconds).

    `answered` counts requests, those turned away included; `latencies` sums their seconds. `wait` is here the mean
    wait of those answered in a second (turned away: 0), since nobody can see the wait of one that is not.
    """

    answered: F64
    latencies: F64

    def latency_seconds(self, model: int, seconds: int) -> float | None:
        """Mean latency of what was answered or turned away in the last `seconds`; None when nothing was."""
        answered = float(np.add.reduce(self.window(self.answered, model, seconds)))
        return float(np.add.reduce(self.window(self.latencies, model, seconds))) / answered if answered else None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A run: by second (`record`, its `late` and `lost` by second of arrival), and by minute of arrival."""

    record: Record
    minutes: Minutes

    @property
    def lost_utility(self) -> float:
        """Jobs less the sum of their mean utilities."""
        return self.minutes.lost_utility


class RequestWorld:
    """One scenario under way; drive it as `fast.FastWorld`."""

    def __init__(self, requests: RequestScenario, delay_seconds: int = 0) -> None:
        scenario = requests.scenario
        rows = np.zeros((5, len(scenario.models), scenario.seconds))
        busy, self._left, answered, latencies, wait = rows
        self._requests = requests
        self._heads = [
            Head(job, rows[:, index], scenario.gpus, requests.ongoing_limit, requests.queue_limit)
            for index, job in enumerate(requests.jobs)
        ]
        self._served_by = np.zeros((len(scenario.models), scenario.seconds))
        self._gpus = np.zeros(scenario.seconds, np.int32)
        self._floor_breaches = 0
        self.fleet = Fleet(scenario.models, list(scenario.nodes), scenario.by_model)
        self.seen = RequestSeen(
            scenario,
            0,
            delay_seconds,
            work=np.stack([model.work[: scenario.seconds] for model in scenario.models]),
            requests=np.stack([model.requests[: scenario.seconds] for model in scenario.models]),
            busy=busy,
            served_by=self._served_by,
            left=self._left,
            wait=wait,
            desired=self.fleet.desired,
            ready=self.fleet.ready,
            loading=self.fleet.loading,
            waiting=self.fleet.waiting,
            answered=answered,
            latencies=latencies,
        )

    @property
    def now(self) -> int:
        """The second that begins."""
        return self.seen.now

    def ask(self, model: int, replicas: int) -> None:
        """Ask for that many replicas; a number under the floor is counted as a breach and carried out."""
        self._floor_breaches += self.fleet.want(model, replicas)

    def advance(self, until: int) -> None:
        """Live through the seconds up to `until`."""
        while self.now < until:
            begin = self.now
            self.fleet.advance(begin)
            end = min(until, self.fleet.next_event)
            self._live(begin, end)
            self.seen.now = end
        self.fleet.advance(until)  # what is asked for now begins now, not when the fleet last moved

    def _live(self, begin: int, end: int) -> None:
        self._gpus[begin:end] = self.fleet.used
        for job, head in enumerate(self._heads):
            head.resize(self.fleet.ready[job])
            head.live(begin, end)
            self._served_by[job, begin:end] = head.replicas

    def finish(self, controller: str) -> RequestRecord:
        """Answer what is still inside with the replicas there are, and sum up."""
        scenario, slo = self._requests.scenario, self._requests.slo_seconds
        shape = len(scenario.models), scenario.seconds
        wait, late, lost = (np.zeros(shape) for _ in range(3))
        minutes = []
        for job, head in enumerate(self._heads):
            head.live(self.now, float("inf"))
            wait[job], late[job], lost[job] = head.by_second(scenario.seconds, slo)
            minutes.append(head.by_minute(slo))
        record = Record(
            scenario,
            controller,
            wait=wait,
            late=late,
            lost=lost,
            left=self._left,
            ready=self._served_by.astype(np.int32),
            gpus=self._gpus,
            starts=self.fleet.starts,
            stops=self.fleet.stops,
            floor_breaches=self._floor_breaches,
        )
        return RequestRecord(record, Minutes.of(minutes, slo))


def play_requests(
    requests: RequestScenario, controller: Controller, name: str, delay_seconds: int = 0
) -> RequestRecord:
    """One run from the first second to the last; the controller's first word comes after its first interval."""
    world = RequestWorld(requests, delay_seconds)
    seconds = requests.scenario.seconds
    while world.now < seconds:
        if world.now:
            for model, replicas in enumerate(controller.decide(world.seen)):
                world.ask(model, replicas)
        world.advance(min(seconds, world.now + controller.every_seconds))
    return world.finish(name)
