"""One replica that would go: why, what would be left, and what the plan has taken so far.

What passes which guard, and why, is in `Purpose`; the guards that judge it are in `planning.guards`.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from rebalancer.domain.memory import Loss
from rebalancer.domain.plan import Refusal
from rebalancer.domain.policy import RateLimit
from rebalancer.domain.snapshot import PodView
from rebalancer.domain.words import gpus
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.shares.share import ModelShare


class Purpose(Enum):
    """Why a replica would go, and so which guards it must ask (`PASSES`: those it need not)."""

    DRAIN = "drain"  # its node is under notice: it goes in any case
    OVERRIDE = "override"  # a person decided it for this very model
    RECLAIM = "reclaim"  # borrowed GPUs go home to an owner whose own vote is usable
    SHIFT = "shift"  # somebody is granted in the same plan: counts in shift, not in step and fleet
    BUDGET = "budget"  # the pool shrank
    SURPLUS = "surplus"  # nobody needs it and it costs money
    MINIMUM = "minimum"  # an autoscaler may go down to one less: a decrease, whether it does or not


_IN_ANY_CASE = frozenset({"blind", "agree", "sudden", "loss", "step", "fleet", "shift"})

PASSES = {
    Purpose.DRAIN: _IN_ANY_CASE | {"start"},
    Purpose.OVERRIDE: _IN_ANY_CASE | {"start"},
    Purpose.RECLAIM: _IN_ANY_CASE,
    Purpose.SHIFT: frozenset({"step", "fleet", "loss"}),
    Purpose.BUDGET: frozenset({"shift", "loss"}),
    Purpose.SURPLUS: frozenset({"shift"}),
    Purpose.MINIMUM: frozenset({"shift"}),
}


@dataclass(slots=True)
class Tally:
    """Replicas that this plan has taken so far, on top of the windows in memory; by model id, but for `targets`.

    fleet_lost: replicas that all models lost within the window of the guard `fleet`, this plan's included.
    fleet_base: replicas above floors, the lost ones included; the guard `fleet` allows a share of them.
    taken: replicas taken, doomed ones and minimums not counted.
    targets: the same as `taken` by (model id, pool).
    ready: Ready replicas taken.
    drained: doomed replicas taken.
    lowered: replicas by which minimums were lowered.
    step: replicas that use up the window of the guard `step`.
    shift: replicas that use up the window of the guard `shift`.
    """

    fleet_lost: int
    fleet_base: int
    taken: Counter[str] = field(default_factory=Counter)
    targets: Counter[tuple[str, str]] = field(default_factory=Counter)
    ready: Counter[str] = field(default_factory=Counter)
    drained: Counter[str] = field(default_factory=Counter)
    lowered: Counter[str] = field(default_factory=Counter)
    step: Counter[str] = field(default_factory=Counter)
    shift: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, scene: Scene[ModelShare]) -> "Tally":
        """The tally before anything is taken; the fleet's window and base are summed once per plan."""
        rule = scene.policy.guards.fleet
        models = scene.models.values()
        past = sum([lost(each.memory.losses, rule, scene.now, "step") for each in models if each.memory.losses])
        return cls(past, past + sum([max(0, model.committed_replicas - model.entry.min_replicas) for model in models]))

    def copy(self) -> "Tally":
        """A copy to try several replicas of which all go or none."""
        counters = (self.taken, self.ready, self.drained, self.lowered, self.step, self.shift)
        taken, *others = (Counter(each) for each in counters)
        return Tally(self.fleet_lost, self.fleet_base, taken, Counter(self.targets), *others)

    def book(self, release: "Release") -> None:
        """Counts a replica that goes."""
        name, counts = release.model.entry.id, release.counts  # what counts is asked before the replica is gone
        if release.purpose is Purpose.DRAIN:
            self.drained[name] += 1
        elif release.purpose is Purpose.MINIMUM:
            self.lowered[name] += 1
        else:
            self.taken[name] += 1
            self.targets[release.target.key] += 1
            self.ready[name] += release.takes_ready
        if counts == "step":
            self.step[name] += 1
            self.fleet_lost += 1
        elif counts == "shift":
            self.shift[name] += 1


