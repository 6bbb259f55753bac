"""The lower bounds of a model's autoscalers, so that no HPA gives away replicas that the model is to have.

Where the budget is fixed, and for the roles of a couple, the minimum is the grant (minimum = maximum pins the number).
Where nodes can go it is the demand, less the replicas that the model's other targets have already, so that the sum of
minimums never falls under the floor; of a model that a person froze it is what runs. A minimum that falls is a decrease
for every guard, since the autoscaler may follow it; while a guard forbids the decrease, the minimum stays. It falls to
0 for a last replica that nobody needs, where its people let it sleep: when it goes and when it comes back is the
autoscaler's own choice then.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from rebalancer.domain.couples import couples
from rebalancer.domain.plan import Refusal
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.guards.guards import judge
from rebalancer.planning.guards.release import Purpose, Release, Tally
from rebalancer.planning.shares.share import ModelShare

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class After:
    """A target once this plan is written.

    desired_replicas: replicas that it asks for.
    staying_replicas: those of them that are not doomed.
    doomed_gone: doomed replicas that the plan takes off.
    """

    desired_replicas: int
    staying_replicas: int
    doomed_gone: int = 0


def wanted_minimums(scene: Scene[ModelShare], model: ModelShare, after: dict[Key, After]) -> dict[Key, int]:
    """Lower bounds as demand wants them, before guards, for every target of the model that an autoscaler owns."""
    needed = max(model.demand.replicas, model.floor)
    follows = [target for target in model.targets if _follows_demand(scene, target)]
    needed -= sum(after[target.key].staying_replicas for target in model.targets if target not in follows)
    minimums = {
        target.key: max(target.least, after[target.key].desired_replicas)
        for target in model.targets
        if target.owner is not None
    }
    frozen = model.ruling.frozen is not None
    for target in follows:
        then, minimum = after[target.key], target.owner.minimum if target.owner is not None else 0
        runs = max(minimum, target.view.replicas)
        own = max(0, min(then.staying_replicas, runs if frozen else needed))
        needed -= own
        unseen = minimum if model.demand.unknown and not frozen else 0
        minimums[target.key] = min(
            minimums[target.key], max(target.least, unseen or own + then.desired_replicas - then.staying_replicas)
        )
    return minimums | dict.fromkeys((target.key for target in _sleepers(scene, model, after)), 0)


def _sleepers(scene: Scene[ModelShare], model: ModelShare, after: dict[Key, After]) -> Iterator[TargetFacts]:
    """The targets whose last replica nobody needs, of those whose autoscalers may let it go and bring it back.

    Beside a maximum of 1 alone: with a minimum of 0 KEDA ends all that run at once. What is granted is woken by its
    minimum, though no share is for it: beside one of 0 it would be granted for ever.
    """
    if model.demand.unknown or model.ruling.frozen is not None or _coupled(scene, model.entry.id):
        return
    last = [
        target
        for target in model.targets
        if target.owner is not None and target.owner.sleeps and after[target.key].desired_replicas == 1
        if target.desired_replicas > 0
    ]
    needed = max(model.aim, model.kept_replicas, model.floor)
    needed -= sum(after[target.key].staying_replicas for target in model.targets if target not in last)
    for target in last:
        if needed <= 0:
            yield target
        needed -= after[target.key].staying_replicas


def _coupled(scene: Scene[ModelShare], model: str) -> bool:
    """Whether it is one of two roles: an HPA knows no ratio."""
    return model in scene.memo.of("", couples, scene.policy)


def _follows_demand(scene: Scene[ModelShare], target: TargetFacts) -> bool:
    state = scene.pools.get(target.pool)
    return target.owner is not None and state is not None and state.priced and not _coupled(scene, target.model)


def kept_minimum(target: TargetFacts, then: After, wanted: int) -> int:
    """The minimum beside another change of the target, in replicas: it falls only with the maximum and doomed pods."""
    if target.owner is None:
        return then.desired_replicas
    return max(wanted, min(then.desired_replicas, target.owner.minimum - then.doomed_gone))


@dataclass(frozen=True, slots=True)
class Lowered:
    """How far guards let a target's minimum fall.

    minimum: the minimum it may have, in replicas.
    counts: the window that the fall uses up, `step` or `exempt`; None: it did not fall.
    counted: replicas by which the window `step` is used up.
    refusal: why it falls no further, None where it falls as far as was wanted.
    """

    minimum: int
    counts: str | None
    counted: int
    refusal: Refusal | None


def lower(scene: Scene[ModelShare], tally: Tally, target: TargetFacts, before: int, wanted: int) -> Lowered:
    """Let the target's minimum fall from `before` towards `wanted`, one replica at a time."""
    counted, refusal, minimum = 0, None, before
    while minimum > wanted and refusal is None:
        release = Release(scene, tally, target, Purpose.MINIMUM)
        refusal = judge(release)
        if refusal is None:
            counted += release.counts == "step"
            tally.book(release)
            minimum -= 1
    if refusal is not None:
        refusal = replace(refusal, replicas_to=refusal.replicas_from - (minimum - wanted))
    fell = "step" if counted else "exempt"
    return Lowered(minimum, fell if minimum < before else None, counted, refusal)
