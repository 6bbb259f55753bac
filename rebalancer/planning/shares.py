"""Stage 5a: each model's share of the GPUs there are, by what each count of replicas is worth to whom.

Pools that models can both run on are shared as one. A model nobody knows anything about, whose work is not plausible,
or whose number a person decides, keeps what it holds, and the others share the rest. Floors and wanted entitlements
come before any gain.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from rebalancer.domain.outlook import Outlook
from rebalancer.planning.curves import Curve
from rebalancer.planning.places import Claim, Space, share_places, smallest
from rebalancer.planning.scene import Holder, Part, PoolState, Scene

WORTH_SHARE = 0.02  # of the work a replica could do to the horizon: what it must keep from being late to be paid for


def share(scene: Scene) -> None:
    """Set every holder's `share`: replicas it is to have before guards; None where its demand decides instead."""
    for pools, holders in _connected(scene):
        if all(scene.pools[pool].budget is not None for pool in pools):  # else nobody is moved by what might be there
            _share_of(scene, pools, holders)


def _connected(scene: Scene) -> list[tuple[frozenset[str], list[Holder]]]:
    """Pools that some model joins, by name of the first, with their models."""
    alike: dict[frozenset[str], list[Holder]] = {}
    for holder in scene.holders.values():
        alike.setdefault(frozenset(part.pool for part in holder.parts if part.pool in scene.pools), []).append(holder)
    found: list[tuple[frozenset[str], list[Holder]]] = []
    for mine, holders in alike.items():
        if mine:
            touching = [each for each in found if each[0] & mine]
            found = [each for each in found if not each[0] & mine]
            joined = [one for _, others in touching for one in others]
            found.append((mine.union(*(pools for pools, _ in touching)), [*joined, *holders]))
    return sorted(found, key=lambda each: min(each[0]))


def _share_of(scene: Scene, pools: frozenset[str], holders: Sequence[Holder]) -> None:
    sharing: list[tuple[Holder, int]] = []
    kept: Counter[str] = Counter()
    claims: list[Claim] = []
    for holder in sorted(holders, key=lambda each: each.model.id):
        free = _free(holder, scene)
        person = holder.ruling.frozen or holder.ruling.paused
        if (
            holder.load.outlook is None
            or holder.ballot.blind
            or holder.doubt is not None
            or person is not None
            or not free
        ):
            kept.update(_kept(holder, [] if person else free))
            continue
        names = {part.pool for part in free}
        fixed = [part for part in holder.parts if part.pool not in names]
        kept.update({part.pool: part.held * part.gpus for part in fixed})
        held = sum(part.held for part in fixed)
        claims.append(_claim(holder, holder.load.outlook, free, held))
        sharing.append((holder, held))
    spaces = _spaces(scene, pools, [holder for holder, _ in sharing], kept)
    counts = _counts(scene, [holder for holder, _ in sharing], claims, spaces)
    for (holder, held), count in zip(sharing, counts, strict=True):
        holder.share = held + count


def _free(holder: Holder, scene: Scene) -> list[Part]:
    """Parts whose number may change: of a healthy target, in a pool that is seen and that nobody excluded."""
    return [
        part
        for part in holder.parts
        if part.stuck is None and part.pool in scene.pools and part.pool not in holder.ruling.excluded_pools
    ]


def _kept(holder: Holder, free: Sequence[Part]) -> dict[str, int]:
    """GPUs by pool that a model without a curve keeps from the others: what it holds.

    Where votes say what it needs: what it holds of that, and what is its own though it does not hold it yet. The rest
    is for whoever can use it.
    """
    counts = {part.pool: part.held for part in holder.parts}
    if free and not holder.demand.unknown:
        counts[free[0].pool] += max(0, _own(holder) - holder.held)
        surplus = holder.held - max(_own(holder), holder.demand.replicas)
        for part in reversed(free):
            goes = max(0, min(surplus, part.held))
            counts[part.pool] -= goes
            surplus -= goes
    return {pool: count * holder.gpus for pool, count in counts.items()}


def _own(holder: Holder) -> int:
    """What comes before any gain: floor, wanted entitlement, what a person wants it to have at least."""
    most = holder.ruling.wanted(holder.model, holder.model.max_replicas)
    if holder.ruling.pin is not None:
        return most
    wanted = min(holder.demand.replicas, holder.model.entitlement)
    return min(most, max(holder.floor, wanted, holder.ruling.raised_floor))