@dataclass(frozen=True, slots=True)
class Release:
    """One more replica that would go; guards judge it.

    scene: the scene, for numbers of its model and of the others.
    tally: what this plan has taken so far.
    target: the target that loses it.
    purpose: why it would go.
    pod: the pod; None where it is no pod yet, or open which one.
    together: how many replicas of its model make room for one replica of another; 1 where it goes for nobody.
    for_floor: whether that other model is under its floor.
    """

    scene: Scene[ModelShare]
    tally: Tally
    target: TargetFacts
    purpose: Purpose
    pod: PodView | None = None
    together: int = 1
    for_floor: bool = False

    @property
    def model(self) -> ModelShare:
        """The model that loses it."""
        return self.scene.models[self.target.model]

    @property
    def others_to_spare(self) -> list[ModelShare]:
        """Other models that could give up replicas in the target's pool, and are to have fewer than they hold."""
        return [
            model
            for model in self.scene.of_pool[self.target.pool]
            if model is not self.model
            and model.staying_replicas > model.aim
            and any(
                target.staying_replicas and target.stuck is None
                for target in model.targets
                if target.pool == self.target.pool
            )
        ]

    @property
    def after(self) -> int:
        """Replicas left when it is gone: undoomed ones, or with the doomed where a doomed one goes.

        Where only a minimum is lowered: what the model's autoscalers still have to keep, of what is Ready.
        """
        name = self.model.entry.id
        if self.purpose is Purpose.DRAIN:
            return self.model.committed_replicas - self.tally.taken[name] - self.tally.drained[name] - 1
        if self.purpose is Purpose.MINIMUM:
            return self.model.assured - self.tally.lowered[name] - self.tally.taken[name] - 1
        return self.model.staying_replicas - self.tally.taken[name] - 1

    @property
    def takes_ready(self) -> bool:
        """Whether a replica goes that serves, and would have gone on serving."""
        return self.pod is not None and self.pod.phase == "ready" and self.purpose is not Purpose.DRAIN

    @property
    def ready_after(self) -> int:
        """Ready, undoomed replicas left when it is gone."""
        return self.model.ready_staying - self.tally.ready[self.model.entry.id] - self.takes_ready

    @property
    def assured_after(self) -> int | None:
        """Replicas that the model's autoscalers still have to keep afterwards; None where that does not change."""
        taken, own = self.tally.targets, self.target
        if self.purpose is Purpose.DRAIN:  # its own target's minimum is written with it, doomed ones count until then
            others = sum(target.sure for target in self.model.targets if target is not own)
            return others + own.desired_replicas - self.tally.taken[own.model] - self.tally.drained[own.model] - 1
        if self.purpose is Purpose.MINIMUM or own.staying_replicas - taken[own.key] > own.assured:
            return None
        left = sum(min(target.assured, target.staying_replicas - taken[target.key]) for target in self.model.targets)
        return left - self.tally.lowered[own.model] - 1

    @property
    def below_need(self) -> bool:
        """Whether the replica is part of what the donor presently needs; unknown work counts as need.

        One that has no node yet meets no need: taking it back is no loss.
        """
        if self.pod is not None and self.pod.node is None:
            return False
        need = self.model.need_now
        return need is None or self.after < need

    @property
    def counts(self) -> str:
        """The window it uses up: shift, step (with fleet), or exempt."""
        if not self.below_need or self.purpose in {Purpose.DRAIN, Purpose.OVERRIDE, Purpose.RECLAIM}:
            return "exempt"
        return "shift" if self.purpose is Purpose.SHIFT else "step"

    def refuse(self, guard: str, why: str, until: float | None = None, **numbers: float | str | None) -> Refusal:
        """A refusal of this replica, and why it would go where that is not its model's own doing."""
        state = self.scene.pools.get(self.target.pool)
        if self.purpose is Purpose.BUDGET and state is not None:
            has = f"{gpus(state.budget or 0)} in its budget and {state.promised} promised"
            why += f"; pool {self.target.pool} shrank, it has {has}"
        return Refusal(
            guard=guard,
            subject=self.model.entry.id,
            replicas_from=self.after + 1,
            replicas_to=self.after,
            why=why,
            numbers=dict(numbers),
            until=until,
        )


def lost(losses: tuple[Loss, ...], rule: RateLimit, now: float, counts: str) -> int:
    """Replicas of a model that used up the window `counts` of `rule`, ending now."""
    return sum(loss.replicas for loss in losses if loss.counts == counts and now - loss.at < rule.window_seconds)
