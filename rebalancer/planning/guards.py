"""Guards: each turns a move into a refusal with its numbers, or lets it pass.

Limits are max(1, floor(share x base)) replicas per sliding window and bind only below the donor's present need
(`Holder.need_now`). What passes which guard, and why, is in `Purpose`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from rebalancer.domain.memory import Loss
from rebalancer.domain.plan import Refusal
from rebalancer.domain.policy import RateLimit
from rebalancer.domain.snapshot import PodView
from rebalancer.planning.scene import Holder, Part, PoolState, Scene


class Purpose(Enum):
    """Why a replica would go, and so which guards it must ask."""

    DRAIN = "drain"  # its node is under notice: passes start, blind, step, fleet
    OVERRIDE = "override"  # a person decided it for this very model: passes start, blind, step, fleet, shift
    RECLAIM = "reclaim"  # borrowed GPUs go home: passes blind, step, fleet, shift
    SHIFT = "shift"  # somebody is granted in the same plan: counts in shift, not in step and fleet
    BUDGET = "budget"  # the pool shrank
    SURPLUS = "surplus"  # nobody needs it and it costs money
    MINIMUM = "minimum"  # an autoscaler may go down to one less: a decrease, whether it does or not


PASSES = {
    Purpose.DRAIN: frozenset({"start", "blind", "step", "fleet", "shift"}),
    Purpose.OVERRIDE: frozenset({"start", "blind", "step", "fleet", "shift"}),
    Purpose.RECLAIM: frozenset({"blind", "step", "fleet", "shift"}),
    Purpose.SHIFT: frozenset({"step", "fleet"}),
    Purpose.BUDGET: frozenset({"shift"}),
    Purpose.SURPLUS: frozenset({"shift"}),
    Purpose.MINIMUM: frozenset({"shift"}),
}


@dataclass(slots=True)
class Tally:
    """What this plan has taken so far, on top of what the windows in memory hold."""

    fleet_lost: int
    fleet_base: int
    taken: Counter[str] = field(default_factory=Counter)
    parts: Counter[tuple[str, str]] = field(default_factory=Counter)
    ready: Counter[str] = field(default_factory=Counter)
    drained: Counter[str] = field(default_factory=Counter)
    lowered: Counter[str] = field(default_factory=Counter)
    step: Counter[str] = field(default_factory=Counter)
    shift: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, scene: Scene) -> "Tally":
        """Nothing taken yet; the fleet's window and base (replicas above floors) are summed once per plan."""
        rule = scene.policy.guards.fleet
        holders = scene.holders.values()
        past = sum(_lost(holder.memory.losses, rule, scene.now, "step") for holder in holders)
        return cls(past, past + sum(max(0, holder.has - holder.model.min_replicas) for holder in holders))

    def copy(self) -> "Tally":
        """For trying several replicas of which all go or none."""
        counters = (self.taken, self.ready, self.drained, self.lowered, self.step, self.shift)
        taken, *others = (Counter(each) for each in counters)
        return Tally(self.fleet_lost, self.fleet_base, taken, Counter(self.parts), *others)

    def book(self, release: "Release") -> None:
        """That replica goes."""
        name, counts = release.holder.model.id, release.counts  # what counts is asked before the replica is gone
        if release.purpose is Purpose.DRAIN:
            self.drained[name] += 1
        elif release.purpose is Purpose.MINIMUM:
            self.lowered[name] += 1
        else:
            self.taken[name] += 1
            self.parts[release.part.key] += 1
            self.ready[name] += release.takes_ready
        if counts == "step":
            self.step[name] += 1
            self.fleet_lost += 1
        elif counts == "shift":
            self.shift[name] += 1


