"""Raises that the scheduler could put onto GPUs which somebody waits for.

A pod goes wherever it fits, not where its unit was seated. Where a node is being made free for a large pod and part of
it is free already, a small raise that was meant for another node may take that part: the large pod waits on, the small
one is called home from there, asked for again, and lands there again (5, 4, 5, 4 replicas for as long as anybody
looked). Such a raise waits until the large pod is bound. Nobody's floor waits for that, nor does a raise with which the
pod that waits could change places.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from rebalancer.planning.allocation.donors import FLOOR
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.allocation.unit import Unit
from rebalancer.planning.facts.scene import TargetFacts


class WaitingPod(NamedTuple):
    """A pod that is to have GPUs which are not free yet.

    target: the target whose pod it is.
    node: name of the node on which it was seated.
    unit: index of the unit that makes the room; None where the pod is there and the room is being made already.
    """

    target: TargetFacts
    node: str
    unit: int | None

    @property
    def why(self) -> str:
        """What a raise waits for that could land there, as a clause."""
        return f"{self.target.model} to take its GPUs on {self.node}, where the scheduler could put this replica"


def astray(seating: Seating, units: Sequence[Unit]) -> dict[int, tuple[WaitingPod, ...]]:
    """By index of a unit that has free GPUs: whose room it could take. `seating`: all `units` are seated in it."""
    waiting = [*_pending(seating), *_making_room(units)]
    if not waiting:
        return {}
    strayed: Counter[str] = Counter()  # GPUs, by node, of raises before this one that could land there
    waits = {}
    for index, unit in enumerate(units):
        if unit.source != "free" or unit.tier == FLOOR:
            continue
        able = [one for one in waiting if (one.unit is None or one.unit < index) and _could_land(unit, one, seating)]
        robbed = tuple(one for one in able if _robs(unit, one, seating, strayed))
        if robbed:
            waits[index] = robbed
        else:
            strayed.update({one.node: unit.target.gpus for one in able})
    return waits


def held_up(robbed: Mapping[int, Sequence[WaitingPod]], index: int, made: Collection[int]) -> WaitingPod | None:
    """The first for whom a unit has to wait; `made`: indices of the units whose victims do go in this plan."""
    return next((one for one in robbed.get(index, ()) if one.unit is None or one.unit in made), None)


def _pending(seating: Seating) -> Iterator[WaitingPod]:
    targets = {target.key: target for model in seating.scene.models.values() for target in model.targets}
    for key, uid in sorted(seating.awaiting):
        for node in dict.fromkeys(seating.homes.get(key, {}).get(uid, ())):
            yield WaitingPod(targets[key], node, None)


def _making_room(units: Sequence[Unit]) -> Iterator[WaitingPod]:
    for index, unit in enumerate(units):
        if unit.victims:
            for node in unit.places:
                yield WaitingPod(unit.target, node, index)


def _could_land(unit: Unit, waiting: WaitingPod, seating: Seating) -> bool:
    """Whether there is room now for a pod of the unit on the node, other than on its own seat there."""
    target, node = unit.target, waiting.node
    if target.pool != waiting.target.pool or node in unit.nodes or node not in seating.eligible(target):
        return False
    return seating.scene.pools[target.pool].rooms[node].now >= target.pod_gpus


def _robs(unit: Unit, waiting: WaitingPod, seating: Seating, strayed: Counter[str]) -> bool:
    """Whether the pod that waits would fit neither beside the unit's pod nor where that was to go."""
    rooms, gpus = seating.rooms[unit.target.pool], unit.target.gpus
    if rooms[waiting.node].soon - strayed[waiting.node] >= gpus:
        return False
    eligible = seating.eligible(waiting.target)
    return not any(
        node in eligible and rooms[node].soon + unit.nodes.count(node) * unit.target.pod_gpus >= waiting.target.pod_gpus
        for node in unit.places
    )
