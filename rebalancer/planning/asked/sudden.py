"""Watches for the guard `sudden`: demand that falls at once in most models is an outage in front of them, not calm.

What a model was offered is noted a few times per window and compared with its last minute. After an outage was seen
the notes begin anew, so that only a further fall prolongs it. A model that fell like this by itself lately says nothing
about what is in front of it: two bursty models, each idle half of the time, were held still for 15 minutes at a time by
nothing but their own pauses (64 % late requests instead of 58 %).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from rebalancer.domain.memory import Level, Memory, ModelMemory, Outage
from rebalancer.domain.policy import Policy, SuddenRule
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import Snapshot

_NOTHING = ModelMemory()
NOTES = 4  # per window: a fall that took three quarters of it is seen in any case


def watch(memory: Memory, snapshot: Snapshot, policy: Policy) -> Memory:
    """Memory with what was offered lately and who fell by itself, and with the outage that this shows."""
    rule, now = policy.guards.sudden, snapshot.at
    fell = {load.model: _fell(memory.models.get(load.model), load, rule, now) for load in snapshot.loads}
    telling = [gone for model, gone in fell.items() if gone is not None and not _usual(memory, model, rule, now)]
    outage = sum(telling) >= rule.least_models and sum(telling) > rule.models * len(telling)
    if outage:
        memory = replace(memory, outage=Outage(now, now + rule.hold_seconds, sum(telling), len(telling)))
    elif memory.outage is not None and now >= memory.outage.until:
        memory = replace(memory, outage=None)
    noted = _notes(memory, snapshot, fell, rule, anew=outage)
    return replace(memory, models=dict(sorted({**memory.models, **noted}.items()))) if noted else memory


def _fell(kept: ModelMemory | None, load: ModelLoad, rule: SuddenRule, now: float) -> bool | None:
    """None: it had no work worth the name, or it is unknown."""
    work = load.work.last_60s
    if kept is None or work is None:
        return None
    most = max([level.work for level in kept.levels if now - level.at <= rule.window_seconds], default=0.0)
    return work <= (1.0 - rule.drop) * most if most >= rule.least_work else None


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
