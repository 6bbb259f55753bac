"""What nobody gains from goes to models that take what is idle: workers of training and batch jobs.

In their pools a GPU has a price, as where nodes can go (`costWeight`): a model gives up what keeps next to nothing from
being late. What is free then, beyond what others are still to have, is offered once it has been for a cooldown of class
batch: who starts workers for less kills them again before they have done anything. A taker needs nothing and owns
nothing, so whoever lacks a replica gets its GPUs before anybody else's, and it is never short.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from rebalancer.planning.facts.scene import PoolFacts, Scene, TargetFacts
from rebalancer.planning.shares.share import ModelShare


def offer(scene: Scene[ModelShare]) -> Scene[ModelShare]:
    """The scene in which takers have what they hold as their share, and what has been idle for long enough."""
    takers = [model for model in scene.models_by_priority if model.entry.takes_idle]
    if not takers:
        return scene
    models, idle = dict(scene.models), Counter(dict(_idle(scene)))
    for model in takers:
        models[model.entry.id] = _offered(model, scene, idle)
    return scene.with_models(models.values())


def _idle(scene: Scene[ModelShare]) -> Iterator[tuple[str, int]]:
    """GPUs by pool that nobody holds, was promised or is to have."""
    wanted: Counter[str] = Counter()
    for model in scene.models.values():
        lacks = max(model.floor, model.aim, model.own) - model.committed_replicas
        if lacks > 0 and not model.entry.takes_idle:
            wanted.update({target.pool: lacks * target.gpus for target in model.targets})
    for name, state in scene.pools.items():
        if state.offered and state.budget is not None:
            yield name, max(0, state.budget - state.promised - wanted[name])


def _offered(model: ModelShare, scene: Scene[ModelShare], idle: Counter[str]) -> ModelShare:
    """The taker with its share, which is taken off `idle`."""
    has, more, now = model.committed_replicas, 0, scene.now
    for target in model.targets:
        fits = min(_fitting(target, scene.pools, idle), model.most_replicas - has - more)
        if fits > 0 and target.stuck is None and target.pool not in model.ruling.excluded_pools:
            idle[target.pool] -= fits * target.gpus
            more += fits
    begun = model.remembered.higher_since
    since = None if not more else now if begun is None else begun
    stands = since is not None and now - since >= scene.policy.classes.batch.cooldown_seconds
    share = max(model.demand.replicas, min(has + more if stands else has, model.most_replicas))
    load = replace(model.load, outlook=None)  # whatever its workers tell: nothing is foreseen of who needs nothing
    return replace(model, load=load, share=share, remembered=replace(model.remembered, higher_since=since))


def _fitting(target: TargetFacts, pools: Mapping[str, PoolFacts], idle: Counter[str]) -> int:
    """Replicas of the target that fit into what is idle of its pool, pod by pod on nodes that receive some."""
    if target.pool not in pools:
        return 0
    pods = sum(max(0, room.now) // target.pod_gpus for room in pools[target.pool].rooms.values())
    return min(idle[target.pool] // target.gpus, pods // target.pods)
