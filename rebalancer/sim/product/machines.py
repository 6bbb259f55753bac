"""The elastic nodes of a scenario in the full world: machines that go and come, or that Karpenter brings."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle

from rebalancer.domain.policy import Pool
from rebalancer.sim.product.fluid import FluidService
from rebalancer.sim.scenario import NodeChange, Scenario
from rebalancer.world import World

Deed = Callable[[], None]
NODE_POOL = "elastic"
BEFORE_SECONDS = 0.5  # a deed entered so long before its second comes after that second's requests


class Machines:
    """Enters the scenario's changes into the world's future; knows who died with a machine.

    A machine that is announced is interrupted as the cloud does it, which the service and Karpenter hear; one that is
    not is lost. `started_at`: the beginning of second 0.
    """

    def __init__(self, scenario: Scenario, pool: Pool, world: World, started_at: float) -> None:
        self._scenario = scenario
        self._world = world
        self._claims: dict[int, str] = {}  # of the nodes that there are, by place
        self._launched = 0
        self._died: list[tuple[int, str]] = []  # second and model, a replica each
        launches = scenario.launches
        if launches is None:
            self._pool = world.add_node_pool(
                NODE_POOL, 1, pool.node_labels, 0.0, limit=0, capacity_type=pool.capacity_type
            )
        else:
            self._pool = world.add_node_pool(
                NODE_POOL,
                launches.gpus,
                pool.node_labels,
                0.0,
                limit=launches.gpus * launches.most,
                capacity_type=pool.capacity_type,
                orders=cycle(launches.took),
                rest_seconds=launches.rest_seconds,
                empty_seconds=launches.empty_seconds,
            )
        self._enter(started_at)

    def _enter(self, started_at: float) -> None:
        primary = len(self._scenario.nodes) - self._scenario.elastic
        there = set(range(primary, len(self._scenario.nodes)))
        for change in self._scenario.changes:
            at = started_at + change.second
            if change.second <= 0:
                (there.add if change.gpus else there.discard)(change.node)
            elif change.gpus:
                self._after_requests(at, partial(self._come, change.node))
            else:
                self._after_requests(at, partial(self._go, change), partial(self._note, change))
                if change.notice_seconds:
                    self._after_requests(at - change.notice_seconds, partial(self._announce, change, at))
        for node in sorted(there):
            self._come(node)

    def _after_requests(self, at: float, deed: Deed, before: Deed | None = None) -> None:
        """Do `deed` when the second that ends at `at` has been served, and `before` within it."""

        def enter() -> None:
            if before is not None:
                before()
            self._world.at(at, deed)

        self._world.at(at - BEFORE_SECONDS, enter)

    def _come(self, node: int) -> None:
        self._launched += 1
        self._claims[node] = self._world.launch(NODE_POOL, f"{node:03}-{self._launched}")

    def _announce(self, change: NodeChange, deadline: float) -> None:
        claim = self._claims.get(change.node)
        if claim in self._world.node_claims:
            self._world.interrupt(str(claim), deadline)

    def _note(self, change: NodeChange) -> None:
        """Who is about to die with the machine."""
        node = self._world.nodes.get(self._claims.get(change.node, ""))
        for pod in node.pods.values() if node is not None else ():
            if pod.ready:
                self._died.append((change.second, pod.owner.model))

    def _go(self, change: NodeChange) -> None:
        claim = self._claims.pop(change.node, None)
        if claim in self._world.node_claims:
            self._world.lose(str(claim))

    @property
    def gpus_held(self) -> int:
        """GPUs that pods hold on these nodes."""
        return sum(claim.node.used for claim in self._pool.claims.values() if claim.node is not None)

    @property
    def paid_gpu_seconds(self) -> float:
        """GPU-seconds of the nodes there were, each from its order to its end."""
        return self._pool.gpu_seconds(self._world.now)

    def lost_in_flight(self, services: Mapping[str, object]) -> float | None:
        """Requests that died with their replica's machine; None where a service does not say how busy it was."""
        models = {model.name: model for model in self._scenario.models}
        lost = 0.0
        for second, name in self._died:
            service = services[name]
            if not isinstance(service, FluidService):
                return None
            served_by = service.served_by[second - 1]
            share = float(service.busy[second - 1] / served_by) if served_by else 0.0
            lost += models[name].in_hand(share)
        return lost
