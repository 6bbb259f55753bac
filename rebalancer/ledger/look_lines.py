"""Looks as lines of JSON: a whole one, then what differs from the one before. A cycle of 20 models is about 1 KB."""

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct

from rebalancer.domain.readings import Carries
from rebalancer.ledger.inventory import Hold, Inventory, Shelf, busy_share
from rebalancer.ledger.looks import LedgerLook, ModelBounds, ModelLook

T = TypeVar("T")

CapacityRow = tuple[str, str, str, int]  # pool, instance type, capacity type, GPUs
HeldRow = tuple[str, str, str, str, str, int]  # pool, instance type, capacity type, model, state, GPUs
NOTHING = LedgerLook(Inventory(0.0, {}, {}, {}, {}), (), {}, {})


class LookLine(Struct, frozen=True, omit_defaults=True, tag="look", tag_field="line"):
    """What differs from the look before; of `number` 0 from nothing. None and () are what is unchanged.

    at: the instant, in epoch seconds.
    number: how many lines since the last whole one; a reader who misses one waits for the next whole one.
    writes: our writes that were carried out since the look before.
    unknown: why what was seen cannot be relied on, "" where it can.
    capacity: all of it.
    held: all of it.
    lent: all of it: pool, owner, GPUs.
    nodes: GPUs of each Ready node.
    models: those that changed.
    bounds: those that changed.
    gone: ids of models that are no longer there.
    carries: in whole lines alone, since every cycle teaches a little.
    """

    at: float
    number: int
    writes: int = 0
    unknown: str = ""
    capacity: tuple[CapacityRow, ...] | None = None
    held: tuple[HeldRow, ...] | None = None
    lent: tuple[tuple[str, str, int], ...] | None = None
    nodes: tuple[int, ...] | None = None
    models: tuple[ModelLook, ...] = ()
    bounds: tuple[ModelBounds, ...] = ()
    gone: tuple[str, ...] = ()
    carries: dict[str, Carries] = {}


def look_line(before: LedgerLook, now: LedgerLook, number: int) -> LookLine:
    """The line of `now`; `before` is the look of the line before it, NOTHING for a whole one."""
    old, new = before.inventory, now.inventory
    capacity = tuple((*shelf, gpus) for shelf, gpus in new.capacity.items())
    held = tuple((*hold.shelf, hold.model, hold.state, gpus) for hold, gpus in new.held.items())
    return LookLine(
        at=new.at,
        number=number,
        writes=now.writes,
        unknown=new.unknown,
        capacity=None if old.capacity == new.capacity else capacity,
        held=None if old.held == new.held else held,
        lent=None if old.lent == new.lent else tuple((*key, gpus) for key, gpus in new.lent.items()),
        nodes=None if before.nodes == now.nodes else now.nodes,
        models=_changed(before.models, now.models),
        bounds=_changed(before.bounds, now.bounds),
        gone=tuple(sorted(before.models.keys() - now.models.keys())),
        carries={} if number else dict(now.carries),
    )


def look_of(before: LedgerLook, line: LookLine) -> LedgerLook:
    """The look that `line` tells, given that of the line before it."""
    if not line.number:
        before = NOTHING
    old = before.inventory
    models = {name: each for name, each in before.models.items() if name not in line.gone}
    models |= {each.model: each for each in line.models}
    bounds = {name: each for name, each in before.bounds.items() if name not in line.gone}
    bounds |= {each.model: each for each in line.bounds}
    busy = {name: busy_share(each.minute, each.ready) for name, each in models.items()}
    seen = Inventory(
        at=line.at,
        capacity=old.capacity if line.capacity is None else {Shelf(*key): gpus for *key, gpus in line.capacity},
        held=old.held if line.held is None else {_hold(row): row[-1] for row in line.held},
        busy={name: share for name, share in busy.items() if share is not None},
        lent=old.lent if line.lent is None else {(pool, owner): gpus for pool, owner, gpus in line.lent},
        unknown=line.unknown,
    )
    nodes = before.nodes if line.nodes is None else line.nodes
    return LedgerLook(seen, nodes, models, bounds, line.writes, line.carries or before.carries)


def _hold(row: HeldRow) -> Hold:
    *shelf, model, state, _ = row
    return Hold(Shelf(*shelf), model, state)


def _changed(before: Mapping[str, T], now: Mapping[str, T]) -> tuple[T, ...]:
    return tuple(each for name, each in now.items() if before.get(name) != each)
