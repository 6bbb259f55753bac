"""GPUs that could be lent and are not, because their owner's votes are about to call them home.

An owner's votes must stand for some 20 s before they are owed (`demand.owed`). A replica that is granted to a borrower
meanwhile is taken home while it still loads: it served nobody, and its GPU stood still for two starts. The owner itself
waits for nothing here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from rebalancer.planning.allocation.unit import Unit
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.shares.share import ModelShare

CALLED_HOME = "GPUs that their owner's votes are about to call home"


def held_back(scene: Scene[ModelShare], units: Sequence[Unit]) -> frozenset[int]:
    """Which of `units`, by index, would lend what is called home in a moment."""
    if not units:
        return frozenset()
    owners = {name: called for name, model in scene.models.items() if (called := _called(model))}
    if not owners:
        return frozenset()
    loans = list(_loans(scene, units))
    back = set(_taking_from_owners(scene, units, loans, owners))
    wanted = _missing_by_pool(scene, owners) - _left_free(scene, units, back)
    for index in reversed(loans):  # the claims that are worth least
        pool, gpus = units[index].target.pool, units[index].target.gpus
        if index not in back and wanted[pool] > 0:
            back.add(index)
            wanted[pool] -= gpus
    return frozenset(back)


def _called(model: ModelShare) -> int:
    """The replicas of its own that an owner's votes ask for beyond what it is owed already; 0: none beyond that."""
    votes, demand = model.ballot.need, model.demand
    if votes is None or demand.busy is None or demand.unknown or model.plausibility_refusal is not None:
        return 0
    if model.ruling.settled is not None or all(target.stuck is not None for target in model.targets):
        return 0
    called = min(votes, model.entry.entitlement, model.most_replicas)
    return called if called > demand.owed else 0


def _loans(scene: Scene[ModelShare], units: Sequence[Unit]) -> Iterator[int]:
    """Units on owned GPUs that give a model more than its own, where no person asked for it."""
    count: Counter[str] = Counter()
    for index, unit in enumerate(units):
        model, state = scene.models[unit.target.model], scene.pools.get(unit.target.pool)
        count[unit.target.model] += 1
        beyond = model.staying_replicas + count[unit.target.model] > max(model.floor, model.entry.entitlement)
        owned = state is not None and state.pool.kind == "primary"
        if beyond and owned and unit.source != "soon" and model.ruling.decides is None:
            yield index


def _taking_from_owners(
    scene: Scene[ModelShare], units: Sequence[Unit], loans: Sequence[int], owners: dict[str, int]
) -> Iterator[int]:
    """Loans for which a replica would go that its own model's votes ask for."""
    left = {name: scene.models[name].staying_replicas for name in owners}
    for index in loans:
        going = Counter(victim.target.model for victim in units[index].victims if victim.target.model in owners)
        if any(left[name] - count < owners[name] for name, count in going.items()):
            yield index
        else:
            left.update({name: left[name] - count for name, count in going.items()})


def _missing_by_pool(scene: Scene[ModelShare], owners: dict[str, int]) -> Counter[str]:
    """GPUs that owners will call home beyond what they hold, on the first pool of their own."""
    missing: Counter[str] = Counter()
    for name, called in owners.items():
        model = scene.models[name]
        lacks = called - max(model.staying_replicas, model.demand.owed)
        homes = (target for target in model.targets if target.pool in scene.pools and target.stuck is None)
        home = next((target for target in homes if scene.pools[target.pool].pool.kind == "primary"), None)
        if home is not None and lacks > 0:
            missing[home.pool] += lacks * home.gpus
    return missing


def _left_free(scene: Scene[ModelShare], units: Sequence[Unit], back: set[int]) -> Counter[str]:
    """GPUs of each budget that stay free when all units but those held back are granted."""
    taken: defaultdict[str, int] = defaultdict(int)
    for index, unit in enumerate(units):
        if unit.source == "free" and index not in back:
            taken[unit.target.pool] += unit.target.gpus
    return Counter(
        {
            name: max(0, state.budget - state.promised - taken[name])
            for name, state in scene.pools.items()
            if state.budget is not None
        }
    )
