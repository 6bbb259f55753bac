"""One world with the service on it: time goes by in steps, things are broken and given back, the oracle looks on."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Model, Policy
from tests.machine.calm import Calm
from tests.machine.fights import Fights
from tests.machine.judged import JudgedPort
from tests.machine.oracle import Oracle
from tests.machine.said import Said
from tests.machine.scene import Scene
from tests.machine.service import Begun, Service
from tests.machine.worlds import STEP_SECONDS, WorldSpec, policy_of

WATCH_SECONDS = 1.0
CHECKPOINT_STEPS = 6


class Stage(Scene):
    """A scene with one process of the service on it."""

    def __init__(self, spec: WorldSpec, hit: tuple[str, ...] | None = None) -> None:
        super().__init__(spec, hit)
        self.policy = policy_of(spec)
        self.steps = 0
        self.oracle = Oracle(self.world, self.policy, {model.name: model.level for model in spec.models})
        port = JudgedPort(self.world, self.oracle, self.refuse)
        self.service = Service(self.world, self.policy, port, marks_victims=spec.marks)
        self.said = Said(self.world, self.oracle, port.answers)
        self.fights = Fights(self.world, self.oracle)
        self.calm = Calm(self.world, self.oracle)
        self.late: list[tuple[int, Any]] = []  # what waits for a plan that writes, and since which step
        self.decision: Decision | None = None
        self.service.list_all()
        self.oracle.look()

    # --- what deeds do

    def disturbed(self) -> None:
        """Something happened."""
        self.calm.disturbed()

    def stand_up(self, model: str) -> None:
        """A person says that we shall write there again."""
        self.service.decide("standUp", model)
        self.fights.stood_up(model)

    def reload(self, x: float, y: float) -> frozenset[str] | None:
        """A policy other than the one in force; None where that is not one."""
        policy = reloaded(self.service.policy, self.policy, self.hit, x, y)
        if policy is None:
            return None
        self._take_over(policy)
        return frozenset(self.hit)

    def _take_over(self, policy: Policy) -> None:
        self.service.reload(policy)
        self.oracle.policy = policy

    def restart(self, back: int, *, disk_lost: bool, large: bool) -> Begun:
        """The service dies and starts again, from the checkpoint of so many ago."""
        begun = self.service.restart(back, disk_lost=disk_lost, large=large)
        self.said.restarted(begun.kept_at, begun.younger_seconds)
        self.fights.restarted(begun.kept_at)
        return begun

    def heal(self) -> None:
        """All that was broken is given back, as far as it can be; the first policy is in force again."""
        super().heal()
        if self.service.policy is not self.policy:
            self._take_over(self.policy)

    # --- time

    async def live(self, seconds: float, between: Callable[[], None] | None = None) -> None:
        """One step: time goes by, the watches show what is so a second before the end of it, a cycle turns."""
        world, until = self.world, self.world.now + seconds
        world.advance(until - WATCH_SECONDS)
        self.service.hear()
        self._look(until)
        world.advance(until)
        self.oracle.measure({model: dial.rate(world.now) for model, dial in self.dials.items()})
        self.oracle.handing_back = True
        await self.service.restoring.look()
        self.oracle.handing_back = False
        self.service.between = partial(self._between, between) if between is not None else lambda: None
        told = len(self.service.topics.outcomes)
        self.decision = await self.service.turn()
        self._judge_said(told, known=not between or bool(self.late))
        self.oracle.counts["changes"] += len(self.decision.plan.changes)
        world.advance(world.now)
        self.steps += 1
        if self.steps % CHECKPOINT_STEPS == 0:
            self.service.keep()

    def _judge_said(self, told: int, *, known: bool) -> None:
        """Of the last cycle; `told`: outcomes before it, `known`: whether its plan knew what was shown last."""
        service, decision = self.service, self.decision
        self.said.judge_outcomes(service.topics.outcomes[told:])
        if known and decision is not None:
            sync = service.state.sync(service.clock.now())
            self.said.judge(decision.plan, service.policy, sync, service.failing)
            self.fights.judge(decision.plan, service.policy)
        if not self.healed:
            self.calm.judge(service.policy, hindered=bool(self._hindering))

    def _look(self, acts_at: float | None = None) -> None:
        self.oracle.clock_is_wrong = self.service.utc.offset_seconds != 0.0
        self.oracle.look(acts_at)
        self.said.look()
        self.fights.look()

    def _between(self, happens: Callable[[], None]) -> None:
        """It happens between plan and write, and the watches are quick enough to show it."""
        happens()
        self.world.advance(self.world.now)
        self.service.watch()
        self._look()


def reloaded(now: Policy, first: Policy, hit: tuple[str, ...], x: float, y: float) -> Policy | None:
    """Another policy than `now` by one change, or `first` again; only what concerns the pools in `hit` changes."""
    labels = {pool.name: pool.node_labels["pool"] for pool in now.pools}
    mine = [model for model in now.models if any(labels[one.pool] in hit for one in model.targets)]
    if now is not first and y < 0.4:
        return first
    if not mine:
        return None
    return CHANGES[int(y * 100) % len(CHANGES)](now, mine[int(x * len(mine))])


def _leaves(now: Policy, model: Model) -> Policy | None:
    return _without(now, {model.id})


def _pool_is_renamed(now: Policy, model: Model) -> Policy | None:
    return _renamed(now, model.targets[0].pool)


def _is_entitled_to_less(now: Policy, model: Model) -> Policy | None:
    return _with(now, model.model_copy(update={"entitlement": model.min_replicas}))


def _has_a_floor_above_all(now: Policy, model: Model) -> Policy | None:
    """A floor that no node can hold, within a limit that nobody has looked up."""
    home = model.targets[0].pool
    wide = [
        pool.model_copy(update={"gpu_limit": pool.gpu_limit + 64}) if pool.name == home else pool for pool in now.pools
    ]
    raised = model.model_copy(update={"min_replicas": 20, "entitlement": 20, "max_replicas": 40})
    return _with(now.model_copy(update={"pools": tuple(wide)}), raised)


def _may_have_less(now: Policy, model: Model) -> Policy | None:
    return _with(now, model.model_copy(update={"max_replicas": max(1, model.entitlement)}))


def _has_another_target(now: Policy, model: Model) -> Policy | None:
    other = tuple(one.model_copy(update={"name": f"{one.name}-v2"}) for one in model.targets)
    return _with(now, model.model_copy(update={"targets": other}))


def _pool_goes(now: Policy, model: Model) -> Policy | None:
    gone = model.targets[0].pool
    kept = _without(now, {one.id for one in now.models if any(each.pool == gone for each in one.targets)})
    if kept is None:
        return None
    used = {one.pool for each in kept.models for one in each.targets}
    return kept.model_copy(update={"pools": tuple(pool for pool in now.pools if pool.name in used)})


def _limit_is_lowered(now: Policy, model: Model) -> Policy | None:
    """To what the pool's models own: nothing is left to lend."""
    home = model.targets[0].pool
    own = sum(one.entitlement * one.gpus_per_replica for one in now.models if one.targets[0].pool == home)
    pools = tuple(pool.model_copy(update={"gpu_limit": own}) if pool.name == home else pool for pool in now.pools)
    return now.model_copy(update={"pools": pools})


CHANGES = (
    _leaves,
    _pool_is_renamed,
    _is_entitled_to_less,
    _has_a_floor_above_all,
    _may_have_less,
    _has_another_target,
    _pool_goes,
    _limit_is_lowered,
)


def _with(policy: Policy, model: Model) -> Policy:
    models = tuple(model if one.id == model.id else one for one in policy.models)
    return policy.model_copy(update={"models": models})


def _without(policy: Policy, gone: set[str]) -> Policy | None:
    models = tuple(one for one in policy.models if one.id not in gone)
    return policy.model_copy(update={"models": models}) if models else None


def _renamed(policy: Policy, name: str) -> Policy:
    again = f"{name}-two"
    pools = tuple(pool.model_copy(update={"name": again}) if pool.name == name else pool for pool in policy.pools)
    models = tuple(
        model.model_copy(
            update={
                "targets": tuple(
                    one.model_copy(update={"pool": again}) if one.pool == name else one for one in model.targets
                )
            }
        )
        for model in policy.models
    )
    return policy.model_copy(update={"pools": pools, "models": models})


__all__ = ["STEP_SECONDS", "Stage"]
