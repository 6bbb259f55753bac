"""What two roles of a couple are to have, once each has its share: a pair within their ratio, as far as one can be.

By shares the richer role gives up what the other does not bear: it is worth nothing. By votes the poorer one is to have
as many as the other needs. Who cannot move, since a person holds it, others write it or nobody sees it, stays; then the
other one goes along. Who is capped by a person takes the other's most along with it.
"""

from msgspec.structs import replace

from rebalancer.domain.couples import Role, couples
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.shares.share import ModelShare


def bind(scene: Scene[ModelShare]) -> Scene[ModelShare]:
    """The scene in which the aims of couples are within their ratios."""
    models = dict(scene.models)
    for couple in dict.fromkeys(scene.memo.of("", couples, scene.policy).values()):
        of, to = models[couple.of], models[couple.to]
        most_of = max(of.floor, couple.most_of(couple.of, of.most_replicas, to.most_replicas))
        most_to = max(to.floor, couple.most_of(couple.to, to.most_replicas, of.most_replicas))
        aims = couple.pair(_role(of, most_of), _role(to, most_to), by_worth=None not in (of.share, to.share))
        models[couple.of], models[couple.to] = _with(of, aims[0], most_of), _with(to, aims[1], most_to)
    return scene.with_models(models.values())


def _role(model: ModelShare, most: int) -> Role:
    ruling = model.ruling
    held = ruling.frozen is not None or ruling.paused is not None
    if held or all(target.stuck is not None for target in model.targets):
        return Role(model.staying_replicas, model.staying_replicas, model.staying_replicas)
    if model.ballot.blind:
        return Role(model.aim, model.aim, model.aim)
    least = min(model.own, most)
    return Role(max(least, min(model.aim, most)), least, most)


def _with(model: ModelShare, aim: int, most: int) -> ModelShare:
    """The model with that aim and that most; what it would have by itself is told."""
    if aim == model.aim and most == model.most_replicas:
        return model
    alone, demand = (None if aim == model.aim else model.aim), model.demand
    if model.share is None:
        demand = replace(demand, replicas=aim)
    if demand.busy is not None:
        demand = replace(demand, busy=min(demand.busy, aim))
    share = None if model.share is None else aim
    return replace(model, share=share, demand=demand, most_replicas=most, alone=alone)
