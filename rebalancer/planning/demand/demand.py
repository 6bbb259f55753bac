"""Stages 2b and 3: from votes to demand, with surge and cooldown as explicit states in memory.

Rising: the highest vote wins. Borrowing (beyond the entitlement) waits until the vote has stood for one planning
period, unless the model is in surge: one noisy sample must not move somebody else's GPU. Falling: only after the
votes have been lower for the whole cooldown of the class, and then to the highest vote of that time.

A model with an outlook needs what its level needs (`foreseen`); the votes of others decide for them (`assess`).
"""

import math

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.memory import ModelMemory
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.policy import ClassRules, Model, Policy, SurgeRules
from rebalancer.domain.readings import Work
from rebalancer.domain.words import replicas, work_of
from rebalancer.planning.demand.owed import crossed, level_of, owed
from rebalancer.planning.demand.votes import Ballot, replicas_for

NEED_ROOTS = 1.5  # a level needs itself and so many of its roots: bursts shorter than a start


def need_of(level: float) -> int:
    """Replicas that a level of offered work (replicas kept busy) needs."""
    return replicas_for(level + NEED_ROOTS * math.sqrt(level))


def need_now(work: Work) -> int | None:
    """ceil(l + 1.5 sqrt(l)), l = max(slow level, last minute's offered work); None when the work is unknown."""
    known = [level for level in (work.slow, work.last_60s) if level is not None]
    return need_of(max(0.0, *known)) if known else None


def rules_of(policy: Policy, model: Model) -> ClassRules:
    """Watermarks and cooldown of the model's class."""
    rules: ClassRules = getattr(policy.classes, model.workload_class)
    return rules


class Demand(Struct, frozen=True):
    """Replicas a model needs. `unknown`: no usable vote, so what it has is what it keeps.

    `busy`: those of them that its work keeps busy or its votes have stood for, where the others are room for bursts;
    None: all of them.
    """

    replicas: int
    unknown: bool
    surge: bool
    why: str
    busy: int | None = None

    @property
    def owed(self) -> int:
        """What of it an owner may claim before anybody gains."""
        return self.replicas if self.busy is None else min(self.replicas, self.busy)


def assess(model: Model, ballot: Ballot, work: Work, has: int, kept: ModelMemory, policy: Policy, now: float) -> tuple[Demand, ModelMemory]:  # noqa: E501, PLR0913  # fmt: skip  # each is one input of the stage
    """Demand of a model that holds `has` replicas, and its memory afterwards."""
    kept = _surge(kept, work, policy.surge, now)
    surge = kept.surge_since is not None
    need = ballot.need
    if need is None:
        held = max(has, model.min_replicas)
        why = f"its demand is unknown: {ballot.silence or 'no signal is configured'}"
        return Demand(held, unknown=True, surge=surge, why=why), replace(
            kept, lower_since=None, higher_since=None, demand=held
        )
    need = max(model.min_replicas, min(need, model.max_replicas))
    in_force = max(model.min_replicas, min(_in_force(kept, has, need), model.max_replicas))
    kept = replace(kept, begun_anew=False) if kept.begun_anew else kept
    if need >= in_force:
        return _rise(model, need, in_force, kept, policy, now)
    return _fall(need, in_force, ballot, kept, rules_of(policy, model).cooldown_seconds, now, surge)


def _in_force(kept: ModelMemory, has: int, need: int) -> int:
    """The demand so far. Where that is unknown: what it has; after a start, as far as it needs it."""
    if kept.demand is not None:
        return kept.demand
    return min(has, need) if kept.begun_anew else has


def foreseen(model: Model, outlook: Outlook, ballot: Ballot, work: Work, kept: ModelMemory, policy: Policy, now: float) -> tuple[Demand, ModelMemory]:  # noqa: E501, PLR0913  # fmt: skip
    """Demand of a model with an outlook: its level, and as much of a shift as is likely, with room for bursts.

    The level is slow, so there is nothing to wait for on the way down: what may go, and when, guards decide. An owner
    who comes back does not wait for it: of its own it is owed what keeps busy or is asked for (`owed`). The room for
    bursts is not: whoever gains more from it has it. Were it owed, three models that own a third of 24 GPUs each, one
    of which surges, would be 25 % late instead of 3 %; were every vote, 6 % with four times the moves.
    """
    kept = _surge(kept, work, policy.surge, now)
    surge, level, own = kept.surge_since is not None, level_of(outlook), model.entitlement
    seen = crossed(outlook, work, kept.owed, surge=surge)
    patience = rules_of(policy, model).cooldown_seconds
    due = owed(kept.owed, seen.of(own), min(own, ballot.need or 0), patience, now)
    need = need_of(level)
    words = f"a level of {work_of(level)} needs {min(need, model.max_replicas)}, with room for bursts"
    if due.replicas > need:
        words += f"; its work or its votes claim {due.replicas} of the {own} that it owns"
    need = max(model.min_replicas, min(max(need, due.replicas), model.max_replicas))
    busy = due.replicas if due.replicas < own else max(own, seen.busy)
    found = Demand(need, unknown=False, surge=surge, why=words, busy=busy)
    return found, _settled(kept if kept.owed == due else replace(kept, owed=due), need)


