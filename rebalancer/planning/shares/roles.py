"""What two roles of a couple are to have, once each has its share: a pair within their ratio, as far as one can be.

By shares the richer role gives up what the other does not bear: it is worth nothing. By votes the poorer one is to have
as many as the other needs. Who cannot move, since a person holds it, others write it or nobody sees it, stays; then the
other one goes along. Who is capped by a person takes the other's most along with it.
"""

from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.couples import Couple, couples
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.shares.before_gain import own
from rebalancer.planning.shares.share import ModelShare


class _Range(NamedTuple):
    """What a role would have by itself, and the least and most that it can have."""

    aim: int
    least: int
    most: int


def bind(scene: Scene[ModelShare]) -> Scene[ModelShare]:
    """The scene in which the aims of couples are within their ratios."""
    models = dict(scene.models)
    for couple in dict.fromkeys(scene.memo.of("", couples, scene.policy).values()):
        of, to = models[couple.of], models[couple.to]
        most_of = max(of.floor, min(of.most_replicas, couple.span(couple.of, to.most_replicas)[1]))
        most_to = max(to.floor, min(to.most_replicas, couple.span(couple.to, of.most_replicas)[1]))
        aims = _pair(couple, _range(of, most_of), _range(to, most_to), by_worth=None not in (of.share, to.share))
        models[couple.of], models[couple.to] = _with(of, aims[0], most_of), _with(to, aims[1], most_to)
    return scene.with_models(models.values())


def _range(model: ModelShare, most: int) -> _Range:
    ruling = model.ruling
    held = ruling.frozen is not None or ruling.paused is not None
    if held or all(target.stuck is not None for target in model.targets):
        return _Range(model.staying_replicas, model.staying_replicas, model.staying_replicas)
    if model.ballot.blind:
        return _Range(model.aim, model.aim, model.aim)
    least = min(own(model), most)
    return _Range(max(least, min(model.aim, most)), least, most)


def _pair(couple: Couple, of: _Range, to: _Range, *, by_worth: bool) -> tuple[int, int]:
    """Aims within the ratio: the richer with less, or the poorer with more; both as far as one alone does not do."""
    aims = of.aim, to.aim
    for lowers in (by_worth, not by_worth, by_worth):
        if couple.excess(couple.of, *aims) == 0.0:
            break
        aims = _lowered(couple, of, to, aims) if lowers else _raised(couple, of, to, aims)
    return aims


def _lowered(couple: Couple, of: _Range, to: _Range, aims: tuple[int, int]) -> tuple[int, int]:
    most_of, most_to = couple.span(couple.of, aims[1])[1], couple.span(couple.to, aims[0])[1]
    return min(aims[0], max(of.least, most_of)), min(aims[1], max(to.least, most_to))


def _raised(couple: Couple, of: _Range, to: _Range, aims: tuple[int, int]) -> tuple[int, int]:
    least_of, least_to = couple.span(couple.of, aims[1])[0], couple.span(couple.to, aims[0])[0]
    return max(aims[0], min(of.most, least_of)), max(aims[1], min(to.most, least_to))


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
