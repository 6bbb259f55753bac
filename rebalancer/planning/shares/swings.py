"""Room that nobody needs does not go to and fro at constant load.

Replays of the look-ahead are two minutes apart and slide over the past: what happened falls now between them, now into
one, and what a replica more or less is worth swings with them. That alone moved replicas of models that had all they
needed to and fro every two minutes, for as long as a step in the load was remembered. Replays that stand still, and
errors that are remembered from one to the next, end it too, and cost 0.7 to 0.9 points of late requests in S7 at 24
GPUs: there room goes step by step to the model that surges next. This costs 0.03 points (1.78 to 1.81 %, three draws).
"""

from msgspec.structs import replace

from rebalancer.domain.memory import ModelMemory
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.shares.before_gain import own
from rebalancer.planning.shares.share import ModelShare

GAVE_SECONDS = 600.0  # who gave is content with its demand for so long; a surge of ten minutes lends for as long
STANDS_SECONDS = 120.0  # from replay to replay: what is surplus in between only is none
LIKELY = 0.02  # a shift of the level; below it the look-ahead plays none


def damp(scene: Scene[ModelShare]) -> Scene[ModelShare]:
    """The scene in which recent givers have no share beyond their demand, and surplus must have lasted for two minutes.

    A surge, or a likely one, waits for nothing. What is remembered of a model says since when its share is below what
    it has.
    """
    return scene.with_models(_damped(model, scene.now) for model in scene.models.values())


def _damped(model: ModelShare, now: float) -> ModelShare:
    memory, share, stays = model.remembered, model.share, model.kept_replicas
    since = _spare_since(model, memory, now)
    if since is not None and now - since < STANDS_SECONDS:
        stays = model.staying_replicas
    if share is not None and memory.gave_at is not None and now - memory.gave_at < GAVE_SECONDS and not _surges(model):
        share = min(share, max(model.committed_replicas, model.demand.replicas, own(model), model.used))
    if since == memory.spare_since and share == model.share and stays == model.kept_replicas:
        return model
    memory = memory if since == memory.spare_since else replace(memory, spare_since=since)
    return replace(model, remembered=memory, share=share, kept_replicas=stays)


def _spare_since(model: ModelShare, memory: ModelMemory, now: float) -> float | None:
    if model.share is None or model.share >= model.committed_replicas:
        return None
    return now if memory.spare_since is None else memory.spare_since


def _surges(model: ModelShare) -> bool:
    outlook = model.load.outlook
    return model.demand.surge or (outlook is not None and outlook.shift >= LIKELY)
