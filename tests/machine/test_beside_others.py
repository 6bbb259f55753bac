"""Who else writes: each case ends as documented within a minute, and then nothing of ours is written for five.

The service's own state, planner and gate on a simulated cluster in virtual time; `docs/reference/owners.md` has the
states. `a` holds 2 replicas and needs more, `b` has what it needs; 8 GPUs are there, so the service writes at once.
"""

from collections.abc import Callable
from typing import Any

import pytest

from rebalancer.domain.parents import ControllerRef
from rebalancer.domain.plan import Decision, Refusal
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kube.errors import Forbidden
from rebalancer.kube.resources import PODS, Object, Ref
from rebalancer.world import World, WorldHpa, WorldScaledObject
from rebalancer.world.port import WorldPort
from tests.machine.service import Service
from tests.machine.worlds import NAMESPACE, ModelSpec, PoolSpec, WorldSpec, built, policy_of, rate_of

STEP_SECONDS = 5.0
SETTLED_SECONDS = 60.0
QUIET_SECONDS = 300.0
A = WorkloadRef(NAMESPACE, "Deployment", "a")


class Port(WorldPort):
    """Notes every write that is stored and every one that is denied; a mutating webhook may change one on its way."""

    def __init__(self, world: World, refuses: Callable[[Ref], None]) -> None:
        super().__init__(world, refuses)
        self._noted = world
        self.stored: list[tuple[float, str]] = []
        self.asked: list[tuple[float, str]] = []
        self.most: int | None = None  # a webhook lowers what is asked for to this

    async def put_scale(self, ref: Ref, replicas: int, resource_version: str) -> Object:
        self.asked.append((self._noted.now, ref.name))
        wanted = replicas if self.most is None else min(replicas, self.most)
        reply = await super().put_scale(ref, wanted, resource_version)
        self.stored.append((self._noted.now, ref.name))
        return reply

    async def patch(self, ref: Ref, body: Any, *, resource_version: str | None = None) -> Object:  # noqa: ANN401  # JSON
        if ref.resource == PODS:
            return await super().patch(ref, body, resource_version=resource_version)
        self.asked.append((self._noted.now, ref.name))
        if self.most is not None:
            kept = {key: min(value, self.most) for key, value in body["spec"].items()}
            body = {**body, "spec": kept}
        reply = await super().patch(ref, body, resource_version=resource_version)
        self.stored.append((self._noted.now, ref.name))
        return reply


