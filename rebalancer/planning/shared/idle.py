"""GPUs of a fixed budget that nobody's share can use, because it fits on no node of them: they are lent all the same.

Who gains most per GPU from the one that is free gets it. A share that needs such GPUs takes them back: above its own
share every model gives.
"""

import heapq

from rebalancer.planning.seen.scene import Holder, Part
from rebalancer.planning.shared.curves import LEAST_GAIN
from rebalancer.planning.shared.ledger import Ledger, Unit
from rebalancer.planning.shared.shares import next_gain

IDLE = "idle"  # the last tier


def fill(ledger: Ledger) -> list[Unit]:
    """One replica after another for whom it is worth most, into free GPUs of pools that do not grow."""
    units: list[Unit] = []
    tight: set[object] = set()  # kinds of pods that fit nowhere any more
    queue: list[tuple[float, str]] = []
    if not any(_idle(pool, ledger) for pool in ledger.capacity):
        return units
    for name, holder in ledger.scene.holders.items():
        _enter(queue, name, holder, ledger)
    heapq.heapify(queue)
    while queue:
        _, name = heapq.heappop(queue)
        holder = ledger.scene.holders[name]
        unit = next((found for part in holder.parts if (found := _seated(part, holder, ledger, tight))), None)
        if unit is not None:
            units.append(unit)
            ledger.gained[name] += 1
            left: list[tuple[float, str]] = []
            _enter(left, name, holder, ledger)
            for entry in left:
                heapq.heappush(queue, entry)
    return units


def _idle(pool: str, ledger: Ledger) -> bool:
    state = ledger.scene.pools.get(pool)
    return state is not None and not state.grows and state.budget is not None and ledger.capacity[pool] > 0


def _enter(queue: list[tuple[float, str]], name: str, holder: Holder, ledger: Ledger) -> None:
    """A model that shares, gives nothing in this plan, and has all of its share that can be placed."""
    if holder.share is None or ledger.gone[name] or not any(_idle(part.pool, ledger) for part in holder.parts):
        return
    gain = next_gain(holder, holder.held + ledger.gained[name], ledger.scene.kept)
    if gain > LEAST_GAIN:
        queue.append((-gain, name))


def _seated(part: Part, holder: Holder, ledger: Ledger, tight: set[object]) -> Unit | None:
    kind = ledger.kind(part, holder.ruling.excluded_nodes)
    if kind in tight or not _idle(part.pool, ledger) or not ledger.open_to(part, holder):
        return None
    if ledger.capacity[part.pool] >= part.gpus:
        for now, source in ((True, "free"), (False, "soon")):
            node = ledger.fit(part, holder.ruling.excluded_nodes, now=now)
            if node is not None:
                ledger.seat(part, node)
                return Unit(part, IDLE, source, node)
    tight.add(kind)
    return None
