"""A simulated cluster behind an embedded API at a hand-moved time, and clients that write there under their names."""

from collections.abc import Mapping

import aiohttp

from rebalancer.domain.policy import Policy
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.sandbox.api import EmbeddedKubernetes, Obj
from rebalancer.sandbox.oracle import Evidence
from rebalancer.sandbox.puppet import Puppet
from rebalancer.sandbox.witness import Witness
from rebalancer.world import World
from tests.builders import a_model, a_policy, a_pool, an_elastic_pool
from tests.sandbox.hand_clock import START, HandClock

SERVICE = "rebalancer"
DEPLOYMENTS = "/apis/apps/v1/namespaces/serving/deployments"
PODS = "/api/v1/namespaces/serving/pods"
NODEPOOLS = "/apis/karpenter.sh/v1/nodepools"
NODECLAIMS = "/apis/karpenter.sh/v1/nodeclaims"

MERGE = {"Content-Type": "application/merge-patch+json"}


def two_models_and_spot() -> Policy:
    """Models a and b with 2 GPUs per replica on 8 owned GPUs, floor 1, two replicas their own; c on a spot pool."""
    owned = {"gpus_per_replica": 2, "entitlement": 2}
    return a_policy(
        a_model("a", **owned),
        a_model("b", **owned),
        a_model("c", 0, pools=("spot",)),
        pools=(a_pool(gpus=8), an_elastic_pool(gpus=4, gpus_per_node=2)),
    )


class Cluster:
    """`step` lets time pass, `request` is a client's call; `world` holds two replicas of each model, all Ready."""

    def __init__(self, clock: HandClock, kubernetes: EmbeddedKubernetes, world: World) -> None:
        self.clock = clock
        self.kubernetes = kubernetes
        self.world = world
        self.policy = two_models_and_spot()
        self.puppet = Puppet(world, kubernetes.store)
        self.witness = Witness(kubernetes.store, self.policy, clock)

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.witness.facts, self.kubernetes.audit, self.policy, SERVICE)

    def step(self, seconds: float = 0.0) -> None:
        """What clients asked for is carried out now; then that time passes."""
        self.puppet.obey()
        self.clock.advance(seconds)
        self.world.advance(self.clock.now())
        self.puppet.show()

    async def request(
        self, method: str, path: str, body: Obj | None = None, user: str = SERVICE, headers: Mapping[str, str] = MERGE
    ) -> Obj:
        """One call of the API. Raises aiohttp.ClientResponseError."""
        login = {"Authorization": f"Bearer sandbox-{user}", **headers}
        async with aiohttp.ClientSession(self.kubernetes.url, headers=login, raise_for_status=True) as session:
            response = await session.request(method, path, json=body)
            answer: Obj = await response.json()
            return answer

    async def scale(self, name: str, replicas: int, user: str = SERVICE) -> None:
        """Write a Deployment's scale."""
        await self.request("PATCH", f"{DEPLOYMENTS}/{name}/scale", {"spec": {"replicas": replicas}}, user)

    async def get(self, path: str) -> Obj:
        """One object."""
        return await self.request("GET", path)


def a_world() -> World:
    """The policy's cluster, a minute old: a and b on `n1`, c on a spot node that it fills."""
    world = World(START - 60.0)
    world.add_node("n1", 8, {"pool": "a100"})
    world.add_node_pool("spot", 2, {"pool": "spot"}, launch_seconds=25.0, limit=2, nodes=1)
    for model, gpus, pool in (("a", 2, "a100"), ("b", 2, "a100"), ("c", 1, "spot")):
        world.add_deployment(
            model,
            WorkloadRef("serving", "Deployment", model),
            2,
            gpus,
            node_selector={"pool": pool},
            load_seconds=20.0,
            stop_seconds=4.0,
        )
    world.advance(START)
    return world
