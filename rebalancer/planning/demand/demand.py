"""From votes to demand: the replicas a model needs, with surge and cooldown as explicit states in memory.

Rising: the highest vote wins. Borrowing (beyond the entitlement) waits until the vote has stood for one planning
period, unless the model is in a surge: one noisy sample must not move somebody else's GPU. Falling: only after the
votes have been lower for the whole cooldown of the class, and then to the highest vote of that time.

A model with an outlook needs as many replicas as its level (`foreseen`); for a model without one its votes decide
(`assess`); where its offered work is not plausible it needs what it has (`doubted`), and where it has none and nothing
is known but that it is asked, one (`woken`).
"""

import math
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.memory import ModelMemory, Owed
from rebalancer.domain.outlook import NEED_ROOTS, Outlook
from rebalancer.domain.policy import ClassRules, Model, Policy, SurgeRules
from rebalancer.domain.readings import NOT_LEARNT, Work
from rebalancer.domain.words import replicas, work_of
from rebalancer.planning.demand.owed import crossed, owed, voted
from rebalancer.planning.demand.votes import UNTIL_LEARNT, Ballot, replicas_for

UNLEARNT_SECONDS = 600.0  # without a request before a model gives, of which nobody knows what a replica carries


def need_of(level: float) -> int:
    """Replicas that a level of offered work (in replicas) needs: ceil(level + 1.5 sqrt(level))."""
    return replicas_for(level + NEED_ROOTS * math.sqrt(level))


def level_for(count: int) -> float:
    """The highest level of offered work that `count` replicas are enough for: what `need_of` turns round."""
    root = (math.sqrt(NEED_ROOTS**2 + 4.0 * count) - NEED_ROOTS) / 2.0
    return root * root


def need_now(work: Work, outlook: Outlook | None = None) -> int | None:
    """Replicas that present work needs: `need_of` its level or the last minute, the higher one; None: unknown.

    The level is the slow mean, or what the outlook expects where that is less: after a likely shift downwards the slow
    mean counts for minutes what is no longer asked for. The last minute stands against an outlook that errs.
    """
    level = _present(_expected(work, outlook))
    return None if level is None else need_of(level)


def need_words(work: Work, outlook: Outlook | None = None) -> str:
    """What `need_now` is of: `its expected level, 0.7 replicas of work, needs 3, with room for bursts`."""
    expected = _expected(work, outlook)
    level = _present(expected)
    if level is None:
        return "what its work needs is unknown"
    if expected.slow is None or level > expected.slow:
        which = "its last minute"
    else:
        which = "its expected level" if expected.slow != work.slow else "the slow mean of its last 20 minutes"
    return f"{which}, {work_of(level)}, needs {need_of(level)}, with room for bursts"


def _expected(work: Work, outlook: Outlook | None) -> Work:
    """With what the outlook expects in place of the slow mean, where that is less."""
    if outlook is None or work.slow is None:
        return work
    return replace(work, slow=min(work.slow, outlook.expected_level))


def busy_now(work: Work) -> int | None:
    """Replicas that present work keeps busy, without room for bursts; None: unknown.

    Of a model whose replicas have served for less than a minute it is what their first seconds keep busy: enough to
    say that a queue from before is no need.
    """
    level = _present(work)
    level = work.short if level is None else level
    return None if level is None else replicas_for(level)


def _present(work: Work) -> float | None:
    """The slow level or the last minute, the higher one, in replicas of work; None: unknown."""
    known = [level for level in (work.slow, work.last_60s) if level is not None]
    return max(0.0, *known) if known else None


def rules_of(policy: Policy, model: Model) -> ClassRules:
    """Watermarks and cooldown of the model's class."""
    rules: ClassRules = getattr(policy.classes, model.workload_class)
    return rules


class Demand(Struct, frozen=True):
    """The replicas a model needs, and why.

    replicas: how many it needs.
    unknown: whether no vote was usable, so that the model has its present number.
    surge: whether it is in a surge.
    why: clause that says why.
    busy: replicas among them that its work keeps busy or its votes have stood for, the others being room for bursts;
        None: all of them.
    """

    replicas: int
    unknown: bool
    surge: bool
    why: str
    busy: int | None = None

    @property
    def owed(self) -> int:
        """Replicas of the demand that an owner may claim before anybody gains: all but the room for bursts."""
        return self.replicas if self.busy is None else min(self.replicas, self.busy)


class Stance(NamedTuple):
    """Where a model stands when its demand is worked out.

    entry: the model of the policy.
    work: what is offered to it.
    memory: what the last plan remembered of the model.
    policy: the policy in force.
    now: UTC epoch seconds; NaN where the demand is the same at every instant.
    """

    entry: Model
    work: Work
    memory: ModelMemory
    policy: Policy
    now: float

    @property
    def surges(self) -> bool:
        """Whether the model is in a surge, by its memory."""
        return self.memory.surge_since is not None

    @property
    def cooldown_seconds(self) -> float:
        """The cooldown of the model's class, but ten minutes while nobody knows what a replica carries."""
        usual = rules_of(self.policy, self.entry).cooldown_seconds
        return max(usual, UNLEARNT_SECONDS) if self.work.why_not_better == NOT_LEARNT else usual

    def at_work(self) -> "Stance":
        """With its surge as the offered work leaves it."""
        return self._replace(memory=_surge(self))


