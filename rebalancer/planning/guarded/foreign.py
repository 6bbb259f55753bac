"""Guard `foreign`: after some foreign changes to the numbers we write, we stand down on that target.

Two controllers that each set their own number never end: 120 raises against 122 resets in 30 minutes have been seen
elsewhere. Nothing passes it, drains and overrides included; it is over when the changes are old enough.
"""

import dataclasses
from collections.abc import Iterator

from rebalancer.domain.plan import Refusal
from rebalancer.domain.policy import ForeignRule
from rebalancer.domain.snapshot import ForeignChange, TargetView
from rebalancer.planning.seen.holdings import other_on
from rebalancer.planning.seen.scene import Holder, Part, Scene

STANDS_DOWN = "foreign"


def fight(target: TargetView, rule: ForeignRule, now: float) -> tuple[ForeignChange, ...]:
    """The foreign changes over which we stand down, oldest first; empty when we do not."""
    recent = tuple(one for one in target.foreign if now - one.at < rule.window_seconds)
    return recent if len(recent) >= rule.changes else ()


def stand_down(scene: Scene) -> None:
    """Mark the targets that others write: neither donor nor recipient, and their bounds stay."""
    for holder in _written_by_others(scene):
        holder.parts = tuple(_stood_down(part, scene) for part in holder.parts)


def _written_by_others(scene: Scene) -> list[Holder]:
    return [holder for holder in scene.holders.values() if holder.contested]


def _stood_down(part: Part, scene: Scene) -> Part:
    fights = fight(part.target, scene.policy.guards.foreign, scene.now)
    return dataclasses.replace(part, stuck=part.stuck or STANDS_DOWN) if fights else part


def refusals(scene: Scene) -> Iterator[Refusal]:
    """One per target on which we stand down: who writes it, and until when we leave it alone."""
    rule = scene.policy.guards.foreign
    for holder in _written_by_others(scene):
        for part in holder.parts:
            changes = fight(part.target, rule, scene.now)
            if other := other_on(part.target):
                yield _others(holder, part, other)
            elif changes:
                yield _refusal(holder, part, changes, rule)


def _others(holder: Holder, part: Part, other: str) -> Refusal:
    """Two installations whose policies name one target: only people can say which of them shall have it."""
    owner = part.target.autoscaler
    what = part.target.name if owner is None else f"{owner.kind} {owner.name}"
    return Refusal(
        guard="foreign",
        subject=holder.model.id,
        replicas_from=holder.held,
        replicas_to=_wanted(holder),
        why=f"{what} is held by installation {other}: take the model out of one of the two policies",
        numbers={"manager": other},
    )


def _wanted(holder: Holder) -> int:
    return holder.held if holder.demand.unknown else holder.demand.replicas


def _refusal(holder: Holder, part: Part, changes: tuple[ForeignChange, ...], rule: ForeignRule) -> Refusal:
    owner, target = part.owner, part.target
    what = f"{target.kind} {target.name}" if owner is None else f"{owner.kind} {owner.name}"
    managers = ", ".join(sorted({one.manager for one in changes}))
    return Refusal(
        guard="foreign",
        subject=holder.model.id,
        replicas_from=holder.held,
        replicas_to=_wanted(holder),
        why=f"{managers} changed {what} {len(changes)} times within {rule.window_seconds:.0f} s",
        numbers={"manager": managers, "changes": len(changes), "window_seconds": rule.window_seconds},
        until=changes[-rule.changes].at + rule.window_seconds,
    )
