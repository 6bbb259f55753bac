"""What is known of each model: what it holds, its load and memory, and what people rule."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import asdict

from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning.facts.scene import Holding, ModelFacts, TargetFacts, highest, precedence
from rebalancer.planning.overrides.rulings import NO_RULING, Ruling


def models_of(
    snapshot: Snapshot,
    policy: Policy,
    memory: Memory,
    rulings: Mapping[str, Ruling],
    holdings: Mapping[str, Holding],
) -> Iterator[ModelFacts]:
    """The facts of each model of the policy, in its order."""
    loads = {load.model: load for load in snapshot.loads}
    ranks = highest(snapshot.ranks)
    for model in policy.models:
        name = model.id
        ruling = rulings.get(name, NO_RULING)
        reachable = _reachable(model, holdings[name].targets)
        yield ModelFacts(
            **asdict(holdings[name]),
            entry=reachable,
            load=loads.get(name) or ModelLoad(model=name),
            memory=memory.models.get(name) or ModelMemory(),
            ruling=ruling,
            most_replicas=ruling.wanted(reachable, reachable.max_replicas),
            precedence=precedence(model, ranks),
        )


def _reachable(model: Model, targets: Sequence[TargetFacts]) -> Model:
    """The model, with no more replicas than its ScaledObjects go to where those follow our answer."""
    views = [target.view for target in targets]
    followed = [each.autoscaler.maximum for each in views if each.autoscaler is not None and each.by_metric]
    if not followed or len(followed) < len(views) or sum(followed) >= model.max_replicas:
        return model
    return model.model_copy(update={"max_replicas": max(model.min_replicas, sum(followed))})
