"""Traps of models that the policy moves by the metrics-api trigger of their ScaledObjects (`actuation: metric`)."""

from collections.abc import Iterator
from typing import Final

import msgspec

from rebalancer.domain.metric_trigger import MetricTrigger, desired_path, limits, misfits
from rebalancer.ingest.objects.autoscalers import BehaviorWire, TriggersWire, asking, tolerances
from rebalancer.survey.case import Case, TargetHome, address_of
from rebalancer.survey.finding import FAIL, WARN
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import part, whole
from rebalancer.survey.traps.trap import Trap, Verdict, found_if

_KEDA_DEFAULT_MAXIMUM = 100


def not_followed(case: Case) -> Iterator[Verdict]:
    """Targets whose ScaledObject comes to another number than ours, or to fewer than the floor."""
    for home, workload, scaled in _moved(case):
        trigger, path = _asking(scaled), desired_path(home.model.id, home.target.pool)
        about = workload if scaled is None else scaled
        if scaled is None or trigger is None:
            sentence = f"no ScaledObject of it asks for {path} by a metrics-api trigger"
            yield Verdict(about, sentence, "give it the trigger of docs/metric.md, or another actuation")
            continue
        floor = home.model.min_replicas if len(home.model.targets) == 1 else 0
        faults = misfits(trigger, path, floor, _bounds(scaled))
        yield found_if(bool(faults), about, "; ".join(faults), "make it as in docs/metric.md")


def followed_late(case: Case) -> Iterator[Verdict]:
    """ScaledObjects that follow late, in part, or not without us."""
    for home, _, scaled in _moved(case):
        trigger = _asking(scaled)
        if scaled is None or trigger is None:
            continue
        made = case.made_for(scaled)
        if made is not None:
            trigger = trigger.followed_by(_tolerances(made))
        bounds = _bounds(scaled)
        alone = len(home.model.targets) == 1
        wanted = (home.model.min_replicas, home.model.max_replicas) if alone else bounds
        limited = limits(trigger, wanted, bounds)
        yield found_if(bool(limited), scaled, "; ".join(limited), "make it as in docs/metric.md")


def _moved(case: Case) -> Iterator[tuple[TargetHome, Object, Object | None]]:
    """Each target of such a model that is here, with its ScaledObject."""
    for template in case.gpu_templates:
        ref = address_of(template.owner)
        scaled = [each for each in case.scalers.get(ref, []) if each.get("kind") == "ScaledObject"]
        for home in case.homes(ref):
            if home.model.actuation == "metric":
                yield home, template.owner, scaled[0] if scaled else None


def _asking(scaled: Object | None) -> MetricTrigger | None:
    """What cannot be read as a ScaledObject asks for nothing."""
    try:
        return asking(msgspec.convert(part(scaled, "spec"), TriggersWire, strict=False))
    except msgspec.ValidationError:
        return None


def _tolerances(hpa: Object) -> tuple[float | None, float | None]:
    try:
        return tolerances(msgspec.convert(part(hpa, "spec", "behavior"), BehaviorWire, strict=False))
    except msgspec.ValidationError:
        return None, None


def _bounds(scaled: Object) -> tuple[int, int]:
    maximum = whole(scaled, "spec", "maxReplicaCount")
    return whole(scaled, "spec", "minReplicaCount") or 0, _KEDA_DEFAULT_MAXIMUM if maximum is None else maximum


TRAPS: Final = (
    Trap(
        "metric-not-followed",
        FAIL,
        "With `actuation: metric` the ScaledObject must come to our number: one metrics-api trigger on the target's "
        "own path, AverageValue over 1, bounds and a fallback that keep the floor.",
        "Make trigger, bounds and fallback as in docs/metric.md.",
        not_followed,
    ),
    Trap(
        "metric-followed-late",
        WARN,
        "An HPA leaves steps within its tolerance (10 %) alone and waits 300 s before a decrease, unless its behavior "
        "says otherwise, of which an API server without HPAConfigurableTolerance drops the tolerance; without a "
        "fallback KEDA does nothing while nobody answers. Policies of that behavior make steps of a step, and "
        "useCachedMetrics keeps an answer for a pollingInterval.",
        "Set tolerance and stabilizationWindowSeconds to 0, leave policies and useCachedMetrics out, and give it a "
        "fallback with currentReplicasIfHigher.",
        followed_late,
    ),
)
