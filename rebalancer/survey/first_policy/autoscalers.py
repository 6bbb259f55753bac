"""What scales a workload today: its bounds, which become floor and maximum, and its triggers, which become signals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state.views import KEDA_DEFAULT_MAXIMUM
from rebalancer.survey.first_policy.draft import Reasoned
from rebalancer.survey.first_policy.things import decoded
from rebalancer.survey.first_policy.triggers import Trigger, Votes, hpa_metric, keda_trigger, votes_of
from rebalancer.survey.objects import Object, Survey, address
from rebalancer.survey.parts import items, part, text, value

KEDA_DEFAULT_MINIMUM = 0


@dataclass(frozen=True)
class Autoscaler:
    """What owns a workload's number of replicas.

    about: its address.
    minimum: its least replicas.
    maximum: its most.
    votes: what its triggers come to.
    notes: what a person should know.
    """

    about: str
    minimum: Reasoned[int]
    maximum: Reasoned[int]
    votes: Votes
    notes: tuple[str, ...] = ()


def autoscalers_of(survey: Survey, unusable: list[str]) -> dict[WorkloadRef, Autoscaler]:
    """By their targets. A ScaledObject goes before an HPA beside it, which it would fight; both are named."""
    by_target: dict[WorkloadRef, Autoscaler] = {}
    for seen in decoded("scaledobjects", survey.of("ScaledObject", "keda.sh"), unusable):
        _add(by_target, seen.value.target, _of_keda(seen.value, seen.raw))
    for seen in decoded("hpas", survey.of("HorizontalPodAutoscaler", "autoscaling"), unusable):
        if seen.value.owner_scaled_object is None:
            _add(by_target, seen.value.target, _of_hpa(seen.value, seen.raw))
    return by_target


def _add(by_target: dict[WorkloadRef, Autoscaler], target: WorkloadRef, new: Autoscaler) -> None:
    if (first := by_target.get(target)) is None:
        by_target[target] = new
        return
    both = f"{first.about} and {new.about} both scale it and fight: keep one (the bounds below are the first one's)"
    by_target[target] = replace(first, notes=(*first.notes, both))


def _of_keda(scaled: Any, raw: Object) -> Autoscaler:  # noqa: ANN401  domain.cluster.ScaledObject
    about = address(raw)
    low = Reasoned(
        KEDA_DEFAULT_MINIMUM if scaled.minimum is None else scaled.minimum,
        _from(about, "minReplicaCount", scaled.minimum),
    )
    high = Reasoned(
        KEDA_DEFAULT_MAXIMUM if scaled.maximum is None else scaled.maximum,
        _from(about, "maxReplicaCount", scaled.maximum),
    )
    triggers = [keda_trigger(number, each) for number, each in enumerate(items(raw, "spec", "triggers"))]
    notes = (f"{about} is paused: it is left alone until somebody resumes it",) if scaled.paused else ()
    return Autoscaler(about, low, high, _votes(about, triggers, raw), notes)


def _votes(about: str, triggers: Sequence[Trigger], raw: Object) -> Votes:
    """With a formula the triggers are its variables: KEDA holds its result against the target, and no threshold."""
    modifiers = part(raw, "spec", "advanced", "scalingModifiers")
    if not (formula := text(modifiers, "formula")):
        return votes_of(about, triggers)
    votes = votes_of(about, [replace(each, threshold=None) for each in triggers])
    target = f"for the target {text(modifiers, 'target') or '(none)'}"
    note = f"{about} asks by its formula {formula} {target}: the thresholds of its triggers say nothing"
    return replace(votes, notes=(note,))


def _of_hpa(hpa: Any, raw: Object) -> Autoscaler:  # noqa: ANN401  domain.cluster.Hpa
    about = address(raw)
    low = Reasoned(hpa.minimum, _from(about, "minReplicas", value(raw, "spec", "minReplicas")))
    high = Reasoned(hpa.maximum, _from(about, "maxReplicas", hpa.maximum))
    metrics = [hpa_metric(number, each) for number, each in enumerate(items(raw, "spec", "metrics"))]
    return Autoscaler(about, low, high, votes_of(about, metrics))


def _from(about: str, name: str, given: object) -> str:
    return f"{name} of {about}" if given is not None else f"{about} says none: the default of {name}"
