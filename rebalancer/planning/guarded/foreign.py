"""Guard `foreign`: after some foreign changes to the numbers we write, we stand down on that target.

Two controllers that each set their own number never end: 120 raises against 122 resets in 30 minutes have been seen
elsewhere. Nothing passes it, drains and overrides included. It ends when the changes are old enough, when others have
put our numbers back and these stood for a while, or when a person says so (`standUp`). What another installation of
the rebalancer holds is left alone for as long as it holds it.
"""

import dataclasses
from collections.abc import Iterator

from rebalancer.domain.instant import clock
from rebalancer.domain.plan import Refusal
from rebalancer.domain.policy import ForeignRule
from rebalancer.domain.snapshot import REPAIRED_AFTER_SECONDS, ForeignChange, TargetView
from rebalancer.planning.seen.holdings import other_on
from rebalancer.planning.seen.scene import Holder, Part, Scene

STANDS_DOWN = "foreign"

Numbers = dict[str, float | int | str | None]
Fight = tuple[ForeignChange, ...]  # the foreign changes over which we stand down, oldest first; empty when we do not


def fight(target: TargetView, rule: ForeignRule, stood_up_at: float | None, now: float) -> Fight:
    """The fight over `target`; changes from before a person said to stand up are forgotten."""
    repaired_at = target.repaired_at
    if repaired_at is not None and now - repaired_at >= REPAIRED_AFTER_SECONDS:
        return ()
    recent = tuple(one for one in target.foreign if now - one.at < rule.window_seconds)
    if stood_up_at is not None:
        recent = tuple(one for one in recent if one.at > stood_up_at)
    return recent if len(recent) >= rule.changes else ()


def stand_down(scene: Scene) -> None:
    """Mark the targets that others write: neither donor nor recipient, and their bounds stay."""
    for holder in _written_by_others(scene):
        fights = _fights(holder, scene)
        holder.parts = tuple(
            dataclasses.replace(part, stuck=part.stuck or STANDS_DOWN) if part.key in fights else part
            for part in holder.parts
        )


def refusals(scene: Scene) -> Iterator[Refusal]:
    """One per target on which we stand down: who writes it, and until when we leave it alone."""
    for holder in _written_by_others(scene):
        fights = _fights(holder, scene)
        for part in holder.parts:
            if other := other_on(part.target):
                yield _refusal(holder, _why_other(part), {"manager": other}, None)
            elif part.key in fights:
                yield _fought(holder, part, fights[part.key], scene.policy.guards.foreign)


def standing(holder: Holder, scene: Scene) -> str:
    """Why and until when we stand down on the model's targets, and what ends it; "" when we do not."""
    fights, rule = _fights(holder, scene) if holder.contested else {}, scene.policy.guards.foreign
    words = [
        f"stand-down until {clock(_until(part.target, fights[part.key], rule))}: {_why(part, fights[part.key], rule)}"
        for part in holder.parts
        if part.key in fights
    ]
    words += [f"`rebalancer stand-up {holder.model.id}` ends it"] if words else []
    return "; ".join([*words, *(_why_other(part) for part in holder.parts if other_on(part.target))])


def keeps_borrowed(owner: Holder, scene: Scene) -> str:
    """Who keeps GPUs on the owner's pools beyond its own because we stand down on it; "" when nobody does."""
    pools = {part.pool for part in owner.parts}
    words = []
    for holder in _written_by_others(scene):
        beyond = holder.held - holder.model.entitlement
        there = sum(part.held for part in holder.parts if part.pool in pools and part.key in _fights(holder, scene))
        if holder is not owner and min(beyond, there) > 0:
            gpus = min(beyond, there) * holder.gpus
            words.append(f"{holder.model.id} keeps {gpus} GPUs beyond its own: {standing(holder, scene)}")
    return "; ".join(words)


def _written_by_others(scene: Scene) -> list[Holder]:
    return [holder for holder in scene.holders.values() if holder.contested]


def _fights(holder: Holder, scene: Scene) -> dict[tuple[str, str], Fight]:
    """By part: the fight over its target, where there is one."""
    rule, stood_up_at = scene.policy.guards.foreign, _stood_up_at(holder, scene)
    fights = {part.key: fight(part.target, rule, stood_up_at, scene.now) for part in holder.parts}
    return {key: found for key, found in fights.items() if found}


def _stood_up_at(holder: Holder, scene: Scene) -> float | None:
    """Since when a person's word to stand up counts: from its first cycle on, by our own clock."""
    word = holder.ruling.stood_up
    if word is None:
        return None
    return next((known.at for known in scene.memory.overrides if known.uid == word.uid), scene.now)


def _until(target: TargetView, changes: Fight, rule: ForeignRule) -> float:
    forgotten_at = changes[-rule.changes].at + rule.window_seconds
    return (
        forgotten_at if target.repaired_at is None else min(forgotten_at, target.repaired_at + REPAIRED_AFTER_SECONDS)
    )


def _why(part: Part, changes: Fight, rule: ForeignRule) -> str:
    owner, target = part.owner, part.target
    what = f"{target.kind} {target.name}" if owner is None else f"{owner.kind} {owner.name}"
    return f"{_managers(changes)} changed {what} {len(changes)} times within {rule.window_seconds:.0f} s"


def _why_other(part: Part) -> str:
    """Two installations whose policies name one target: only people can say which of them shall have it."""
    owner, other = part.target.autoscaler, other_on(part.target)
    what = part.target.name if owner is None else f"{owner.kind} {owner.name}"
    return f"{what} is held by installation {other}: take the model out of one of the two policies"


def _managers(changes: Fight) -> str:
    return ", ".join(sorted({one.manager for one in changes}))


def _fought(holder: Holder, part: Part, changes: Fight, rule: ForeignRule) -> Refusal:
    numbers: Numbers = {
        "manager": _managers(changes),
        "changes": len(changes),
        "window_seconds": rule.window_seconds,
    }
    return _refusal(holder, _why(part, changes, rule), numbers, _until(part.target, changes, rule))


def _refusal(holder: Holder, why: str, numbers: Numbers, until: float | None) -> Refusal:
    wanted = holder.held if holder.demand.unknown else holder.demand.replicas
    return Refusal(STANDS_DOWN, holder.model.id, holder.held, wanted, why, numbers, until)
