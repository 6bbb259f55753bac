"""The cluster of a scenario: its nodes, a Deployment a model with all its pods Ready at second 0, and what is noted."""

from collections.abc import Callable
from math import ceil
from typing import Protocol

import numpy as np

from rebalancer.domain.cluster import WorkloadRef
from rebalancer.domain.policy import Policy
from rebalancer.sim.demand import F64
from rebalancer.sim.product.fluid import FluidService
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Model, Scenario
from rebalancer.world import Deployment, Service, World

STARTED_AT = 1_800_000_000.0
STEP_SECONDS = 1.0
GRACE_SECONDS = 30


class Recorded(Service, Protocol):
    """A service model that keeps what a `Record` needs: arrays of shape (seconds,)."""

    wait: F64
    late: F64
    lost: F64
    left: F64


Serve = Callable[[Model, float, int], Recorded]
"""Makes the service of one model: the model, when its first second begins, how many seconds there are."""


class Stage:
    """The world of one run, at the beginning of second 0; `note` keeps each second, `record` is what came of it.

    `asked`: shape (models, seconds), the replicas that each Deployment was asked for.
    """

    def __init__(  # noqa: PLR0913  # what a run is made of
        self,
        scenario: Scenario,
        policy: Policy,
        seed: int = 0,
        serve: Serve = FluidService,
        scrape_seconds: float = 5.0,
        delay_seconds: float = 1.0,
    ) -> None:
        self.scenario = scenario
        lead = scrape_seconds * ceil((max(model.start_seconds for model in scenario.models) + 1) / scrape_seconds)
        self.world = World(
            STARTED_AT - lead,
            seed=seed,
            step_seconds=STEP_SECONDS,
            interval_seconds=scrape_seconds,
            delay_seconds=delay_seconds,
            load_jitter=0.0,
        )
        pool = policy.pools[0]
        for number, gpus in enumerate(scenario.nodes, 1):
            self.world.add_node(f"node-{number}", gpus, pool.node_labels, pool.resource)
        self.services = {model.name: serve(model, STARTED_AT, scenario.seconds) for model in scenario.models}
        for name, service in self.services.items():
            self.world.add_service(name, service)
        self.deployments = tuple(self._deployment(model, policy) for model in scenario.models)
        self.world.advance(STARTED_AT)
        self._already = self.world.starts, self.world.stops
        self.asked = np.zeros((len(scenario.models), scenario.seconds), np.int32)
        self._last_asked = [deployment.replicas for deployment in self.deployments]
        self._ready = np.zeros((len(scenario.models), scenario.seconds), np.int32)
        self._gpus = np.zeros(scenario.seconds, np.int32)
        self._floor_breaches = 0

    def _deployment(self, model: Model, policy: Policy) -> Deployment:
        of = next((each for each in policy.models if each.id == model.name), None)
        if of is None:
            raise ValueError(f"the policy has no model {model.name}; it has {', '.join(m.id for m in policy.models)}")
        return self.world.add_deployment(
            model.name,
            WorkloadRef(of.namespace, of.targets[0].kind, of.targets[0].name),
            model.first,
            model.gpus,
            node_selector=policy.pools[0].node_labels,
            load_seconds=model.start_seconds,
            stop_seconds=model.release_seconds,
            grace_seconds=max(GRACE_SECONDS, model.release_seconds),
        )

    def note(self, second: int) -> None:
        """Keep what is true while that second passes."""
        self._gpus[second] = self.world.gpus_held
        for index, deployment in enumerate(self.deployments):
            self._ready[index, second] = len(self.world.ready_pods(deployment.model))
            self.asked[index, second] = deployment.replicas
            if deployment.replicas != self._last_asked[index]:
                self._last_asked[index] = deployment.replicas
                self._floor_breaches += deployment.replicas < self.scenario.models[index].floor

    def record(self, controller: str) -> Record:
        """What happened so far."""
        services = [self.services[model.name] for model in self.scenario.models]
        return Record(
            self.scenario,
            controller,
            wait=np.stack([each.wait for each in services]),
            late=np.stack([each.late for each in services]),
            lost=np.stack([each.lost for each in services]),
            left=np.stack([each.left for each in services]),
            ready=self._ready,
            gpus=self._gpus,
            starts=self.world.starts - self._already[0],
            stops=self.world.stops - self._already[1],
            floor_breaches=self._floor_breaches,
        )
