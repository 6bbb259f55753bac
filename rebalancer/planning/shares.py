"""Stage 5a: each model's share of the GPUs there are, by what each count of replicas is worth to whom.

Pools that models can both run on are shared as one. A model nobody knows anything about, whose work is not plausible,
or whose number a person decides, keeps what it holds, and the others share the rest. Floors and wanted entitlements
come before any gain.
"""

from collections.abc import Iterable

from rebalancer.domain.outlook import Outlook
from rebalancer.planning.curves import Curve, share_out
from rebalancer.planning.scene import Holder, PoolState, Scene

WORTH_SHARE = 0.02  # of the work a replica could do to the horizon: what it must keep from being late to be paid for


def share(scene: Scene) -> None:
    """Set every holder's `share`: replicas it is to have before guards; None where its demand decides instead."""
    for pools in _connected(scene):
        _share_of(scene, pools)


def _connected(scene: Scene) -> list[frozenset[str]]:
    """Pools that some model joins, by name of the first."""
    found: list[set[str]] = []
    for holder in scene.holders.values():
        mine = {part.pool for part in holder.parts if part.pool in scene.pools}
        touching = [pools for pools in found if pools & mine]
        found = [pools for pools in found if not pools & mine]
        if mine:
            found.append(mine.union(*touching))
    return sorted((frozenset(pools) for pools in found), key=min)


def _share_of(scene: Scene, pools: frozenset[str]) -> None:
    budgets = [scene.pools[pool].budget for pool in sorted(pools)]
    known = [budget for budget in budgets if budget is not None]
    if len(known) < len(budgets):
        return  # nodes that are not seen: nobody is moved by what they might hold
    free = sum(known)
    sharing: list[tuple[Holder, Curve]] = []
    for holder in _on(scene, pools):
        outlook = holder.load.outlook
        person = holder.ruling.frozen or holder.ruling.paused
        if outlook is None or holder.ballot.blind or holder.doubt is not None or person is not None:
            free -= holder.held * holder.gpus
        else:
            sharing.append((holder, _curve(holder, outlook)))
    counts = share_out(tuple(curve for _, curve in sharing), free).counts
    growing = [scene.pools[pool] for pool in pools if scene.pools[pool].grows]
    if growing:
        counts = _at_a_price(sharing, counts, free, growing)
    for (holder, _), count in zip(sharing, counts, strict=True):
        holder.share = count


def _at_a_price(
    sharing: list[tuple[Holder, Curve]], counts: tuple[int, ...], free: int, growing: list[PoolState]
) -> tuple[int, ...]:
    """Where nodes can come and go GPU-hours cost money: as many replicas as are worth it, the fixed GPUs in any case.

    `counts`: what fits the GPUs there are. What nobody would pay for beyond the pools that do not grow is let go.
    """
    fixed = free - sum(state.budget or 0 for state in growing)
    growth = sum(state.growth for state in growing)
    priced = tuple(_priced(holder, curve) for holder, curve in sharing)
    wanted = share_out(priced, free + growth).counts
    if sum(count * holder.gpus for (holder, _), count in zip(sharing, wanted, strict=True)) > fixed:
        return wanted
    return share_out(tuple(curve for _, curve in sharing), fixed).counts if fixed < free else counts


def _priced(holder: Holder, curve: Curve) -> Curve:
    outlook = holder.load.outlook
    if outlook is None:
        return curve
    worth = holder.model.priority / 100 / (outlook.work_of_one or 1.0)  # of a replica-second, as in the curve
    each = WORTH_SHARE * outlook.horizon_seconds * worth
    return curve._replace(values=tuple(value + each * number for number, value in enumerate(curve.values)))


def _on(scene: Scene, pools: frozenset[str]) -> Iterable[Holder]:
    return (holder for holder in scene.holders.values() if any(part.pool in pools for part in holder.parts))


def _curve(holder: Holder, outlook: Outlook) -> Curve:
    """What the model may have: from its floor and wanted entitlement, as far as a person or the policy caps it."""
    most = holder.ruling.wanted(holder.model, holder.model.max_replicas)
    pin = holder.ruling.pin is not None
    own = most if pin else min(most, max(holder.floor, min(holder.demand.replicas, holder.model.entitlement)))
    values = outlook.values[: max(1, most - outlook.least + 1)]
    if own <= outlook.least:
        return Curve(outlook.least, values, holder.gpus)
    skipped = own - outlook.least
    return Curve(own, values[skipped:] or (0.0,), holder.gpus)