@dataclass(frozen=True, slots=True)
class Release:
    """One more replica of `part` would go, for `purpose`; `pod`: which (None: it is no pod yet, or open)."""

    scene: Scene
    tally: Tally
    part: Part
    purpose: Purpose
    pod: PodView | None = None

    @property
    def holder(self) -> Holder:
        """The model that loses it."""
        return self.scene.holders[self.part.model]

    @property
    def after(self) -> int:
        """Replicas left when it is gone: undoomed ones, or with the doomed where a doomed one goes.

        Where only a minimum is lowered: what the model's autoscalers still have to keep, of what is Ready.
        """
        name = self.holder.model.id
        if self.purpose is Purpose.DRAIN:
            return self.holder.has - self.tally.taken[name] - self.tally.drained[name] - 1
        if self.purpose is Purpose.MINIMUM:
            return self.holder.assured - self.tally.lowered[name] - self.tally.taken[name] - 1
        return self.holder.held - self.tally.taken[name] - 1

    @property
    def takes_ready(self) -> bool:
        """Whether a replica goes that serves, and would have gone on serving."""
        return self.pod is not None and self.pod.phase == "ready" and self.purpose is not Purpose.DRAIN

    @property
    def ready_after(self) -> int:
        """Ready, undoomed replicas left when it is gone."""
        return self.holder.steady - self.tally.ready[self.holder.model.id] - self.takes_ready

    @property
    def assured_after(self) -> int | None:
        """What the model's autoscalers still have to keep when it is gone; None where that does not change."""
        taken, own = self.tally.parts, self.part
        if self.purpose in {Purpose.DRAIN, Purpose.MINIMUM} or own.held - taken[own.key] > own.assured:
            return None
        left = sum(min(part.assured, part.held - taken[part.key]) for part in self.holder.parts)
        return left - self.tally.lowered[own.model] - 1

    @property
    def below_need(self) -> bool:
        """Whether the replica is part of what the donor presently needs; unknown work counts as need.

        One that has no node yet meets no need: taking it back is no loss.
        """
        if self.pod is not None and self.pod.node is None:
            return False
        need = self.holder.need_now
        return need is None or self.after < need

    @property
    def counts(self) -> str:
        """The window it uses up: shift, step (with fleet), or exempt."""
        if not self.below_need or self.purpose in {Purpose.DRAIN, Purpose.OVERRIDE, Purpose.RECLAIM}:
            return "exempt"
        return "shift" if self.purpose is Purpose.SHIFT else "step"

    def refuse(self, guard: str, why: str, until: float | None = None, **numbers: float | str | None) -> Refusal:
        """A refusal of this replica."""
        return Refusal(
            guard=guard,
            subject=self.holder.model.id,
            replicas_from=self.after + 1,
            replicas_to=self.after,
            why=why,
            numbers=dict(numbers),
            until=until,
        )


def floor(release: Release) -> Refusal | None:
    """No action of ours takes a model below its floor; nothing passes this but an override that says so by name.

    Nor below it in Ready replicas: where one of its pools loads, another does not go before that is Ready.
    """
    least = release.holder.floor
    if release.after < least:
        return release.refuse("floor", f"floor is {least}", floor=least, after=release.after)
    if release.takes_ready and release.ready_after < least:
        ready = release.ready_after
        return release.refuse("floor", f"floor is {least}, {ready} would be Ready", floor=least, ready=ready)
    assured = release.assured_after
    if assured is not None and assured < least:
        return release.refuse("floor", f"floor is {least}, minimums would add up to {assured}", floor=least)
    return None


def empty(release: Release) -> Refusal | None:
    """An empty set is never "all": where no node is seen while pods run there, the budget is unknown, not 0."""
    pool = release.part.pool
    state = release.scene.pools.get(pool)
    if state is not None and state.budget is not None:
        return None
    return release.refuse("empty", f"no node of pool {pool} is seen while pods run there", pool=pool, nodes=0)


def start(release: Release) -> Refusal | None:
    """No decrease before everything is listed and fresh, and enough metric intervals of the model were seen live."""
    sync = release.scene.snapshot.sync
    unready = (*sync.missing, *sync.stale)
    if unready:
        return release.refuse("start", "not synced: " + ", ".join(unready), unsynced=len(unready))
    wanted = release.scene.policy.guards.start.metric_intervals
    seen = release.holder.load.intervals_live
    if seen >= wanted:
        return None
    return release.refuse(
        "start", f"{seen} of {wanted} metric intervals seen since the start", seen=seen, wanted=wanted
    )


