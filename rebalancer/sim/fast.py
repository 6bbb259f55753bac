"""The fast path: a fleet and the compiled fluid service, advanced from decision to decision."""

import numpy as np

from rebalancer.sim.controller import Controller, Seen
from rebalancer.sim.fleet import NEVER, Fleet
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.serving import serve


class FastWorld:
    """One scenario under way. Ask it for replicas at its `now`; what came of it is its `record`."""

    def __init__(self, scenario: Scenario, delay_seconds: int = 0) -> None:
        shape = len(scenario.models), scenario.seconds
        self._scenario = scenario
        self._wait, self._late, self._lost, self._busy, self._left, self._served_by = (
            np.zeros(shape) for _ in range(6)
        )
        self._gpus = np.zeros(scenario.seconds, np.int32)
        self._backlog = [0.0] * len(scenario.models)
        self._floor_breaches = 0
        self._changed = 0  # of the scenario's changes
        self.fleet = Fleet(scenario.models, list(scenario.nodes), scenario.by_model)
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
            asked=self.fleet.asked,
            ready=self.fleet.ready,
            loading=self.fleet.loading,
            waiting=self.fleet.waiting,
        )

    @property
    def now(self) -> int:
        """The second that begins."""
        return self.seen.now

    def ask(self, model: int, replicas: int) -> None:
        """That many replicas are wanted; a number under the floor is counted as a breach and carried out."""
        self._floor_breaches += replicas < self._scenario.models[model].floor
        if replicas != self.fleet.asked[model]:
            self.fleet.ask(model, replicas)

    def advance(self, until: int) -> None:
        """Live through the seconds up to `until`."""
        while self.now < until:
            begin = self.now
            self.fleet.advance(begin)
            changes_at = self._change(begin)
            end = min(until, self.fleet.next_event, changes_at)
            self._serve(begin, end)
            self.seen.now = end
        self.fleet.advance(until)  # what is asked for now begins now, not when the fleet last moved

    def _change(self, now: int) -> int:
        """Machines go and come as the scenario says; the second in which they do so next."""
        changes = self._scenario.changes
        while self._changed < len(changes) and changes[self._changed].second <= now:
            change = changes[self._changed]
            self.fleet.lose(change.node, change.gpus)
            self.fleet.advance(now)
            self._changed += 1
        return changes[self._changed].second if self._changed < len(changes) else NEVER

    def _serve(self, begin: int, end: int) -> None:
        self._gpus[begin:end] = self.fleet.used
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

    def record(self, controller: str) -> Record:
        """What happened so far."""
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
        )


def play(scenario: Scenario, controller: Controller, name: str, delay_seconds: int = 0) -> Record:
    """One run from the first second to the last; the controller's first word comes after its first interval."""
    world = FastWorld(scenario, delay_seconds)
    while world.now < scenario.seconds:
        if world.now:
            for model, replicas in enumerate(controller.decide(world.seen)):
                world.ask(model, replicas)
        world.advance(min(scenario.seconds, world.now + controller.every_seconds))
    return world.record(name)
