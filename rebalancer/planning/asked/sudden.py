"""Watches for the guard `sudden`: demand that falls at once in most models is an outage in front of them, not calm.

What a model was offered is noted a few times per window and compared with its last minute. After an outage was seen
the notes begin anew, so that only a further fall prolongs it. A model that fell like this by itself lately says nothing
about what is in front of it: two bursty models, each idle half of the time, were held still for 15 minutes at a time by
nothing but their own pauses (64 % late requests instead of 58 %).

An outage concerns those whose silence could be its own: who fell, for as long as their work is not back. A model that
rises meanwhile speaks against it: requests come through, and users went from the ones to the other. Three models that
end while a fourth begins were held still for 15 minutes beside one that was short: 34 % late requests instead of 9 %.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from rebalancer.domain.memory import Level, Memory, ModelMemory, Outage, Silent
from rebalancer.domain.policy import Policy, SuddenRule
from rebalancer.domain.readings import ModelLoad, Work
from rebalancer.domain.snapshot import Snapshot

_NOTHING = ModelMemory()
NOTES = 4  # per window: a fall that took three quarters of it is seen in any case


def watch(memory: Memory, snapshot: Snapshot, policy: Policy) -> Memory:
    """Memory with what was offered lately and who fell by itself, and with the outage that this shows."""
    rule, now = policy.guards.sudden, snapshot.at
    before = memory.outage if memory.outage is not None and now < memory.outage.until else None
    fell = {load.model: _fell(memory.models.get(load.model), load, rule, now) for load in snapshot.loads}
    telling = [gone for model, gone in fell.items() if gone is not None and not _usual(memory, model, rule, now)]
    together = sum(telling) >= rule.least_models and sum(telling) > rule.models * len(telling)
    against = (before is not None or together) and _somebody_rises(snapshot, fell, before, rule)
    begins = together and not against
    outage = Outage(now, now + rule.hold_seconds, sum(telling), len(telling)) if begins else before
    if outage is not None:
        outage = None if against else replace(outage, silent=_silent(memory, before, fell, rule, now))
    noted = _notes(memory, snapshot, fell, rule, anew=begins)
    memory = memory if outage == memory.outage else replace(memory, outage=outage)
    return replace(memory, models=dict(sorted({**memory.models, **noted}.items()))) if noted else memory


def silent(outage: Outage | None, model: str, work: Work, rule: SuddenRule, now: float) -> Silent | None:
    """What the model had before the outage that its silence could be; None: there is none, or it is heard.

    An outage that names nobody, from a checkpoint of an older version, concerns everybody.
    """
    if outage is None or now >= outage.until:
        return None
    if not outage.silent:
        return Silent(model)
    known = next((one for one in outage.silent if one.model == model), None)
    if known is None or (work.last_60s is not None and work.last_60s > (1.0 - rule.drop) * known.work):
        return None
    return known


def _silent(
    memory: Memory, before: Outage | None, fell: Mapping[str, bool | None], rule: SuddenRule, now: float
) -> tuple[Silent, ...]:
    """Who fell, by name, with the most it had: those of before, and whoever follows while the outage lasts."""
    if before is not None and not before.silent:
        return ()
    had = {one.model: one.work for one in before.silent} if before is not None else {}
    for model in [model for model, gone in fell.items() if gone]:
        had[model] = max(had.get(model, 0.0), _most(memory.models.get(model), rule, now))
    return tuple(Silent(model, work) for model, work in sorted(had.items()))


def _somebody_rises(
    snapshot: Snapshot, fell: Mapping[str, bool | None], outage: Outage | None, rule: SuddenRule
) -> bool:
    """Whether a model gained as large a share of its level as others lost; who fell in the outage only comes back."""
    back = {one.model for one in outage.silent} if outage is not None else set()
    return any(_rises(load.work, rule) for load in snapshot.loads if not fell[load.model] and load.model not in back)


def _rises(work: Work, rule: SuddenRule) -> bool:
    """Its last minute against its means of up to 20 minutes; `least_work` more, as a small model doubles by chance."""
    if work.last_60s is None or work.slow is None:
        return False
    return work.last_60s >= max((1.0 + rule.drop) * work.slow, work.slow + rule.least_work)


def _fell(kept: ModelMemory | None, load: ModelLoad, rule: SuddenRule, now: float) -> bool | None:
    """None: it had no work worth the name, or it is unknown."""
    work, most = load.work.last_60s, _most(kept, rule, now)
    if kept is None or work is None:
        return None
    return work <= (1.0 - rule.drop) * most if most >= rule.least_work else None


def _most(kept: ModelMemory | None, rule: SuddenRule, now: float) -> float:
    """Of the work that was noted within the window; 0.0 where none was."""
    levels = kept.levels if kept is not None else ()
    return max([level.work for level in levels if now - level.at <= rule.window_seconds], default=0.0)


def _usual(memory: Memory, model: str, rule: SuddenRule, now: float) -> bool:
    """Whether it fell like this by itself lately; the fall that goes on is not its own precedent."""
    falls = memory.models.get(model, _NOTHING).falls
    return any(rule.window_seconds < now - at <= rule.usual_seconds for at in falls)


def _notes(
    memory: Memory, snapshot: Snapshot, fell: Mapping[str, bool | None], rule: SuddenRule, *, anew: bool
) -> dict[str, ModelMemory]:
    """The models of which something is to be noted now, with the note."""
    now, found = snapshot.at, {}
    for load in snapshot.loads:
        before = memory.models.get(load.model, _NOTHING)
        kept = _levels(before, load, rule, now, anew=anew)
        kept = _falls(kept, rule, now, fell=bool(fell[load.model]), outage=anew)
        if kept is not before:
            found[load.model] = kept
    return found


def _levels(kept: ModelMemory, load: ModelLoad, rule: SuddenRule, now: float, *, anew: bool) -> ModelMemory:
    work = load.work.last_60s
    if work is None or not (anew or not kept.levels or now - kept.levels[-1].at >= rule.window_seconds / NOTES):
        return kept
    recent = () if anew else tuple(level for level in kept.levels if now - level.at <= rule.window_seconds)
    return replace(kept, levels=(*recent, Level(now, work)))


def _falls(kept: ModelMemory, rule: SuddenRule, now: float, *, fell: bool, outage: bool) -> ModelMemory:
    """One note per fall, none of those that turned out to be part of an outage."""
    past = [at for at in kept.falls if now - at <= rule.usual_seconds]
    if outage:
        past = [at for at in past if now - at > rule.window_seconds]
    elif fell and not (past and now - past[-1] <= rule.window_seconds):
        past = [*past[-1:], now]  # the last two say all that is asked
    return kept if tuple(past) == kept.falls else replace(kept, falls=tuple(past))
