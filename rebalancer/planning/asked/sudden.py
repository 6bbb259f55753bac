"""Watches for the guard `sudden`: demand that falls at once in most models is an outage in front of them, not calm.

What a model was offered is noted a few times per window and compared with its last minute. After an outage was seen
the notes begin anew, so that only a further fall prolongs it.
"""

from msgspec.structs import replace

from rebalancer.domain.memory import Level, Memory, ModelMemory, Outage
from rebalancer.domain.policy import Policy, SuddenRule
from rebalancer.domain.snapshot import Snapshot

_NOTHING = ModelMemory()
NOTES = 4  # per window: a fall that took three quarters of it is seen in any case


def watch(memory: Memory, snapshot: Snapshot, policy: Policy) -> Memory:
    """Memory with what was offered lately, and with the outage that this shows."""
    rule, now = policy.guards.sudden, snapshot.at
    fell = of = 0
    for load in snapshot.loads:
        kept, work = memory.models.get(load.model), load.work.last_60s
        if kept is None or work is None:
            continue
        levels = [level.work for level in kept.levels if now - level.at <= rule.window_seconds]
        most = max(levels) if levels else 0.0
        if most >= rule.least_work:
            of += 1
            fell += work <= (1.0 - rule.drop) * most
    outage = fell > rule.models * of
    if outage:
        memory = replace(memory, outage=Outage(now, now + rule.hold_seconds, fell, of))
    elif memory.outage is not None and now >= memory.outage.until:
        memory = replace(memory, outage=None)
    noted = _notes(memory, snapshot, rule, anew=outage)
    return replace(memory, models=dict(sorted({**memory.models, **noted}.items()))) if noted else memory


def _notes(memory: Memory, snapshot: Snapshot, rule: SuddenRule, *, anew: bool) -> dict[str, ModelMemory]:
    """The models whose work is to be noted now, with the note."""
    now, found = snapshot.at, {}
    for load in snapshot.loads:
        work, kept = load.work.last_60s, memory.models.get(load.model, _NOTHING)
        if work is None or not (anew or not kept.levels or now - kept.levels[-1].at >= rule.window_seconds / NOTES):
            continue
        recent = () if anew else tuple(level for level in kept.levels if now - level.at <= rule.window_seconds)
        found[load.model] = replace(kept, levels=(*recent, Level(now, work)))
    return found
