"""Room that nobody needs does not go to and fro at constant load.

Replays of the look-ahead are two minutes apart and slide over the past: what happened falls now between them, now into
one, and what a replica more or less is worth swings with them. That alone moved replicas of models that had all they
needed to and fro every two minutes, for as long as a step in the load was remembered; and one that two models want for
their bursts, as often. So who gave a replica has no share beyond its demand for ten minutes, and, as long as it has
room for its present work, takes nothing that another's demand covers. Whoever gave, got and gave again without a surge
was wrong by its forecast: each time it is content for twice as long, up to 80 minutes. And what was given for somebody
whom it is worth less for a moment lies idle for two minutes, rather than that who gave it starts replicas in it.
What was given to a surge is no swing: its donor waits for nothing once the surge is over. Else a burst of two minutes
held for ten what it had taken, and the donor's own burst met too few (fifty worlds of bursts: 2.6 and 2.0 % late).

Replays that stand still, and errors that are remembered from one to the next, end it too, and cost 0.7 to 0.9 points of
late requests in S7 at 24 GPUs: there room goes step by step to the model that surges next. So does, with 0.5 points, a
forecast that must have stood for two minutes. What stands here costs 0.03 points there for who gave, and 0.04 for
patience and doubling (six rows, from 0.09 less to 0.17 more), with 2 to 7 % fewer starts.
"""

import math
from collections.abc import Collection, Iterator

from msgspec.structs import replace

from rebalancer.domain.memory import ModelMemory, Shift
from rebalancer.planning.demand.votes import ROUNDING
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.shares.share import ModelShare

GAVE_SECONDS = 600.0  # who gave is content with its demand for so long; a surge of ten minutes lends for as long
MOST_DOUBLINGS = 3  # of these ten minutes: replays reach back an hour
# Roots of its work with which a donor has room. With the 1.5 of demand slow ramps come twice as late (1.5 to 3.0 %).
BURST_ROOTS = 0.5
STANDS_SECONDS = 120.0  # from replay to replay: what is surplus in between only is none
LIKELY = 0.02  # a shift of the level; below it the look-ahead plays none


def damp(scene: Scene[ModelShare]) -> Scene[ModelShare]:
    """The scene in which recent donors have no share beyond their demand, and surplus must have lasted for two minutes.

    A surge, or a likely one, waits for nothing. What is remembered of a model says since when its share is below what
    it has, and how often it has swung.
    """
    giving = givers(scene)
    damped = [_damped(model, scene.now, giving) for model in scene.models.values()]
    return scene.with_models(damped)


def givers(scene: Scene[ModelShare]) -> frozenset[str]:
    """Ids of models that gave replicas in the last two minutes for which nobody has been granted one yet."""
    return frozenset(name for shift in _ungranted(scene) for name in shift.donors)


def awaiting(scene: Scene[ModelShare]) -> frozenset[str]:
    """Ids of the models for which they gave: what their shares do not want any more would go back at the next look."""
    return frozenset(shift.recipient for shift in _ungranted(scene))


def _ungranted(scene: Scene[ModelShare]) -> Iterator[Shift]:
    for shift in scene.memory.shifts:
        if shift.granted_at is None and scene.now - shift.opened_at < STANDS_SECONDS:
            yield shift


def _damped(model: ModelShare, now: float, giving: Collection[str]) -> ModelShare:
    memory, share, stays = model.remembered, model.share, model.kept_replicas
    since, swung = _spare_since(model, memory, now), 0 if _surges(model) else memory.swung
    if since is not None and now - since < STANDS_SECONDS:
        stays = model.staying_replicas
    until = None if share is None else _content_until(model, memory, now)
    if share is not None and until is not None:
        share = min(share, max(model.committed_replicas, model.demand.replicas, model.own, model.used, model.part))
    if until is not None and not _has_room(model):
        until = None
    if share is not None and until is not None and model.entry.id in giving:
        share = min(share, model.committed_replicas)
    if (since, swung) != (memory.spare_since, memory.swung):
        memory = replace(memory, spare_since=since, swung=swung)
    elif share == model.share and stays == model.kept_replicas and until is None:
        return model
    return replace(model, remembered=memory, share=share, kept_replicas=stays, patient_until=until)


def _content_until(model: ModelShare, memory: ModelMemory, now: float) -> float | None:
    """The instant up to which a model that gave a replica asks for no more than its demand; None where that is over."""
    if memory.gave_at is None or _surges(model):
        return None
    until = memory.gave_at + GAVE_SECONDS * 2 ** min(memory.swung, MOST_DOUBLINGS)
    return until if now < until else None


def _has_room(model: ModelShare) -> bool:
    """Whether it has replicas for its work, as it is and as it is expected, and half a root of it for bursts."""
    work, outlook = model.load.work, model.load.outlook
    level = max(work.short or 0.0, work.last_60s or 0.0, 0.0 if outlook is None else outlook.level)
    return model.committed_replicas >= level + BURST_ROOTS * math.sqrt(level) - ROUNDING


def _spare_since(model: ModelShare, memory: ModelMemory, now: float) -> float | None:
    if model.share is None or model.share >= model.committed_replicas:
        return None
    return now if memory.spare_since is None else memory.spare_since


def _surges(model: ModelShare) -> bool:
    outlook = model.load.outlook
    return model.demand.surge or (outlook is not None and outlook.shift >= LIKELY)
