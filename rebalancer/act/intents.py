"""The intent of each change, and the order in which the changes of a plan are written."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from rebalancer.domain.outcome import Intent
from rebalancer.domain.plan import Change, DrainChange, NodePoolChange, Plan

AnyChange: TypeAlias = Change | NodePoolChange | DrainChange

PREPARING: Final = frozenset({"hold", "limit"})  # before GPUs move; giving back comes when they have


def intent_of(change: AnyChange, cycle: int, now: float) -> Intent:
    """The intent of `change`, decided in `cycle`, at `now`."""
    if isinstance(change, DrainChange):
        return _drain(change, cycle, now)
    return _node_pool(change, cycle, now) if isinstance(change, NodePoolChange) else _target(change, cycle, now)


def _target(change: Change, cycle: int, now: float) -> Intent:
    target = change.target
    autoscaler = None if target.by_metric else target.autoscaler
    return Intent(
        id=change.id,
        cycle=cycle,
        at=now,
        kind=change.kind,
        subject=change.model,
        object=object_of(change),
        replicas_from=change.replicas_from,
        replicas_to=change.replicas_to,
        reason=change.reason,
        pool=target.pool,
        shift=change.shift,
        counts=change.counts,
        counted=change.counted,
        lenders=change.lenders,
        recipients=change.recipients,
        replaces=change.replaces,
        grant=change.grant,
        node_pool=change.node_pool,
        minimum_from=None if autoscaler is None else autoscaler.minimum,
        minimum_to=None if autoscaler is None else change.minimum,
        victims=change.victims,
    )


def _node_pool(change: NodePoolChange, cycle: int, now: float) -> Intent:
    return Intent(
        id=change.id,
        cycle=cycle,
        at=now,
        kind=change.kind,
        subject=change.name,
        object=object_of(change),
        replicas_from=0,
        replicas_to=0,
        reason=change.reason,
        pool=change.pool,
        grant=change.grant,
        node_pool=change.name,
        limit_from=change.limit_from,
        limit_to=change.limit_to,
    )


def _drain(change: DrainChange, cycle: int, now: float) -> Intent:
    return Intent(
        id=change.id,
        cycle=cycle,
        at=now,
        kind=change.kind,
        subject=change.model or change.node,
        object=object_of(change),
        replicas_from=0,
        replicas_to=0,
        reason=change.reason,
        pool=change.pool,
        victims=(change.uid,) if change.uid else (),
    )


def object_of(change: AnyChange) -> str:
    """The object that is written: `deployment/NAMESPACE/NAME`, `nodepool/NAME`, `node/NAME`, `pod/NAMESPACE/NAME`."""
    if isinstance(change, DrainChange):
        return f"pod/{change.namespace}/{change.pod}" if change.pod else f"node/{change.node}"
    if isinstance(change, NodePoolChange):
        return f"nodepool/{change.name}"
    return f"{change.target.kind.lower()}/{change.target.namespace}/{change.target.name}"


def changes_of(plan: Plan) -> list[AnyChange]:
    """All there is to write: NodePools first, drains last."""
    return [*plan.node_pools, *plan.changes, *plan.drains]


def waves(plan: Plan) -> Iterable[list[list[AnyChange]]]:
    """The plan in waves, one after the other; each is chains of changes to one object, which may go side by side.

    Holds and limits first, then what frees GPUs, what replaces doomed pods out of free ones and what cordons nodes,
    then what takes GPUs, then what is given back, and evictions. What concerns one object stays in the plan's order.
    """
    sorted_out: list[dict[str, list[AnyChange]]] = [{}, {}, {}, {}]
    earliest: dict[str, int] = {}
    for change in changes_of(plan):
        name = object_of(change)
        wave = earliest[name] = max(_wave(change), earliest.get(name, 0))
        sorted_out[wave].setdefault(name, []).append(change)
    return [list(chains.values()) for chains in sorted_out if chains]


def _wave(change: AnyChange) -> int:
    if isinstance(change, DrainChange):
        return 3 if change.pod else 1
    if isinstance(change, NodePoolChange):
        return 0 if change.kind in PREPARING else 3
    fewer = change.replicas_to < change.replicas_from
    return 1 if fewer or (change.kind == "replace" and change.shift is None) else 2
