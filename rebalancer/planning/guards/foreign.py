"""Guard `foreign`: after some foreign changes to the numbers we write, we stand down on that target.

Two controllers that each set their own number never end: 120 raises against 122 resets in 30 minutes have been seen
elsewhere. Nothing passes it, drains and overrides included. It ends when the changes are old enough, when others have
put our numbers back and these stood for a while, or when a person says so (`standUp`). What another installation of
the rebalancer holds is left alone for as long as it holds it.
"""

import dataclasses
from collections.abc import Iterator

from msgspec import structs

from rebalancer.domain.instant import clock
from rebalancer.domain.plan import Refusal
from rebalancer.domain.policy import ForeignRule
from rebalancer.domain.snapshot import REPAIRED_AFTER_SECONDS, ForeignChange, TargetView
from rebalancer.domain.words import counted
from rebalancer.planning.facts.holdings import other_on
from rebalancer.planning.facts.scene import ROLLOUT, Model_co, ModelFacts, Scene, TargetFacts
from rebalancer.planning.shares.share import ModelShare

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


def stand_down(scene: Scene[ModelFacts]) -> Scene[ModelFacts]:
    """The scene with the targets marked that others write: neither donor nor recipient, and their bounds stay.

    In a rollout, too, though pods under notice are replaced there: nothing passes this guard.
    """
    if not _written_by_others(scene):
        return scene
    models = [_stood_down(model, scene) if model.contested else model for model in scene.models.values()]
    return scene.with_models(models)


def _stood_down(model: ModelFacts, scene: Scene[ModelFacts]) -> ModelFacts:
    fights = _fights(model, scene)
    targets = (
        dataclasses.replace(target, stuck=STANDS_DOWN)
        if target.key in fights and target.stuck in {None, ROLLOUT}
        else target
        for target in model.targets
    )
    return structs.replace(model, targets=tuple(targets))


def refusals(scene: Scene[ModelShare]) -> Iterator[Refusal]:
    """One refusal per target on which we stand down: who writes it, and until when we leave it alone."""
    for model in _written_by_others(scene):
        fights = _fights(model, scene)
        for target in model.targets:
            if other := other_on(target.view):
                yield _refusal(model, _why_other(target), {"manager": other}, None)
            elif target.key in fights:
                yield _fought(model, target, fights[target.key], scene.policy.guards.foreign)


def standing(model: ModelShare, scene: Scene[ModelShare]) -> str:
    """Why and until when we stand down on the model's targets, and what ends it; "" when we do not."""
    fights, rule = _fights(model, scene) if model.contested else {}, scene.policy.guards.foreign
    words = [
        f"stand-down until {clock(_until(target.view, changes, rule))}: {_why(target, changes, rule)}"
        for target in model.targets
        if (changes := fights.get(target.key))
    ]
    words += [f"`rebalancer stand-up {model.entry.id}` ends it"] if words else []
    return "; ".join([*words, *(_why_other(target) for target in model.targets if other_on(target.view))])


def keeps_borrowed(owner: ModelShare, scene: Scene[ModelShare]) -> str:
    """The model that keeps GPUs beyond its own on the owner's pools because we stand down on it; "" for none."""
    pools = {target.pool for target in owner.targets}
    words = []
    for model in _written_by_others(scene):
        beyond = model.staying_replicas - model.entry.entitlement
        there = sum(
            target.staying_replicas
            for target in model.targets
            if target.pool in pools and target.key in _fights(model, scene)
        )
        if model is not owner and min(beyond, there) > 0:
            gpus = min(beyond, there) * model.gpus
            words.append(f"{model.entry.id} keeps {gpus} GPUs beyond its own: {standing(model, scene)}")
    return "; ".join(words)


def _written_by_others(scene: Scene[Model_co]) -> list[Model_co]:
    return [model for model in scene.models.values() if model.contested]


def _fights(model: ModelFacts, scene: Scene[ModelFacts]) -> dict[tuple[str, str], Fight]:
    """By target: the fight over it, where there is one."""
    rule, stood_up_at = scene.policy.guards.foreign, _stood_up_at(model, scene)
    fights = {target.key: fight(target.view, rule, stood_up_at, scene.now) for target in model.targets}
    return {key: fought for key, fought in fights.items() if fought}


def _stood_up_at(model: ModelFacts, scene: Scene[ModelFacts]) -> float | None:
    """The instant from which a person's last stand-up counts: its first cycle, by our own clock; None without one."""
    if not model.ruling.stood_up:
        return None
    known_at = {known.uid: known.at for known in scene.memory.overrides}
    return max(known_at.get(word.uid, scene.now) for word in model.ruling.stood_up)


def _until(target: TargetView, changes: Fight, rule: ForeignRule) -> float:
    forgotten_at = changes[-rule.changes].at + rule.window_seconds
    return (
        forgotten_at if target.repaired_at is None else min(forgotten_at, target.repaired_at + REPAIRED_AFTER_SECONDS)
    )


def _why(target: TargetFacts, changes: Fight, rule: ForeignRule) -> str:
    owner, view = target.owner, target.view
    what = f"{view.kind} {view.name}" if owner is None else f"{owner.kind} {owner.name}"
    return f"{_managers(changes)} changed {what} {counted(len(changes), 'time')} within {rule.window_seconds:.0f} s"


def _why_other(target: TargetFacts) -> str:
    """Two installations whose policies name one target: only people can say which of them shall have it."""
    owner, other = target.view.autoscaler, other_on(target.view)
    what = target.view.name if owner is None else f"{owner.kind} {owner.name}"
    return f"{what} is held by installation {other}: take the model out of one of the two policies"


def _managers(changes: Fight) -> str:
    return ", ".join(sorted({one.manager for one in changes}))


def _fought(model: ModelShare, target: TargetFacts, changes: Fight, rule: ForeignRule) -> Refusal:
    numbers: Numbers = {
        "manager": _managers(changes),
        "changes": len(changes),
        "window_seconds": rule.window_seconds,
    }
    return _refusal(model, _why(target, changes, rule), numbers, _until(target.view, changes, rule))


def _refusal(model: ModelShare, why: str, numbers: Numbers, until: float | None) -> Refusal:
    wanted = model.staying_replicas if model.demand.unknown else model.demand.replicas
    return Refusal(STANDS_DOWN, model.entry.id, model.staying_replicas, wanted, why, numbers, until)