class Bench:
    """`owner`: what scales `a`: none, hpa or keda."""

    def __init__(self, owner: str = "none", level: float = 3.4) -> None:
        a = ModelSpec("a", "x", 1, 1, 2, 20.0, owner, level, idle=None)
        b = ModelSpec("b", "x", 1, 1, 2, 20.0, "none", 1.0)
        spec = WorldSpec(1, (PoolSpec("x", (8,)),), (a, b), 0.0)
        self.world, self._dials = built(spec)
        self.policy = policy_of(spec)
        self.policy = self.policy.model_copy(
            update={
                "guards": self.policy.guards.model_copy(
                    update={"foreign": self.policy.guards.foreign.model_copy(update={"window_seconds": 600.0})}
                )
            }
        )
        self.denied = False
        self.port = Port(self.world, self._refuse)
        self.service = Service(self.world, self.policy, self.port, marks_victims=False)
        self.service.list_all()
        self.decision: Decision | None = None

    def _refuse(self, ref: Ref) -> None:
        if self.denied and ref.name == "a":
            raise Forbidden(
                "admission webhook denied the request: nobody scales on Fridays",
                verb="patch",
                resource=str(ref.resource),
            )

    def demand(self, level: float) -> None:
        self._dials["a"].turn(rate_of(level), self.world.now, 1.0)

    def every(self, seconds: float, deed: Callable[[], None]) -> None:
        def again() -> None:
            deed()
            self.world.at(self.world.now + seconds, again)

        again()

    async def live(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.advance(self.world.now + STEP_SECONDS)
            self.service.hear()
            await self.service.restoring.look()
            self.decision = await self.service.turn()
            self.world.advance(self.world.now)
            self.service.watch()

    async def then_quiet(self) -> list[tuple[float, str]]:
        """A minute to settle, then the writes of ours to `a` in five."""
        await self.live(SETTLED_SECONDS)
        settled_at = self.world.now
        await self.live(QUIET_SECONDS)
        return [(at - settled_at, name) for at, name in self.port.stored if at > settled_at and "a" in name]

    @property
    def refusals(self) -> list[Refusal]:
        assert self.decision is not None
        return [one for one in self.decision.plan.refusals if one.subject == "a"]

    @property
    def replicas(self) -> int:
        return self.world.deployments[A].replicas

    @property
    def hpa(self) -> WorldHpa:
        return next(one for one in self.world.hpas.values() if one.target == A)

    @property
    def scaled(self) -> WorldScaledObject:
        return next(one for one in self.world.scaled_objects.values() if one.target == A)


@pytest.mark.parametrize("owner", ["none", "hpa", "keda"])
async def test_alone_it_writes_what_is_needed_and_is_quiet_then(owner: str) -> None:
    bench = Bench(owner)
    assert await bench.then_quiet() == []
    assert bench.replicas >= 4
    assert bench.refusals == []


async def test_one_change_by_hand_is_answered_once() -> None:
    bench = Bench()
    await bench.live(SETTLED_SECONDS)
    bench.world.scale(A, 3, "kubectl")
    assert await bench.then_quiet() == []
    assert bench.replicas >= 4
    assert bench.refusals == []


async def test_a_second_change_by_hand_stands_until_the_first_is_ten_minutes_old() -> None:
    bench = Bench()
    await bench.live(SETTLED_SECONDS)
    for replicas in (3, 2):
        bench.world.scale(A, replicas, "kubectl")
        await bench.live(15.0)
    assert await bench.then_quiet() == []
    assert bench.replicas == 2
    (refusal,) = bench.refusals
    assert (refusal.guard, refusal.numbers["manager"]) == ("foreign", "kubectl")


@pytest.mark.parametrize("owner", ["none", "hpa", "keda"])
async def test_gitops_every_five_seconds_gets_its_way_and_is_named(owner: str) -> None:
    bench = Bench(owner)

    def applies() -> None:
        if owner == "none":
            bench.world.scale(A, 2, "argocd-controller")
        else:
            found = bench.scaled if owner == "keda" else bench.hpa
            if (found.minimum, found.maximum) != (1, 2):
                bench.world.set_bounds(found, 1, 2, found.annotations, "argocd-controller")

    bench.every(5.0, applies)
    assert await bench.then_quiet() == []
    assert bench.replicas == 2
    (refusal,) = bench.refusals
    assert (refusal.guard, refusal.numbers["manager"]) == ("foreign", "argocd-controller")
    assert len(bench.port.stored) <= 3  # two of ours that were changed, and at most one beside them


class TestParentThatRevertsItsHpa:
    """As KServe does it: whatever differs is written back at once."""

    def reverting(self, controller: ControllerRef | None) -> Bench:
        bench = Bench("hpa")
        bench.hpa.controller = controller
        bench.world.set_bounds(bench.hpa, 1, 2, {}, "manager")

        def reverts() -> None:
            if (bench.hpa.minimum, bench.hpa.maximum) != (1, 2):
                bench.world.set_bounds(bench.hpa, 1, 2, bench.hpa.annotations, "manager")

        bench.every(1.0, reverts)
        bench.service.list_all()
        return bench

    async def test_where_its_kind_is_known_nothing_is_ever_written(self) -> None:
        bench = self.reverting(ControllerRef("serving.kserve.io", "InferenceService", "a"))
        assert await bench.then_quiet() == []
        assert bench.port.asked == []
        (refusal,) = bench.refusals
        assert refusal.guard == "owner"
        assert "autoscalerClass: external" in refusal.why

    @pytest.mark.parametrize("controller", [None, ControllerRef("example.com", "Thing", "a")])
    async def test_where_nobody_knows_it_two_reverts_are_enough(self, controller: ControllerRef | None) -> None:
        bench = self.reverting(controller)
        assert await bench.then_quiet() == []
        assert len(bench.port.stored) <= 3
        (refusal,) = bench.refusals
        assert (refusal.guard, refusal.numbers["manager"]) == ("foreign", "manager")


async def test_keda_that_somebody_paused_is_left_alone_and_named_and_taken_up_again_after() -> None:
    bench = Bench("keda")
    await bench.live(SETTLED_SECONDS)
    bench.world.pause(bench.scaled, paused=True)
    bench.demand(1.0)
    assert await bench.then_quiet() == []
    assert [one.guard for one in bench.refusals] == ["owner"]
    bench.world.pause(bench.scaled, paused=False)
    before = len(bench.port.stored)
    bench.demand(7.0)
    await bench.live(SETTLED_SECONDS)
    assert bench.refusals == []
    assert len(bench.port.stored) > before


async def test_a_scaled_object_that_is_deleted_and_made_again_is_taken_over_anew() -> None:
    bench = Bench("keda")
    await bench.live(SETTLED_SECONDS)
    first = bench.scaled
    assert first.annotations
    bench.world.autoscaling.remove(first)
    bench.world.add_scaled_object("a", A, 1, 4)
    assert await bench.then_quiet() == []
    assert bench.scaled.uid != first.uid
    assert '"max":4' in next(iter(bench.scaled.annotations.values()))
    assert bench.refusals == []
    assert bench.replicas >= 4


async def test_without_its_scaled_object_the_replicas_themselves_are_written() -> None:
    bench = Bench("keda", level=1.0)
    await bench.live(SETTLED_SECONDS)
    bench.world.autoscaling.remove(bench.scaled)
    bench.demand(3.4)
    assert await bench.then_quiet() == []
    assert bench.replicas >= 4


@pytest.mark.parametrize("owner", ["none", "keda"])
async def test_a_webhook_that_denies_costs_nothing_but_asking(owner: str) -> None:
    bench = Bench(owner)
    bench.denied = True
    assert await bench.then_quiet() == []
    assert [at for at, name in bench.port.stored if name == "a"] == []
    asked = [at for at, name in bench.port.asked if name == "a"]
    assert len(asked) <= 2 + (SETTLED_SECONDS + QUIET_SECONDS) / 60.0
    bench.denied = False
    await bench.live(SETTLED_SECONDS + 30.0)
    assert bench.replicas >= 4


@pytest.mark.parametrize("owner", ["none", "hpa", "keda"])
async def test_a_webhook_that_changes_what_is_written_is_not_fought(owner: str) -> None:
    bench = Bench(owner)
    bench.port.most = 3
    assert await bench.then_quiet() == []
    assert bench.replicas == 3
    bench.port.most = None
    await bench.live(QUIET_SECONDS)
    bench.demand(7.0)
    await bench.live(SETTLED_SECONDS)
    assert bench.replicas >= 4
