"""Two roles of one model, prefill and decode, in the simulated cluster: their ratio holds at each write and each step.

The service's own state, planner and gate in virtual time, beside a third model that needs the same GPUs; pods fail,
and demand jumps to and fro by chance. What counts is what the targets ask for: read after every single write.
"""

import random

import pytest

from rebalancer.domain.couples import Couple, couples
from rebalancer.domain.policy import Policy
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kube.resources import Object, Ref
from rebalancer.world import World
from rebalancer.world.port import WorldPort
from tests.machine.service import Service
from tests.machine.worlds import NAMESPACE, STEP_SECONDS, ModelSpec, PoolSpec, WorldSpec, built, policy_of, rate_of

MINUTES = 20
PREFILL, DECODE, OTHER = "a", "b", "c"


class Port(WorldPort):
    """Keeps what both roles ask for after each write."""

    def __init__(self, world: World) -> None:
        super().__init__(world, lambda _ref: None)
        self._cluster = world
        self.roles: list[tuple[int, int]] = []

    def asked(self) -> tuple[int, int]:
        """Replicas of prefill and of decode now."""
        prefill, decode = (self._cluster.deployments[WorkloadRef(NAMESPACE, "Deployment", one)] for one in "ab")
        return prefill.replicas, decode.replicas

    async def put_scale(self, ref: Ref, replicas: int, resource_version: str) -> Object:
        reply = await super().put_scale(ref, replicas, resource_version)
        self.roles.append(self.asked())
        return reply


def coupled(spec: WorldSpec, least: float, most: float) -> Policy:
    """The policy of `spec`, in which prefill has `least` to `most` replicas for each one of decode."""
    told = policy_of(spec).model_dump(by_alias=True)
    next(each for each in told["models"] if each["id"] == PREFILL)["ratio"] = {"to": DECODE, "min": least, "max": most}
    return Policy.model_validate(told)


def out_of(couple: Couple, prefill: int, decode: int) -> float:
    return couple.excess(PREFILL, prefill, decode)


@pytest.mark.parametrize("seed", range(4))
async def test_the_ratio_holds_after_every_write_while_demand_jumps_and_gpus_change_hands(seed: int) -> None:
    rng = random.Random(seed)
    roles = (ModelSpec(PREFILL, "x", 1, 1, 2, 20.0, "none", 1.0), ModelSpec(DECODE, "x", 1, 1, 4, 20.0, "none", 2.0))
    other = ModelSpec(OTHER, "x", 1, 1, 4, 20.0, "none", 3.0)
    spec = WorldSpec(seed, (PoolSpec("x", (12,)),), (*roles, other), 0.0)
    world, dials = built(spec)
    policy = coupled(spec, 0.5, 1.0)
    (couple,) = {*couples(policy).values()}
    port = Port(world)
    service = Service(world, policy, port, marks_victims=True)
    service.list_all()
    begun = port.asked()
    assert out_of(couple, *begun) == 0
    for step in range(int(MINUTES * 60 / STEP_SECONDS)):
        if step % 24 == 0:
            for name in (PREFILL, DECODE, OTHER):
                dials[name].turn(rate_of(rng.uniform(0.2, 6.0)), world.now, 1.0)
        world.advance(world.now + STEP_SECONDS)
        service.hear()
        await service.turn()
        world.advance(world.now)
        service.watch()
    assert [pair for pair in port.roles if out_of(couple, *pair) > 0] == []
    assert len({*port.roles}) > 2, "both were moved, and not once"
