"""What holds or asks for GPUs and has no scale that we know, each with a sentence that says why it is no model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rebalancer.domain.cluster import Pod
from rebalancer.domain.gpu_shapes import is_accelerator
from rebalancer.domain.target_kinds import BY_NAME
from rebalancer.domain.words import counted
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.survey.accelerators import gpus
from rebalancer.survey.first_policy.things import Things
from rebalancer.survey.objects import Survey, address
from rebalancer.survey.parts import text, value

GROUP_LABEL: Final = "leaderworkerset.sigs.k8s.io/name"
"""On the pods of a LeaderWorkerSet, whose owner references name what it made."""

_SCALERS: Final = frozenset({"ScaledObject", "HorizontalPodAutoscaler"})
SCALED: Final = frozenset({"Deployment", "StatefulSet", "LeaderWorkerSet"})
"""Kinds with a scale that are read."""

_READ: Final = SCALED | {"Node", "NodePool", "NodeClaim", "Pod"}


def holders(things: Things, known: set[WorkloadRef], namespaces: Sequence[str]) -> Iterator[str]:
    """Pods that hold GPUs and belong to nothing that we know a scale of: Jobs, DaemonSets, operators' own."""
    for ref, pods in things.pods.items():
        if ref in known:
            continue
        groups: dict[str, list[Pod]] = {}
        for pod, raw in pods:
            set_name = text(raw, "metadata", "labels", GROUP_LABEL)
            if set_name and WorkloadRef(pod.namespace, "LeaderWorkerSet", set_name) in known:
                continue
            if gpus(pod.gpus) and (not namespaces or pod.namespace in namespaces):
                groups.setdefault(str(ref) if ref else f"pod/{pod.namespace}/{pod.name}", []).append(pod)
        for about, pods_there in groups.items():
            total = sum(count for pod in pods_there for count in gpus(pod.gpus).values())
            kind = ref.kind if ref else "Pod"
            yield f"{about}: {counted(len(pods_there), 'pod')} with {counted(total, 'GPU')} now; {_unscaled(kind)}"


def others(survey: Survey, owners: Iterable[WorkloadRef], namespaces: Sequence[str]) -> Iterator[str]:
    """Objects of other kinds that ask for GPUs somewhere in their spec."""
    known = {str(ref) for ref in owners}
    for obj in survey.objects:
        kind = str(obj.get("kind"))
        if kind in _READ or (kind == "ReplicaSet" and value(obj, "metadata", "ownerReferences")):
            continue
        if namespaces and value(obj, "metadata", "namespace") not in namespaces:
            continue
        resources = sorted(set(_gpu_resources(obj.get("spec"))))
        if resources and address(obj) not in known:
            yield f"{address(obj)}: asks for {', '.join(resources)}; {_unscaled(kind)}"


def unread_kinds(survey: Survey) -> Iterator[str]:
    """One sentence about all objects of kinds that a policy takes nothing from and that ask for no GPU."""
    other = [
        str(obj["kind"])
        for obj in survey.objects
        if str(obj["kind"]) not in _READ | _SCALERS and not any(_gpu_resources(obj.get("spec")))
    ]
    if other:
        kinds = ", ".join(sorted(set(other)))
        yield f"{counted(len(other), 'object')} of kinds that a policy takes nothing from: {kinds}"


def _gpu_resources(spec: object) -> Iterator[str]:
    """GPU resources that any `requests` or `limits` in a spec names; each part is looked at once: YAML repeats them."""
    left, seen = [spec], set[int]()
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Mapping):
            for key, inner in part.items():
                if key in {"requests", "limits"} and isinstance(inner, Mapping):
                    yield from (str(name) for name in inner if name == "gpu" or is_accelerator(str(name)))
            left += part.values()
        elif isinstance(part, list | tuple):
            left += part


def _unscaled(kind: str) -> str:
    reason = {
        "Job": "a Job runs to its end and has no scale",
        "CronJob": "a CronJob has no scale",
        "DaemonSet": "a DaemonSet runs on every node and has no scale",
        "Pod": "a pod of its own has no scale",
    }
    way = "write it as a target of that kind" if kind in BY_NAME else "a Deployment that it makes can be a model"
    return reason.get(kind, f"kind {kind} is not read: {way}")
