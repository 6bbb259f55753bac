"""GPUs that nobody's share can use, because it fits on no node of them: they are lent all the same.

Who gains most per GPU from the one that is free gets it, but for who has just given it (`swings.givers`): what it is
worth to its recipient may be back at the next replay. A share that needs such GPUs takes them back: above its own share
every model gives. So a model that may run on two pools moves to the one with free GPUs, and one that may run on the
other alone gets what is free there by that. Where nodes come and go for money, a replica must gain what it costs.
"""

import heapq

from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.allocation.unit import Unit
from rebalancer.planning.facts.scene import TargetFacts
from rebalancer.planning.shares.by_worth import cost_of_one, next_gain
from rebalancer.planning.shares.curves import LEAST_GAIN
from rebalancer.planning.shares.share import ModelShare
from rebalancer.planning.shares.swings import givers

IDLE = "idle"  # the last tier


def fill(seating: Seating) -> list[Unit]:
    """One replica after another for whom it is worth most, into GPUs that are free on nodes that are there."""
    units: list[Unit] = []
    tight: set[object] = set()  # kinds of pods that fit nowhere any more
    queue: list[tuple[float, str]] = []
    if not any(_idle(pool, seating) for pool in seating.capacity):
        return units
    giving = givers(seating.scene)
    for name, model in seating.scene.models.items():
        if name not in giving:
            _enter(queue, name, model, seating)
    heapq.heapify(queue)
    while queue:
        loss, name = heapq.heappop(queue)
        model = seating.scene.models[name]
        pays = -loss * model.gpus > cost_of_one(model)
        targets = (target for target in model.targets if pays or not seating.scene.pools[target.pool].priced)
        unit = next((seat for target in targets if (seat := _seated(target, model, seating, tight))), None)
        if unit is not None:
            units.append(unit)
            seating.gained[name] += 1
            left: list[tuple[float, str]] = []
            _enter(left, name, model, seating)
            for entry in left:
                heapq.heappush(queue, entry)
    return units


def _idle(pool: str, seating: Seating) -> bool:
    state = seating.scene.pools.get(pool)
    return state is not None and state.budget is not None and seating.capacity[pool] > 0


def _enter(queue: list[tuple[float, str]], name: str, model: ModelShare, seating: Seating) -> None:
    """A model that shares, gives nothing in this plan, and has all of its share that can be placed."""
    if model.share is None or seating.gone[name] or not any(_idle(target.pool, seating) for target in model.targets):
        return
    gain = next_gain(model, model.staying_replicas + seating.gained[name], seating.scene.memo)
    if gain > LEAST_GAIN:
        queue.append((-gain, name))


def _seated(target: TargetFacts, model: ModelShare, seating: Seating, tight: set[object]) -> Unit | None:
    kind = seating.kind(target, model.ruling.excluded_nodes)
    if kind in tight or not _idle(target.pool, seating) or not seating.open_to(target, model):
        return None
    if not seating.let_in(target):
        return None
    if seating.capacity[target.pool] >= target.gpus:
        priced = seating.scene.pools[target.pool].priced
        for now, source in ((True, "free"),) if priced else ((True, "free"), (False, "soon")):
            nodes = seating.fit(target, model.ruling.excluded_nodes, now=now)
            if nodes:
                seating.seat(target, nodes)
                return Unit(target, IDLE, source, nodes)
    tight.add(kind)
    return None


def paid_for(model: ModelShare, least: int, seating: Seating) -> int:
    """Replicas of those there are that are no surplus where each costs money: `least`, and what gains its cost."""
    count, memo = least, seating.scene.memo
    while count < model.staying_replicas and next_gain(model, count, memo) * model.gpus > cost_of_one(model):
        count += 1
    return count
