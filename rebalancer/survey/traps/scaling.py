"""Traps in the bounds of ScaledObjects, and in who else writes replicas."""

from collections.abc import Iterator
from typing import Final

from rebalancer.domain.parents import AUTOSCALER_CLASS, LEAVES, PARENTS, Parent
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects.autoscalers import PAUSED, PAUSED_REPLICAS, is_paused
from rebalancer.state.views import KEDA_DEFAULT_MAXIMUM
from rebalancer.survey.case import Case, target_of
from rebalancer.survey.finding import FAIL, WARN
from rebalancer.survey.objects import Object, address, group_of
from rebalancer.survey.parts import items, mapped, namespace, part, text, whole
from rebalancer.survey.traps.trap import Trap, Verdict, found_if
from rebalancer.survey.traps.triggers import never_idle, scaled_objects

WITHOUT_SCALE: Final = tuple(
    Parent(
        group="ray.io",
        kind=kind,
        does="owns the worker groups, and there is no scale of theirs",
        bounds=LEAVES,
        replicas=LEAVES,
        way_out="leave it out of the policy: its pods count as foreign GPUs",
    )
    for kind in ("RayService", "RayCluster")
)
"""Kinds that own pods and offer nobody else a number to write."""

TOLD: Final = {
    ("serving.kserve.io", "InferenceService"): "KServe",
    ("serving.kserve.io", "LLMInferenceService"): "KServe",
    ("apps.nvidia.com", "NIMService"): "the NIM operator",
    ("nvidia.com", "DynamoGraphDeployment"): "Dynamo's operator",
    ("autoscaling.aibrix.ai", "PodAutoscaler"): "AIBrix",
    ("ray.io", "RayService"): "Ray's autoscaler",
    ("ray.io", "RayCluster"): "Ray's autoscaler",
}
"""Parents that are told wherever they stand, by group and kind, with who acts for them."""


def two_writers(case: Case) -> Iterator[Verdict]:
    """Each target has one autoscaler."""
    for target, scalers in case.scalers.items():
        if not case.concerns(scalers[0]):
            continue
        rivals = [each for each in scalers if not _handed_over(each, scalers)]
        for scaler in scalers:
            others = [address(each) for each in rivals if address(each) != address(scaler)]
            problem = f"{_named(target)} has {' and '.join(others)} beside it: they undo each other"
            fix = f"keep one of them: kubectl -n {target.namespace} delete {_command_name(scaler)}"
            yield found_if(bool(others) and scaler in rivals, scaler, problem, fix)


def unsaid_minimum(case: Case) -> Iterator[Verdict]:
    """KEDA's default minimum is 0, and every start of a model is paid by somebody's request."""
    for scaled in scaled_objects(case):
        floors = [home.model.min_replicas for home in case.homes(target_of(scaled))]
        floor, minimum = case.floor_of(target_of(scaled)), whole(scaled, "spec", "minReplicaCount")
        unsaid = "minReplicaCount" not in part(scaled, "spec")
        below = minimum is not None and minimum < floor
        problem = "minReplicaCount is not said, and KEDA's default is 0: the model sleeps when its triggers are calm"
        if below:
            own = f"{floor}, which its model's other targets leave of " if floor not in floors else ""
            problem = (
                f"minReplicaCount {minimum} is below {own}the policy's floor of {max(floors)}:"
                " KEDA may go where the policy may not"
            )
        yield found_if(unsaid or below, scaled, problem, f"spec.minReplicaCount: {max(floor, 1)}")


def idle_not_below(case: Case) -> Iterator[Verdict]:
    """KEDA refuses an idle count that is not below the minimum, and supports 0 alone."""
    for scaled in scaled_objects(case):
        idle, least = whole(scaled, "spec", "idleReplicaCount"), whole(scaled, "spec", "minReplicaCount") or 0
        problem = f"idleReplicaCount {idle} is not below minReplicaCount {least}: KEDA's webhook refuses it"
        fix = f"spec.minReplicaCount: {(idle or 0) + 1}, or remove spec.idleReplicaCount"
        yield found_if(idle is not None and idle >= least, scaled, problem, fix)


def dead_timing(case: Case) -> Iterator[Verdict]:
    """The two waits of KEDA are for 0 and idle alone."""
    for scaled in scaled_objects(case):
        cached = any(text(each, "useCachedMetrics") == "true" for each in items(scaled, "spec", "triggers"))
        fields = ("cooldownPeriod",) if cached else ("cooldownPeriod", "pollingInterval")
        dead = [each for each in fields if each in part(scaled, "spec")] if never_idle(scaled) else []
        does = "does nothing" if len(dead) == 1 else "do nothing"
        problem = (
            f"{' and '.join(dead)} {does} at a minimum above 0: the HPA asks every 15 s, and waits by its behavior"
        )
        fix = "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds: 300"
        yield found_if(bool(dead), scaled, problem, fix)


def pinning_fallback(case: Case) -> Iterator[Verdict]:
    """A static fallback is a number of replicas, whatever the load."""
    for scaled in scaled_objects(case):
        fallback = part(scaled, "spec", "fallback")
        replicas, failures = whole(fallback, "replicas"), whole(fallback, "failureThreshold")
        static = text(fallback, "behavior") in {"", "static"}
        most = whole(scaled, "spec", "maxReplicaCount") or KEDA_DEFAULT_MAXIMUM
        after = "" if failures is None else f" from failure {failures + 1} on"
        problem = f"fallback holds {replicas} of at most {most} replicas{after}, in a surge too"
        pins = bool(fallback) and static and replicas is not None and replicas < most
        yield found_if(pins, scaled, problem, "spec.fallback.behavior: currentReplicasIfHigher")


