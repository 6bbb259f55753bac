"""A scenario played request by request: a fleet, and a line of requests with continuous batching per model.

Beside `FastWorld` it answers the same questions to the same controllers. Work is counted as the fluid form counts it,
so that signals mean the same: `busy` is what tokens that were computed cost there, `left` what those inside will.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.sim.batching.arrivals import BatchArrivals
from rebalancer.sim.batching.engines import Served
from rebalancer.sim.batching.line import BatchLine
from rebalancer.sim.controller import Controller, Seen
from rebalancer.sim.demand import F64, DemandStreams
from rebalancer.sim.fluid.fleet import Fleet, FluidPod
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario


@dataclass(slots=True, kw_only=True)
class SeenBatches(Seen):
    """`Seen`, and what engines show of themselves: (models, seconds) at each second's end, over all replicas.

    `running`, `queued`: requests; `kv_use`: share of the Ready replicas' caches in use. `wait` is that of the first
    tokens that came in the second, 0 where none came.
    """

    running: F64
    queued: F64
    kv_use: F64


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What came of one run; all but `preempted` and `simulated` count recorded requests.

    record: the run second by second; late is a first token more than the SLO after the request's own prefill, or none
        at all.
    slow: requests whose time per token missed its objective, by the second in which they came; shape (models, seconds).
    lost_in_flight: requests that were lost with their replica.
    preempted: how often a request was computed again because the cache was full.
    simulated: requests that were played, `Served.scale` for each recorded one.
    """

    record: Record
    slow: F64
    lost_in_flight: float
    preempted: int
    simulated: int