def assess(of: Stance, ballot: Ballot, has: int) -> tuple[Demand, ModelMemory]:
    """Demand by votes of a model that has `has` replicas, and its memory afterwards.

    Without a usable vote the demand is unknown: the model needs the replicas it has, and no less than its floor. Else
    the highest vote, within the policy's bounds, is compared with the demand in force: `_rise` and `_fall` say when it
    follows.
    """
    of = of.at_work()
    model, memory, need = of.entry, of.memory, ballot.need
    if need is None:
        held = max(has, model.min_replicas)
        why = f"its demand is unknown: {ballot.silence or 'no signal is configured'}"
        due = None if memory.owed is None else Owed(memory.owed.replicas)
        return Demand(held, unknown=True, surge=of.surges, why=why), replace(
            memory, lower_since=None, higher_since=None, demand=held, owed=due
        )
    need = max(model.min_replicas, min(need, model.max_replicas))
    in_force = max(model.min_replicas, min(_in_force(memory, has, need), model.max_replicas))
    before = Owed(min(in_force, model.entitlement)) if memory.owed is None or memory.begun_anew else memory.owed
    of = of._replace(memory=replace(memory, begun_anew=False)) if memory.begun_anew else of
    demand, memory = _rise(of, need, in_force) if need >= in_force else _fall(of, need, in_force, ballot)
    return _claimed(of, need, before, demand, memory)


def _claimed(of: Stance, need: int, before: Owed, demand: Demand, memory: ModelMemory) -> tuple[Demand, ModelMemory]:
    """`demand` by votes that ask for `need`, with as many replicas as are owed of its own, and the memory of that.

    Beyond its own nothing is owed: that it borrows.
    """
    own, seen = of.entry.entitlement, voted(need, before, surge=of.surges)
    due = owed(before, seen.of(own), min(own, need), of.cooldown_seconds, of.now)
    if demand.replicas < due.replicas:
        due = replace(due, replicas=demand.replicas)
    all_of_it = Owed(min(own, demand.replicas))  # is not remembered before it was once less
    busy = due.replicas if due.replicas < all_of_it.replicas else None
    return replace(demand, busy=busy), memory if due == (memory.owed or all_of_it) else replace(memory, owed=due)


def _in_force(memory: ModelMemory, has: int, need: int) -> int:
    """The demand so far, in replicas: before the first demand `has`, after a start the lower of `has` and `need`."""
    if memory.demand is not None:
        return memory.demand
    return min(has, need) if memory.begun_anew else has


def foreseen(of: Stance, outlook: Outlook, ballot: Ballot) -> tuple[Demand, ModelMemory]:
    """Demand of a model with an outlook, and its memory afterwards: its level with room for bursts, or more if owed.

    The level counts with as much of a shift as is likely (`Outlook.expected_level`). It is slow, so there is nothing to
    wait for on the way down: guards decide which replica may go, and when. An owner who comes back does not wait for
    the level: of its own replicas it is owed as many as are busy or as votes ask for (`owed`). The room for bursts is
    not owed: the model that gains most from it has it. Were it owed, three models that own a third of 24 GPUs each, one
    of which surges, would be 25 % late instead of 3 %; were every vote owed at once, 6 % with four times the moves.
    """
    of = of.at_work()
    model, memory, level, own = of.entry, of.memory, outlook.expected_level, of.entry.entitlement
    seen = crossed(outlook, of.work, memory.owed, surge=of.surges)
    due = owed(memory.owed, seen.of(own), min(own, ballot.need or 0), of.cooldown_seconds, of.now)
    need = need_of(level)
    words = f"its expected level, {work_of(level)}, needs {min(need, model.max_replicas)}, with room for bursts"
    if due.replicas > need:
        words += f"; its work or its votes claim {due.replicas} of the {own} that it owns"
    need = max(model.min_replicas, min(max(need, due.replicas), model.max_replicas))
    busy = due.replicas if due.replicas < own else max(own, seen.busy)
    demand = Demand(need, unknown=False, surge=of.surges, why=words, busy=busy)
    return demand, _settled(memory if memory.owed == due else replace(memory, owed=due), need)


def _settled(memory: ModelMemory, demand: int) -> ModelMemory:
    """`demand` is in force, and no vote waits to be patient enough."""
    if memory.demand == demand and memory.higher_since is None and memory.lower_since is None:
        return memory
    return replace(memory, lower_since=None, higher_since=None, demand=demand)


def calm(work: Work, memory: ModelMemory, rules: SurgeRules) -> bool:
    """Whether no surge lasts or begins; then what is foreseen does not depend on the instant."""
    if memory.surge_since is not None:
        return False
    if work.short is None or work.long is None or work.short < rules.enter_ratio * work.long:
        return True
    return replicas_for(work.short) <= replicas_for(work.long)


