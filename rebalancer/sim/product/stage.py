"""The cluster of a scenario: its nodes, Deployments whose pods are all Ready at second 0, and what is noted.

Each model has a Deployment for the primary pool and, where there is an elastic pool, one for that too, without replicas
at first. Karpenter has the elastic nodes: it brings them (`Scenario.launches`), or their number is the cloud's alone.
"""

from collections.abc import Callable
from math import ceil
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rebalancer.domain.policy import Policy, Pool
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.sim.demand import F64
from rebalancer.sim.product.fluid import FluidService
from rebalancer.sim.product.machines import Machines
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import ELASTIC, PRIMARY, Scenario, ScenarioModel
from rebalancer.world import Deployment, ServedModel, World
from rebalancer.world.slots import Slots

STARTED_AT = 1_800_000_000.0
STEP_SECONDS = 1.0
GRACE_SECONDS = 30


class RecordedService(ServedModel, Protocol):
    """A service model that keeps what a `Record` needs. Arrays have the shape (seconds,).

    wait: seconds that each second's arrivals waited.
    late: requests of each second's arrivals that broke the SLO.
    lost: requests of each second's arrivals that were turned away, or that did not wait.
    left: backlog at the end of each second, in replica-seconds.
    """

    wait: F64
    late: F64
    lost: F64
    left: F64


Serve = Callable[[ScenarioModel, float, int], RecordedService]
"""Makes the service of one model: the model, when its first second begins, how many seconds there are."""


class Stage:
    """The world of one run, at the beginning of second 0; `note` keeps each second to the last, `record` is what came.

    `desired`: shape (models, seconds), the replicas that its Deployments were asked for together; `desired_in`: shape
    (pools, models, seconds), each for itself. `deployments`: one a model, on the primary pool; `elastic`: on the other.
    """

    def __init__(  # noqa: PLR0913  # what a run is made of
        self,
        scenario: Scenario,
        policy: Policy,
        seed: int = 0,
        serve: Serve = FluidService,
        scrape_seconds: float = 5.0,
        lag_seconds: float = 1.0,
        slots: Slots | None = None,
    ) -> None:
        self.scenario = scenario
        lead = scrape_seconds * ceil((max(model.start_seconds for model in scenario.models) + 1) / scrape_seconds)
        self.world = World(
            STARTED_AT - lead,
            seed=seed,
            step_seconds=STEP_SECONDS,
            interval_seconds=scrape_seconds,
            delay_seconds=lag_seconds,
            load_jitter=0.0,
            slots=slots,
        )
        pools = _pools(scenario, policy)
        for number, gpus in enumerate(scenario.nodes[: len(scenario.nodes) - scenario.elastic], 1):
            self.world.add_node(f"node-{number}", gpus, pools[PRIMARY].node_labels, pools[PRIMARY].resource)
        self.machines = Machines(scenario, pools[ELASTIC], self.world, STARTED_AT) if scenario.has_elastic else None
        self.services = {model.name: serve(model, STARTED_AT, scenario.seconds) for model in scenario.models}
        for name, service in self.services.items():
            self.world.add_service(name, service)
        self.deployments = tuple(self._deployment(model, policy, pools[PRIMARY]) for model in scenario.models)
        self.elastic = tuple(self._deployment(model, policy, pool) for pool in pools[1:] for model in scenario.models)
        self.world.advance(STARTED_AT)
        self._already = self.world.starts, self.world.stops
        self.desired_in = np.zeros((len(pools), len(scenario.models), scenario.seconds), np.int32)
        self._last_desired = [deployment.replicas for deployment in self.deployments]
        self._ready = np.zeros((len(scenario.models), scenario.seconds), np.int32)
        self._gpus = np.zeros(scenario.seconds, np.int32)
        self._primary_gpu_seconds = self._elastic_gpu_seconds = 0
        self._held_now = 0, 0
        self._noted_at, self._noted = -1, 0
        self._floor_breaches = 0

    @property
    def desired(self) -> NDArray[np.int32]:
        """Replicas asked for of each model."""
        desired: NDArray[np.int32] = self.desired_in.sum(axis=0, dtype=np.int32)
        return desired

    def _deployment(self, model: ScenarioModel, policy: Policy, pool: Pool) -> Deployment:
        of = next((each for each in policy.models if each.id == model.name), None)
        if of is None:
            raise ValueError(f"the policy has no model {model.name}; it has {', '.join(m.id for m in policy.models)}")
        target = next((each for each in of.targets if each.pool == pool.name), None)
        if target is None:
            raise ValueError(f"the policy's model {model.name} has no target in the pool {pool.name}")
        return self.world.add_deployment(
            model.name,
            WorkloadRef(of.namespace, target.kind, target.name),
            model.first if pool is policy.pools[0] else 0,
            model.gpus,
            node_selector=pool.node_labels,
            load_seconds=model.start_seconds,
            stop_seconds=model.release_seconds,
            grace_seconds=max(GRACE_SECONDS, model.release_seconds),
        )

    def note(self, second: int) -> None:
        """Keep what is true while that second passes."""
        if self._noted_at != self.world.changed:  # in one of ten
            self._noted_at = self.world.changed
            self._repeat_until(second)
            self._note_anew(second)
        elif second == self.scenario.seconds - 1:
            self._repeat_until(second + 1)
        self._primary_gpu_seconds += self._held_now[PRIMARY]
        self._elastic_gpu_seconds += self._held_now[ELASTIC]

    def _repeat_until(self, second: int) -> None:
        """What was noted last was true until then: three calls of numpy a second cost more than the second's world."""
        last = self._noted
        for rows in (self._gpus, self._ready, self.desired_in):
            rows[..., last + 1 : second] = rows[..., last : last + 1]

    def _note_anew(self, second: int) -> None:
        self._noted = second
        self._gpus[second] = held = self.world.gpus_held
        elastic = 0 if self.machines is None else self.machines.gpus_held
        self._held_now = held - elastic, elastic
        for index, deployment in enumerate(self.deployments):
            self._ready[index, second] = len(self.world.ready_pods(deployment.model))
            self.desired_in[PRIMARY, index, second] = desired = deployment.replicas
            if self.elastic:
                self.desired_in[ELASTIC, index, second] = self.elastic[index].replicas
                desired += self.elastic[index].replicas
            if desired != self._last_desired[index]:
                self._last_desired[index] = desired
                self._floor_breaches += desired < self.scenario.models[index].floor

    def record(self, controller: str) -> Record:
        """What happened so far."""
        services = [self.services[model.name] for model in self.scenario.models]
        machines = self.machines
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
            lost_in_flight=machines.lost_in_flight(self.services) if machines and self.scenario.changes else None,
            usd=self._usd(machines) if machines else None,
        )

    def _usd(self, machines: Machines) -> float:
        """What GPUs cost so far."""
        elastic = machines.paid_gpu_seconds if self.scenario.launches else self._elastic_gpu_seconds
        usd = self._primary_gpu_seconds * self.scenario.usd_per_gpu_hour
        return (usd + elastic * self.scenario.elastic_usd_per_gpu_hour) / 3600


def _pools(scenario: Scenario, policy: Policy) -> tuple[Pool, ...]:
    """The policy's pool for the primary nodes, and the one for the elastic nodes where there are such."""
    kinds = ("primary", "elastic") if scenario.has_elastic else (policy.pools[0].kind,)
    pools = policy.pools[: len(kinds)]
    if tuple(pool.kind for pool in pools) != kinds:
        raise ValueError("the scenario has an elastic pool: the policy's first pool is primary, its second elastic")
    return pools
