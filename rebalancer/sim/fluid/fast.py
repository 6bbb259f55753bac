"""The fast path: a fleet and the compiled fluid service, advanced from decision to decision."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from rebalancer.sim.controller import Controller, Seen
from rebalancer.sim.fluid.deferred import finished
from rebalancer.sim.fluid.fleet import NEVER, Fleet
from rebalancer.sim.fluid.karpenter import DRAIN_AFTER_SECONDS, FluidKarpenter
from rebalancer.sim.fluid.serving import serve
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import ELASTIC, PRIMARY, NodeChange, Scenario


@runtime_checkable
class ByPool(Protocol):
    """A controller that has a Deployment for each pool."""

    def decide_by_pool(self, seen: Seen) -> Sequence[tuple[int, int]]:
        """Replicas asked for on the primary and on the elastic pool, by model."""
        ...


class FastWorld:
    """One scenario under way. Ask it for replicas at its `now`; what came of it is its `record`.

    `split`: each model has a Deployment for the primary pool, with what it begins with, and one for the elastic pool.
    """

    def __init__(self, scenario: Scenario, delay_seconds: int = 0, *, split: bool = False) -> None:
        shape = len(scenario.models), scenario.seconds
        self._scenario = scenario
        self._wait, self._late, self._lost, self._busy, self._left, self._served_by = (
            np.zeros(shape) for _ in range(6)
        )
        self._gpus = np.zeros(scenario.seconds, np.int32)
        self._backlog = [0.0] * len(scenario.models)
        self._floor_breaches = 0
        self._usd = 0.0
        self._lost_in_flight = 0.0
        self._deeds = self._agenda()
        self.fleet = Fleet(scenario.models, list(scenario.nodes), scenario.by_model, list(scenario.pool_of), split)
        self._karpenter = FluidKarpenter(scenario.launches, self.fleet) if scenario.launches else None
        self.seen = Seen(
            scenario,
            0,
            delay_seconds,
            work=np.stack([model.work[: scenario.seconds] for model in scenario.models]),
            requests=np.stack([model.requests[: scenario.seconds] for model in scenario.models]),
            busy=self._busy,
            served_by=self._served_by,
            left=self._left,
            wait=self._wait,
            desired=self.fleet.desired,
            ready=self.fleet.ready,
            loading=self.fleet.loading,
            waiting=self.fleet.waiting,
        )
        self._live(0)

    @property
    def now(self) -> int:
        """The second that begins."""
        return self.seen.now

    def ask(self, model: int, replicas: int, pool: int | None = None) -> None:
        """Ask for that many replicas of its Deployment for that pool; less than the floor in all counts as a breach."""
        fleet = self.fleet
        before = fleet.desired[model] if pool is None else fleet.desired_in(pool)[model]
        if replicas != before:
            self._floor_breaches += fleet.desired[model] - before + replicas < self._scenario.models[model].floor
            fleet.ask(model, replicas, pool)

    def ask_by_pool(self, model: int, replicas: tuple[int, int]) -> None:
        """The same of both Deployments: what is more first."""
        before = [self.fleet.desired_in(pool)[model] for pool in (PRIMARY, ELASTIC)]
        for pool in sorted((PRIMARY, ELASTIC), key=lambda pool: before[pool] - replicas[pool]):
            self.ask(model, replicas[pool], pool)

    def advance(self, until: int) -> None:
        """Live through the seconds up to `until`."""
        while self.now < until:
            begin = self.now
            self._live(begin)
            end = min(until, self._next_event)
            self._serve(begin, end)
            self.seen.now = end
        self.fleet.advance(until)  # what is asked for now begins now, not when the fleet last moved
        if self.fleet.split:
            self.seen.ready_elastic[:] = self.fleet.ready_in(ELASTIC)

    def _agenda(self) -> list[tuple[int, Callable[[int], None]]]:
        """What machines that go and come do, and when; the last first."""
        deeds: list[tuple[int, Callable[[int], None]]] = []
        for change in self._scenario.changes:
            deeds.append((change.second, partial(self._change, change)))
            if change.notice_seconds > DRAIN_AFTER_SECONDS:
                at = max(0, change.second - change.notice_seconds) + DRAIN_AFTER_SECONDS
                deeds.append((at, partial(self._drain, change)))
        return sorted(deeds, key=lambda deed: deed[0])[::-1]

    def _live(self, now: int) -> None:
        """Everything that happens at the beginning of that second."""
        self.fleet.advance(now)
        while self._deeds and self._deeds[-1][0] <= now:
            self._deeds.pop()[1](now)
        if self._karpenter is not None:
            self._karpenter.advance(now)

    @property
    def _next_event(self) -> int:
        deed = self._deeds[-1][0] if self._deeds else NEVER
        return min(self.fleet.next_event, deed, self._karpenter.next_event if self._karpenter else NEVER)

    def _drain(self, change: NodeChange, now: int) -> None:
        self.fleet.drain(change.node)
        self.fleet.advance(now)
        self._offer(change.node, 0)

    def _offer(self, node: int, gpus: int) -> None:
        """Who looks at the nodes sees those that are there."""
        nodes = self.seen.scenario.nodes
        self.seen.scenario = replace(self.seen.scenario, nodes=(*nodes[:node], gpus, *nodes[node + 1 :]))

    def _change(self, change: NodeChange, now: int) -> None:
        """The machine is another one; what was in service on replicas that die with it is lost."""
        for index, died in enumerate(self.fleet.become(change.node, change.gpus)):
            if died and now:
                served_by = self._served_by[index, now - 1]
                share = self._busy[index, now - 1] / served_by if served_by else 0.0
                self._lost_in_flight += died * self._scenario.models[index].in_hand(float(share))
        self.fleet.advance(now)
        self._offer(change.node, change.gpus)

    def _serve(self, begin: int, end: int) -> None:
        self._gpus[begin:end] = self.fleet.used
        if self._scenario.has_elastic:
            primary, elastic = self.fleet.used_in
            usd_per_hour = primary * self._scenario.usd_per_gpu_hour
            if not self._karpenter:
                usd_per_hour += elastic * self._scenario.elastic_usd_per_gpu_hour
            self._usd += (end - begin) / 3600 * usd_per_hour
        for index, model in enumerate(self._scenario.models):
            ready = self.fleet.ready[index]
            self._served_by[index, begin:end] = ready
            self._backlog[index] = serve(
                model.work,
                model.requests,
                begin,
                end,
                self._backlog[index],
                ready,
                model.slo_wait_seconds,
                model.headroom_seconds,
                model.patience_seconds,
                model.queue_base,
                model.queue_per_replica,
                self._wait[index],
                self._late[index],
                self._lost[index],
                self._busy[index],
                self._left[index],
            )

    def _judge_deferred(self) -> None:
        """Counts what was late of models with a deadline, which is known only now."""
        for index, model in enumerate(self._scenario.models):
            if model.deferred:
                self._wait[index], self._late[index] = finished(model, self._busy[index], self._lost[index])

    def record(self, controller: str) -> Record:
        """What happened so far."""
        self._judge_deferred()
        launched = self._karpenter.gpu_seconds(self.now) if self._karpenter else 0
        return Record(
            self._scenario,
            controller,
            wait=self._wait,
            late=self._late,
            lost=self._lost,
            left=self._left,
            ready=self._served_by.astype(np.int32),
            gpus=self._gpus,
            starts=self.fleet.starts,
            stops=self.fleet.stops,
            floor_breaches=self._floor_breaches,
            lost_in_flight=self._lost_in_flight if self._scenario.changes else None,
            usd=self._usd + launched / 3600 * self._scenario.elastic_usd_per_gpu_hour
            if self._scenario.has_elastic
            else None,
        )


def play(scenario: Scenario, controller: Controller, name: str, delay_seconds: int = 0) -> Record:
    """One run from the first second to the last; the controller's first word comes after its first interval."""
    world = world_for(scenario, controller, delay_seconds)
    live(world, controller, scenario.seconds)
    return world.record(name)


def world_for(scenario: Scenario, controller: Controller, delay_seconds: int = 0) -> FastWorld:
    """At its first second, with the Deployments that the controller knows."""
    split = scenario.has_elastic and isinstance(controller, ByPool)
    return FastWorld(scenario, delay_seconds, split=split)


def live(world: FastWorld, controller: Controller, until: int) -> None:
    """Go on to second `until`: the controller's interval that begins before it is cut off there at the end only."""
    scenario = world.seen.scenario
    by_pool = controller if scenario.has_elastic and isinstance(controller, ByPool) else None
    while world.now < until:
        if world.now and by_pool is not None:
            for model, both in enumerate(by_pool.decide_by_pool(world.seen)):
                world.ask_by_pool(model, both)
        elif world.now:
            for model, replicas in enumerate(controller.decide(world.seen)):
                world.ask(model, replicas)
        world.advance(min(scenario.seconds, world.now + controller.every_seconds))