def fallback_of_resources(case: Case) -> Iterator[Verdict]:
    """KEDA's fallback is not for cpu and memory."""
    for scaled in scaled_objects(case):
        kinds = {text(each, "type") for each in items(scaled, "spec", "triggers")}
        alone = bool(part(scaled, "spec", "fallback")) and bool(kinds) and kinds <= {"cpu", "memory"}
        problem = "fallback with no trigger but cpu and memory: KEDA's webhook refuses it"
        yield found_if(alone, scaled, problem, "remove spec.fallback, or add a trigger on the model's queue")


def paused(case: Case) -> Iterator[Verdict]:
    """A paused ScaledObject has no HPA, so that bounds hold nobody."""
    for scaled in scaled_objects(case):
        notes = mapped(scaled, "metadata", "annotations")
        held = notes.get(PAUSED_REPLICAS)
        at = f", and holds it at {held} replicas" if held else ""
        problem = f"KEDA deletes its HPA{at}: its bounds hold nothing, and nobody scales it"
        removed = " ".join(f"{key}-" for key in (PAUSED, PAUSED_REPLICAS) if key in notes)
        fix = f"kubectl -n {namespace(scaled)} annotate {_command_name(scaled)} {removed}"
        yield found_if(is_paused(notes), scaled, problem, fix)


def parents(case: Case) -> Iterator[Verdict]:
    """Controllers that own replicas and write them back: no neighbours for another writer."""
    rows = {(row.group, row.kind): row for row in (*PARENTS, *WITHOUT_SCALE)}
    for obj in case.survey.objects:
        kind = group_of(obj), text(obj, "kind")
        if kind in TOLD:
            problem = f"{TOLD[kind]} {rows[kind].does}: a target of the policy below it would be fought over"
            yield found_if(_writes_back(obj, rows[kind]), obj, problem, rows[kind].way_out)


def _writes_back(obj: Object, row: Parent) -> bool:
    spec = part(obj, "spec")
    if text(obj, "metadata", "annotations", AUTOSCALER_CLASS) in row.consents:
        return False
    if obj.get("kind") == "LLMInferenceService":
        return "replicas" in spec or "scaling" in spec or "replicas" in part(spec, "prefill")
    return True


def _handed_over(hpa: Object, scalers: list[Object]) -> bool:
    """Whether KEDA is told to take this HPA over."""
    for scaled in scalers:
        takes_over = (
            mapped(scaled, "metadata", "annotations").get("scaledobject.keda.sh/transfer-hpa-ownership") == "true"
        )
        named = text(scaled, "spec", "advanced", "horizontalPodAutoscalerConfig", "name")
        if takes_over and hpa.get("kind") == "HorizontalPodAutoscaler" and named == text(hpa, "metadata", "name"):
            return True
    return False


def _named(target: WorkloadRef) -> str:
    return f"{target.kind.lower()}/{target.name}"


def _command_name(obj: Object) -> str:
    return f"{text(obj, 'kind').lower()}/{text(obj, 'metadata', 'name') or 'NAME'}"


TRAPS: Final = (
    Trap(
        "dead-timing",
        WARN,
        "cooldownPeriod is the wait before 0 or the idle count, pollingInterval how often KEDA asks there; above, "
        "the HPA asks every 15 s and waits by its behavior.",
        "Remove them; set the HPA's behavior.",
        dead_timing,
    ),
    Trap(
        "unsaid-minimum",
        WARN,
        "KEDA's default minimum is 0: the first request after a calm waits for a whole start.",
        "Say minReplicaCount, at least the policy's floor.",
        unsaid_minimum,
    ),
    Trap(
        "idle-not-below",
        FAIL,
        "KEDA refuses an idleReplicaCount that is not below minReplicaCount.",
        "Raise the minimum, or remove the idle count.",
        idle_not_below,
    ),
    Trap(
        "pinning-fallback",
        WARN,
        "A static fallback holds its number of replicas for as long as the source is away, in a surge too, from one "
        "failure after failureThreshold on.",
        "Set behavior to currentReplicasIfHigher.",
        pinning_fallback,
    ),
    Trap(
        "fallback-of-resources",
        FAIL,
        "Triggers of cpu and memory have no fallback; KEDA refuses one with nothing else.",
        "Remove the fallback, or add a trigger.",
        fallback_of_resources,
    ),
    Trap(
        "paused",
        WARN,
        "KEDA deletes the HPA of a paused ScaledObject: its minimum and maximum hold nobody, and nobody scales.",
        "Remove the annotations when the reason is gone.",
        paused,
    ),
    Trap(
        "two-autoscalers",
        FAIL,
        "Two autoscalers of one target undo each other within 15 s, and KEDA's webhook refuses the second.",
        "Keep one, with several triggers.",
        two_writers,
    ),
    Trap(
        "parent",
        WARN,
        "What owns replicas and writes them back fights with whoever moves them.",
        "Take its way out, or leave what it owns out of the policy.",
        parents,
    ),
)