def doubted(of: Stance, has: int) -> tuple[Demand, ModelMemory]:
    """Demand of a model whose offered work is not plausible, and its memory afterwards: no less than before."""
    of = of.at_work()
    held = max(has, of.entry.min_replicas, 0 if of.memory.demand is None else of.memory.demand)
    why = "its work jumped beyond what is plausible, so it keeps what it has"
    return Demand(held, unknown=False, surge=of.surges, why=why), _settled(of.memory, held)


def woken(of: Stance) -> tuple[Demand, ModelMemory]:
    """Demand of a model without a replica that has requests and no vote, and its memory afterwards: the first replica.

    Most signals are read off replicas, and what one carries is learnt from them: without that one none ever votes.
    """
    of = of.at_work()
    first = max(1, of.entry.min_replicas)
    why = "it has requests and no replica, without which nobody knows how many it needs"
    return Demand(first, unknown=False, surge=of.surges, why=why), _settled(of.memory, first)


def _rise(of: Stance, need: int, in_force: int) -> tuple[Demand, ModelMemory]:
    """Demand where the votes ask for `need`, no less than `in_force`, and the model's memory afterwards.

    It rises to the model's entitlement at once; beyond that in a surge, or when the votes have stood for a planning
    period.
    """
    memory, period = of.memory, of.policy.plan_every_seconds
    granted = Demand(need, unknown=False, surge=of.surges, why=f"its votes ask for {replicas(need)}")
    if need == in_force:
        return granted, _settled(memory, need)
    since = of.now if memory.higher_since is None else memory.higher_since
    own = min(need, max(in_force, of.entry.entitlement))
    if need > own and not of.surges and of.now - since < period:
        why = f"its votes ask for {replicas(need)}; borrowing waits {period:.0f} s outside a surge"
        return Demand(own, unknown=False, surge=False, why=why), replace(
            memory, lower_since=None, higher_since=since, demand=own
        )
    return granted, _settled(memory, need)


def _fall(of: Stance, need: int, in_force: int, ballot: Ballot) -> tuple[Demand, ModelMemory]:
    """Demand where the votes ask for `need`, less than `in_force`, and the model's memory afterwards.

    It stays `in_force` while the votes do not agree to fewer, and until they have asked for fewer, and nothing has
    moved for the model, throughout its cooldown. Then it falls to the highest vote of that time, and a new
    cooldown begins. Of its own none goes in a surge, and not the one that requests may ask for again by chance: work
    that hovers at a replica's capacity would lend it and call it home in turns.
    """
    memory, now, cooldown, surge = replace(of.memory, higher_since=None), of.now, of.cooldown_seconds, of.surges
    if not ballot.may_fall:
        stays = f"none goes {UNTIL_LEARNT}" if ballot.unlearnt else "to go down, votes must agree"
        why = f"a vote asks for only {replicas(need)}; {stays}"
        return Demand(in_force, unknown=False, surge=surge, why=why), replace(memory, lower_since=None, demand=in_force)
    rising = surge and of.work.short is not None  # of unknown work nobody knows when a surge is over
    enough = max(need, min(in_force if rising else ballot.enough, of.entry.entitlement))
    if enough >= in_force:
        stays = "; in a surge it keeps its own" if rising else ", and by chance for 1 more"
        why = f"its votes ask for only {replicas(need)}{stays}"
        return Demand(in_force, unknown=False, surge=surge, why=why), replace(memory, lower_since=None, demand=in_force)
    since = now if memory.lower_since is None else memory.lower_since
    peak = enough if memory.lower_since is None else max(enough, memory.lower_peak)
    moved = memory.last_move_at
    patient = now - since >= cooldown and (moved is None or now - moved >= cooldown)
    if not patient:
        left = max(since, moved or since) + cooldown - now
        why = f"its votes ask for only {replicas(need)}; its cooldown lasts {left:.0f} s more"
        return Demand(in_force, unknown=False, surge=surge, why=why), replace(
            memory, lower_since=since, lower_peak=peak, demand=in_force
        )
    return Demand(peak, unknown=False, surge=surge, why=f"its votes ask for {replicas(peak)}"), replace(
        memory, lower_since=now, lower_peak=enough, demand=peak
    )


def _surge(of: Stance) -> ModelMemory:
    """The model's memory with its surge as its work leaves it now.

    A surge begins when the short window is enterRatio times the long one and needs at least one replica more. It ends
    when the short window has been below leaveRatio times the long one for leaveAfterSeconds; of work that is unknown
    nobody sees that, so there it ends after the cooldown of the class, too.
    """
    memory, work, rules, now = of.memory, of.work, of.policy.surge, of.now
    if calm(work, memory, rules):
        return memory
    if memory.surge_since is None:
        return replace(memory, surge_since=now, calm_since=None)
    ends_after = rules.leave_after_seconds
    if work.short is None or work.long is None:
        ends_after = max(ends_after, of.cooldown_seconds)
    elif work.short >= rules.leave_ratio * work.long:
        return replace(memory, calm_since=None) if memory.calm_since is not None else memory
    since = now if memory.calm_since is None else memory.calm_since
    if now - since >= ends_after:
        return replace(memory, surge_since=None, calm_since=None)
    return replace(memory, calm_since=since)