def blind(release: Release) -> Refusal | None:
    """No decrease of a model that no usable vote speaks for."""
    ballot = release.holder.ballot
    if not ballot.blind:
        return None
    why = "; ".join(f"{signal} {why}" for signal, why in ballot.abstained) or "no signal configured"
    return release.refuse("blind", f"no usable vote: {why}", usable=0, configured=ballot.configured)


def step(release: Release) -> Refusal | None:
    """A model loses at most `share` of its replicas per window."""
    rule = release.scene.policy.guards.step
    holder = release.holder
    past = _lost(holder.memory.losses, rule, release.scene.now, "step")
    lost = past + release.tally.step[holder.model.id]
    return _limited(release, "step", rule, lost, past + holder.has, [holder])


def fleet(release: Release) -> Refusal | None:
    """All models together lose at most `share` of the replicas above floors per window."""
    rule = release.scene.policy.guards.fleet
    everybody = release.scene.holders.values()
    return _limited(release, "fleet", rule, release.tally.fleet_lost, release.tally.fleet_base, everybody)


def shift(release: Release) -> Refusal | None:
    """A donor gives at most `share` of what it holds above its floor per window to others."""
    rule = release.scene.policy.guards.shift
    holder = release.holder
    past = _lost(holder.memory.losses, rule, release.scene.now, "shift")
    lost = past + release.tally.shift[holder.model.id]
    base = past + max(0, holder.has - holder.floor)
    return _limited(release, "shift", rule, lost, base, [holder])


def _lost(losses: tuple[Loss, ...], rule: RateLimit, now: float, counts: str) -> int:
    return sum(loss.replicas for loss in losses if loss.counts == counts and now - loss.at < rule.window_seconds)


def _limited(  # noqa: PLR0913  # the numbers that the refusal prints
    release: Release, guard: str, rule: RateLimit, lost: int, base: int, losers: Iterable[Holder]
) -> Refusal | None:
    """Refuse when one more would exceed max(1, floor(share x base)) in the window and cut into present need."""
    limit = max(1, math.floor(rule.share * base + 1e-9))
    if not release.below_need or lost + 1 <= limit:
        return None
    counts = "shift" if guard == "shift" else "step"
    inside = [
        loss.at
        for holder in losers
        for loss in holder.memory.losses
        if loss.counts == counts and release.scene.now - loss.at < rule.window_seconds
    ]
    until = min(inside) + rule.window_seconds if inside else None
    need = release.holder.need_now
    return release.refuse(
        guard,
        f"{lost} of at most {limit} lost in {rule.window_seconds:.0f} s, present need {'?' if need is None else need}",
        until,
        lost=lost,
        limit=limit,
        base=base,
        window_seconds=rule.window_seconds,
        need=need,
    )


GUARDS: dict[str, Callable[[Release], Refusal | None]] = {
    "floor": floor,
    "empty": empty,
    "start": start,
    "blind": blind,
    "step": step,
    "fleet": fleet,
    "shift": shift,
}


def judge(release: Release) -> Refusal | None:
    """The first guard that declines this replica's release, None when it may go."""
    passed = PASSES[release.purpose]
    for name, guard in GUARDS.items():
        if name in passed:
            continue
        refusal = guard(release)
        if refusal is not None:
            return refusal
    return None


def budget(state: PoolState, promised: int, more: int) -> str | None:
    """Why `more` GPUs cannot be promised in the pool beside the `promised` ones, None when they can."""
    if state.budget is not None and promised + more <= state.budget:
        return None
    of = "an unknown budget" if state.budget is None else f"{state.budget}"
    return f"{promised} of {of} GPUs of {state.pool.name} are promised"


def stopped(scene: Scene) -> str | None:
    """Why nothing at all may be written now: write stop, or lists of what must be known first are missing."""
    if scene.snapshot.write_stop is not None:
        stop = scene.snapshot.write_stop
        return f"writes stopped by {stop.actor or '?'}: {stop.reason or 'no reason given'}"
    missing = scene.snapshot.sync.missing
    if missing:
        return "not listed yet: " + ", ".join(missing)
    return None


def stopped_by(scene: Scene) -> str:
    """The guard behind `stopped`."""
    return "stop" if scene.snapshot.write_stop is not None else "start"