def _claim(holder: Holder, outlook: Outlook, free: Sequence[Part], fixed: int) -> Claim:
    """What the model may have in its free parts: from what is its own, as far as a person or the policy caps it."""
    most = holder.ruling.wanted(holder.model, holder.model.max_replicas)
    least = min(most, max(outlook.least, _own(holder)))
    values = outlook.values[least - outlook.least : most - outlook.least + 1] if least >= outlook.least else ()
    here = max(0, least - fixed)
    values = values[max(0, fixed - least) :]
    return Claim(Curve(here, values or (0.0,), holder.gpus), frozenset(part.pool for part in free), free[0].gpus)


def _spaces(
    scene: Scene, pools: frozenset[str], sharing: Sequence[Holder], kept: Mapping[str, int]
) -> dict[str, Space]:
    """What the models share of each pool."""
    found = {}
    for pool in sorted(pools):
        state = scene.pools[pool]
        parts = [part for holder in sharing for part in holder.parts if part.pool == pool]
        receives = all(node.name in state.rooms for node in state.view.nodes)
        whole = receives and all(part.gpus == 1 for part in parts)
        gpus = (state.budget or 0) - kept[pool]
        found[pool] = Space(gpus, () if whole else _nodes(scene, state, parts))
    return found


def _nodes(scene: Scene, state: PoolState, parts: Sequence[Part]) -> tuple[int, ...]:
    """GPUs by node that are free or held by these parts; on a node that receives nothing only the latter."""
    held: Counter[str] = Counter()
    for part in parts:
        for pod in part.kept:
            if pod.node is not None:
                held[pod.node] += part.gpus
    rooms = {name: max(0, room.soon) for name, room in state.rooms.items()}
    there = [rooms.get(node.name, 0) + held[node.name] for node in state.view.nodes]
    coming = sum(grant.gpus for grant in scene.memory.node_grants if grant.pool == state.pool.name)
    return (*there, *_new_nodes(state, coming))


def _new_nodes(state: PoolState, gpus: int) -> tuple[int, ...]:
    each = state.pool.gpus_per_node
    return (each,) * (gpus // each) + ((gpus % each,) if gpus % each else ())


def _counts(
    scene: Scene, sharing: Sequence[Holder], claims: Sequence[Claim], spaces: Mapping[str, Space]
) -> tuple[int, ...]:
    """Where nodes can come and go GPU-hours cost money: as many as are worth it, the fixed GPUs in any case."""
    growing = {name: scene.pools[name] for name in spaces if scene.pools[name].grows}
    if not growing:
        return share_places(claims, spaces)
    grown = {name: _grown(space, growing[name]) if name in growing else space for name, space in spaces.items()}
    priced = [
        _priced(holder, claim) if claim.pools & growing.keys() else claim
        for holder, claim in zip(sharing, claims, strict=True)
    ]
    worth = share_places(priced, grown)
    dearest = sorted(growing, key=lambda name: (-growing[name].pool.price_per_gpu_hour, name))
    return share_places(claims, smallest(priced, worth, grown, dearest))


def _grown(space: Space, state: PoolState) -> Space:
    nodes = (*space.nodes, *_new_nodes(state, state.growth)) if space.nodes else ()
    return Space(space.gpus + state.growth, nodes)


def _priced(holder: Holder, claim: Claim) -> Claim:
    outlook = holder.load.outlook
    if outlook is None:
        return claim
    worth = holder.model.priority / 100 / (outlook.work_of_one or 1.0)  # of a replica-second, as in the curve
    each = WORTH_SHARE * outlook.horizon_seconds * worth
    values = tuple(value + each * number for number, value in enumerate(claim.curve.values))
    return claim._replace(curve=claim.curve._replace(values=values))


def next_gain(holder: Holder, count: int) -> float:
    """What one GPU more is worth to a model with `count` replicas, in requests: the best mean over the steps ahead."""
    outlook = holder.load.outlook
    if outlook is None or holder.share is None or count < outlook.least:
        return 0.0
    most = holder.ruling.wanted(holder.model, holder.model.max_replicas)
    here, *ahead = outlook.values[count - outlook.least : most - outlook.least + 1] or (0.0,)
    return max(((here - value) / step for step, value in enumerate(ahead, 1)), default=0.0) / holder.gpus


def needed(holder: Holder) -> int:
    """Replicas the model needs: its demand, less those that would gain nothing though they were there."""
    outlook = holder.load.outlook
    if outlook is None or holder.share is None:
        return holder.demand.replicas
    values = outlook.values
    best = outlook.least + len(values) - 1 - values[::-1].index(min(values))
    return min(holder.demand.replicas, max(holder.share, best))