class BatchingWorld:
    """One scenario under way. `demand` has the streams of the scenario's models, `served` how each is served.

    A replica that is asked to go takes no more requests; what it has not finished when it is gone
    (`Model.release_seconds`) is lost in flight. Raises ValueError when streams and models do not match.
    """

    def __init__(
        self,
        scenario: Scenario,
        demand: DemandStreams,
        served: Sequence[Served],
        *,
        seed: int = 0,
        delay_seconds: int = 0,
    ) -> None:
        names = [model.name for model in scenario.models]
        if [stream.model for stream in demand.streams] != names or len(served) != len(names):
            raise ValueError(f"streams {[stream.model for stream in demand.streams]} are not those of models {names}")
        self._scenario = scenario
        self._served = served
        self._floor_breaches = 0
        self._gpus = np.zeros(scenario.seconds, np.int32)
        self._lines = [
            BatchLine(
                how,
                BatchArrivals(stream, scale=how.scale, spread=how.spread, seed=seed, model=index),
                scenario.seconds,
                patience_seconds=model.patience_seconds,
                slo_wait_seconds=model.slo_wait_seconds,
            )
            for index, (model, stream, how) in enumerate(zip(scenario.models, demand.streams, served, strict=True))
        ]
        self._places: list[dict[FluidPod, int]] = [{} for _ in names]
        self.fleet = Fleet(scenario.models, list(scenario.nodes), scenario.by_model)
        shape = len(names), scenario.seconds
        self.seen = SeenBatches(
            scenario,
            0,
            delay_seconds,
            work=np.stack([model.work[: scenario.seconds] for model in scenario.models]),
            requests=np.stack([model.requests[: scenario.seconds] for model in scenario.models]),
            busy=np.zeros(shape),
            served_by=np.zeros(shape),
            left=np.zeros(shape),
            wait=np.zeros(shape),
            desired=self.fleet.desired,
            ready=self.fleet.ready,
            loading=self.fleet.loading,
            waiting=self.fleet.waiting,
            running=np.zeros(shape),
            queued=np.zeros(shape),
            kv_use=np.zeros(shape),
        )

    @property
    def now(self) -> int:
        """The second that begins."""
        return self.seen.now

    def ask(self, model: int, replicas: int) -> None:
        """Want that many replicas from now on; a number under the floor is counted as a breach and carried out."""
        self._floor_breaches += self.fleet.want(model, replicas)

    def advance(self, until: int) -> None:
        """Live through the seconds up to `until`."""
        while self.now < until:
            begin = self.now
            self.fleet.advance(begin)
            end = min(until, self.fleet.next_event)
            self._gpus[begin:end] = self.fleet.used
            for index, line in enumerate(self._lines):
                self._follow(index, begin)
                line.live(begin, end)
                self._look(index, begin, end)
            self.seen.now = end
        self.fleet.advance(until)  # what is asked for now begins now, not when the fleet last moved

    def _follow(self, index: int, now: int) -> None:
        """Replicas of the line become those of the fleet."""
        line, places = self._lines[index], self._places[index]
        serving, ending = self.fleet.serving(index), self.fleet.ending(index)
        for pod in [pod for pod in places if pod not in serving]:
            if pod in ending:
                line.drain(places[pod])
            else:
                line.stop(places.pop(pod), float(now))
        for pod in serving:
            if pod not in places:
                places[pod] = line.start(float(now))

    def _look(self, index: int, begin: int, end: int) -> None:
        """What metrics show of the seconds [begin, end)."""
        seen, happened = self.seen, self._lines[index].state.seconds[begin:end]
        ready = self.fleet.ready[index]
        seen.served_by[index, begin:end] = ready
        seen.busy[index, begin:end] = happened["done"]
        seen.left[index, begin:end] = np.maximum(0.0, happened["queued"])
        seen.wait[index, begin:end] = happened["started_wait"] / np.maximum(1.0, happened["started"])
        seen.running[index, begin:end] = happened["running"]
        seen.queued[index, begin:end] = happened["waiting"]
        if ready:
            cache = ready * self._served[index].engine.kv_tokens
            seen.kv_use[index, begin:end] = np.minimum(1.0, happened["held"] / cache)

    def outcome(self, controller: str) -> BatchOutcome:
        """What happened so far; who still waits beyond the SLO is late."""
        happened = np.stack([line.state.seconds for line in self._lines])
        late, wait = happened["late"].copy(), happened["wait"].copy()
        for index, line in enumerate(self._lines):
            arrived = line.without_token()
            waited = self.now - arrived
            born = arrived.astype(np.int64)
            np.add.at(wait[index], born, waited)
            np.add.at(late[index], born, waited > self._scenario.models[index].slo_wait_seconds)
        came = np.maximum(1.0, happened["came"])
        recorded = self.seen.requests / came
        record = Record(
            self._scenario,
            controller,
            wait=wait / came,
            late=late * recorded,
            lost=happened["lost"] * recorded,
            left=self.seen.left,
            ready=self.seen.served_by.astype(np.int32),
            gpus=self._gpus,
            starts=self.fleet.starts,
            stops=self.fleet.stops,
            floor_breaches=self._floor_breaches,
        )
        return BatchOutcome(
            record,
            slow=happened["slow"] * recorded,
            lost_in_flight=sum(
                line.lost_in_flight / how.scale for line, how in zip(self._lines, self._served, strict=True)
            ),
            preempted=sum(line.preempted for line in self._lines),
            simulated=int(happened["came"].sum()),
        )


def play(  # noqa: PLR0913  # what is played, by whom, and how it is served
    scenario: Scenario,
    demand: DemandStreams,
    served: Sequence[Served],
    controller: Controller,
    name: str,
    *,
    seed: int = 0,
    delay_seconds: int = 0,
) -> BatchOutcome:
    """One run from the first second to the last; the controller's first word comes after its first interval."""
    world = BatchingWorld(scenario, demand, served, seed=seed, delay_seconds=delay_seconds)
    while world.now < scenario.seconds:
        if world.now:
            for model, replicas in enumerate(controller.decide(world.seen)):
                world.ask(model, replicas)
        world.advance(min(scenario.seconds, world.now + controller.every_seconds))
    return world.outcome(name)
