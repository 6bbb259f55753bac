"""GPUs that nobody's share can use, because it fits on no node of them: they are lent all the same.

Who gains most per GPU from the one that is free gets it, but for who has just given it and for whom it was given
(`swings.givers`, `awaiting`): what it is worth to the latter may be back at the next replay, and is its share then. A
share that needs such GPUs takes them back: above its own share every model gives. So a model that may run on two pools
moves to the one with free GPUs, and one that may run on the other alone gets a place there: to the mover a replica is
worth what it is to that one. Where nodes come and go for money, a replica must gain what it costs.
"""

import heapq
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.allocation.unit import Unit
from rebalancer.planning.facts.scene import TargetFacts
from rebalancer.planning.shares.curves import LEAST_GAIN
from rebalancer.planning.shares.gains import next_gain
from rebalancer.planning.shares.prices import cost_of_one
from rebalancer.planning.shares.share import ModelShare
from rebalancer.planning.shares.swings import awaiting, givers

IDLE = "idle"  # the last tier


class Short(NamedTuple):
    """A model that may run on one pool alone and has no place there.

    model: id of the model.
    pool: name of that pool.
    pod_gpus: GPUs that one of its pods needs on one node.
    missing: replicas that it lacks, less those that others have beyond their shares and give there once all serve.
    gain: requests that one GPU more keeps from being late, by priority.
    """

    model: str
    pool: str
    pod_gpus: int
    missing: int
    gain: float


def fill(seating: Seating) -> list[Unit]:
    """One replica after another for whom it is worth most, into GPUs that are free on nodes that are there."""
    units: list[Unit] = []
    tight: set[object] = set()  # kinds of pods that fit nowhere any more
    queue: list[tuple[float, str]] = []
    if not any(_idle(pool, seating) for pool in seating.capacity):
        return units
    swinging, short = givers(seating.scene) | awaiting(seating.scene), confined(seating)
    for name, model in seating.scene.models.items():
        if name not in swinging:
            _enter(queue, name, model, seating, short)
    while queue:
        _, name = heapq.heappop(queue)
        model = seating.scene.models[name]
        # Anew: whoever it would have made room for may have that by now.
        gain, room = _gain(model, model.staying_replicas + seating.gained[name], seating, short)
        pays = gain * model.gpus > cost_of_one(model)
        targets = (target for target in model.targets if pays or not seating.scene.pools[target.pool].priced)
        unit = next((seat for target in targets if (seat := _seated(target, model, seating, tight))), None)
        if unit is not None:
            units.append(unit if room is None else replace(unit, makes_room=(room.model, room.pool)))
            seating.gained[name] += 1
            if short and len(model.targets) > 1:  # one more beyond its share, which it gives where it may
                short = confined(seating)
            _enter(queue, name, model, seating, short)
    return units


def _idle(pool: str, seating: Seating) -> bool:
    state = seating.scene.pools.get(pool)
    return state is not None and state.budget is not None and seating.capacity[pool] > 0


def _enter(
    queue: list[tuple[float, str]], name: str, model: ModelShare, seating: Seating, short: Iterable[Short]
) -> None:
    """A model that shares, gives nothing in this plan, and has all of its share that can be placed."""
    if model.share is None or seating.gone[name] or not any(_idle(target.pool, seating) for target in model.targets):
        return
    gain, _ = _gain(model, model.staying_replicas + seating.gained[name], seating, short)
    if gain > LEAST_GAIN:
        heapq.heappush(queue, (-gain, name))


def _gain(model: ModelShare, count: int, seating: Seating, short: Iterable[Short]) -> tuple[float, Short | None]:
    """The worth of one GPU more than for `count` replicas: to it, or, where that is more, to whom it then makes room.

    As many as it has beyond its share by then are on their way to others already.
    """
    own, beyond = next_gain(model, count, seating.scene.memo), max(0, count - model.aim)
    rooms = [each for each in short if each.missing > 0 and each.gain > own and _places(model, each) > beyond]
    if not rooms or count >= model.most_replicas:
        return own, None
    room = max(rooms, key=lambda each: each.gain)
    return room.gain, room


def _places(model: ModelShare, short: Short) -> int:
    """Replicas of it that serve on that pool, each as much room as one of the short model's pods needs."""
    if len(model.targets) == 1:
        return 0
    here = (each for each in model.targets if each.pool == short.pool and each.stuck is None)
    pods = (pod for each in here if each.pod_gpus >= short.pod_gpus for pod in each.staying_pods)
    return sum(pod.phase == "ready" for pod in pods)


def confined(seating: Seating) -> tuple[Short, ...]:
    """Models that found no place on the only pool on which they may run, by id."""
    short = []
    coming: dict[str, int] = {}  # replicas that others have beyond their shares, by pool
    for name in sorted(seating.lacking):
        model = seating.scene.models[name]
        has = seating.left_of(model) + seating.gained[name]
        if len(model.targets) > 1 or model.share is None or model.ruling.paused is not None or model.aim <= has:
            continue
        (target,) = model.targets
        if target.pool not in coming:
            coming[target.pool] = _beyond(target.pool, seating)
        gain = next_gain(model, has, seating.scene.memo)
        short.append(Short(name, target.pool, target.pod_gpus, model.aim - has - coming[target.pool], gain))
    return tuple(short)


def _beyond(pool: str, seating: Seating) -> int:
    """Replicas that models of the pool have beyond their shares."""
    models = seating.scene.of_pool.get(pool, ())
    return sum(max(0, seating.left_of(one) + seating.gained[one.entry.id] - one.aim) for one in models)


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


def paid_for(model: ModelShare, least: int, seating: Seating, short: Iterable[Short]) -> int:
    """Replicas of those there are that are no surplus where each costs money: `least`, and what gains its cost.

    `short`: as `confined` says; the last of their replicas may be on its way.
    """
    count, waiting = least, [each._replace(missing=1) for each in short]
    while count < model.staying_replicas and _gain(model, count, seating, waiting)[0] * model.gpus > cost_of_one(model):
        count += 1
    return count