def _settled(kept: ModelMemory, demand: int) -> ModelMemory:
    """`demand` is in force, and no vote waits to be patient enough."""
    if kept.demand == demand and kept.higher_since is None and kept.lower_since is None:
        return kept
    return replace(kept, lower_since=None, higher_since=None, demand=demand)


def calm(work: Work, kept: ModelMemory, rules: SurgeRules) -> bool:
    """Whether no surge lasts or begins, so that the instant has no say in what is foreseen."""
    if kept.surge_since is not None:
        return False
    if work.short is None or work.long is None or work.short < rules.enter_ratio * work.long:
        return True
    return replicas_for(work.short) <= replicas_for(work.long)


def doubted(model: Model, work: Work, has: int, kept: ModelMemory, policy: Policy, now: float) -> tuple[Demand, ModelMemory]:  # noqa: E501, PLR0913  # fmt: skip
    """Demand of a model whose offered work is not plausible: what it had of it before, and no less than it has."""
    kept = _surge(kept, work, policy.surge, now)
    held = max(has, model.min_replicas, 0 if kept.demand is None else kept.demand)
    why = "its work jumped beyond what is plausible, so it keeps what it has"
    return Demand(held, unknown=False, surge=kept.surge_since is not None, why=why), _settled(kept, held)


def _rise(model: Model, need: int, in_force: int, kept: ModelMemory, policy: Policy, now: float) -> tuple[Demand, ModelMemory]:  # noqa: E501, PLR0913  # fmt: skip
    surge = kept.surge_since is not None
    if need == in_force:
        return Demand(need, unknown=False, surge=surge, why=f"its votes ask for {replicas(need)}"), _settled(kept, need)
    since = now if kept.higher_since is None else kept.higher_since
    own = min(need, max(in_force, model.entitlement))
    if need > own and not surge and now - since < policy.plan_every_seconds:
        why = f"its votes ask for {replicas(need)}; borrowing waits {policy.plan_every_seconds:.0f} s outside a surge"
        return Demand(own, unknown=False, surge=surge, why=why), replace(
            kept, lower_since=None, higher_since=since, demand=own
        )
    return Demand(need, unknown=False, surge=surge, why=f"its votes ask for {replicas(need)}"), _settled(kept, need)


def _fall(need: int, in_force: int, ballot: Ballot, kept: ModelMemory, cooldown: float, now: float, surge: bool) -> tuple[Demand, ModelMemory]:  # noqa: E501, PLR0913, FBT001  # fmt: skip
    kept = replace(kept, higher_since=None)
    if not ballot.may_fall:
        why = f"a vote asks for only {replicas(need)}; to go down, votes must agree"
        return Demand(in_force, unknown=False, surge=surge, why=why), replace(kept, lower_since=None, demand=in_force)
    since = now if kept.lower_since is None else kept.lower_since
    peak = need if kept.lower_since is None else max(need, kept.lower_peak)
    moved = kept.last_move_at
    patient = now - since >= cooldown and (moved is None or now - moved >= cooldown)
    if not patient:
        left = max(since, moved or since) + cooldown - now
        why = f"its votes ask for only {replicas(need)}; its cooldown lasts {left:.0f} s more"
        return Demand(in_force, unknown=False, surge=surge, why=why), replace(
            kept, lower_since=since, lower_peak=peak, demand=in_force
        )
    return Demand(peak, unknown=False, surge=surge, why=f"its votes ask for {replicas(peak)}"), replace(
        kept, lower_since=now, lower_peak=need, demand=peak
    )


def _surge(kept: ModelMemory, work: Work, rules: SurgeRules, now: float) -> ModelMemory:
    """Enter when the short window is enterRatio x the long one and at least one replica more; leave when calm."""
    if work.short is None or work.long is None or calm(work, kept, rules):
        return kept
    if kept.surge_since is None:
        return replace(kept, surge_since=now, calm_since=None)
    if work.short >= rules.leave_ratio * work.long:
        return replace(kept, calm_since=None) if kept.calm_since is not None else kept
    since = now if kept.calm_since is None else kept.calm_since
    if now - since >= rules.leave_after_seconds:
        return replace(kept, surge_since=None, calm_since=None)
    return replace(kept, calm_since=since)
