"""What asks for GPUs and has a scale; what asks for GPUs and has none is told by `left_out`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rebalancer.domain.cluster import Pod
from rebalancer.domain.tolerated import tolerated
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.planning.facts.scene import PodPlacement
from rebalancer.survey.accelerators import gpus
from rebalancer.survey.first_policy.engine import engine_of
from rebalancer.survey.first_policy.left_out import GROUP_LABEL, holders, others
from rebalancer.survey.first_policy.things import Things, decoded
from rebalancer.survey.objects import Object, Survey
from rebalancer.survey.parts import controllers, items, mapped, part, text

# By the policy's schema.
MOST_REPLICAS: Final = 100_000
MOST_PODS: Final = 512
MOST_GPUS: Final = 4096

_ROLES: Final = re.compile(r"(^|[/.-])role$")


@dataclass(frozen=True)
class GpuWorkload:
    """A workload whose pods ask for GPUs and whose replicas a number sets.

    ref: its namespace, kind and name.
    api_version: as its manifest has it.
    replicas: in its spec.
    resource: what counts as one GPU.
    gpus: of one replica.
    pods: of one replica.
    placement: what its template asks of nodes; of no pool yet.
    engine: image, command and arguments of its containers, a leader's first, by which twins are known.
    served: the model's names among the arguments, what its engine reports first.
    role: prefill, decode or whatever a role label says; "" without one.
    labels: its own, and those of its pods, which go before.
    owner: the object that controls it, "" where nobody does.
    seen: its pods with their JSON.
    """

    ref: WorkloadRef
    api_version: str
    replicas: int
    resource: str
    gpus: int
    pods: int
    placement: PodPlacement
    engine: tuple[str, ...]
    served: tuple[str, ...]
    role: str
    labels: Mapping[str, str]
    owner: str
    seen: tuple[tuple[Pod, Object], ...]


@dataclass(frozen=True)
class Workloads:
    """What asks for GPUs, and what does not.

    scaled: with a scale.
    left_out: without one, or no model for another reason; sentences.
    unusable: objects that cannot be understood; sentences.
    known: all that has a scale, with GPUs or without.
    without: how many of them ask for no GPU.
    """

    scaled: tuple[GpuWorkload, ...]
    left_out: tuple[str, ...]
    unusable: tuple[str, ...]
    known: frozenset[WorkloadRef]
    without: int


def workloads_of(survey: Survey, things: Things, namespaces: Sequence[str] = ()) -> Workloads:
    """Everything of `namespaces`, or of all where none is named, that holds or asks for GPUs."""
    unusable: list[str] = []
    scaled: list[GpuWorkload] = []
    left_out: list[str] = []
    known: set[WorkloadRef] = set()
    without = 0
    for obj, form in _scalable(survey):
        for seen in decoded("deployments", [form], unusable):
            ref = WorkloadRef(seen.value.ref.namespace, str(obj["kind"]), seen.value.ref.name)
            if namespaces and ref.namespace not in namespaces:
                continue
            known.add(ref)
            try:
                workload = _workload(obj, ref, seen.value, seen.raw, things)
            except (ValueError, msgspec.MsgspecError) as error:
                left_out.append(f"{ref}: {error}")
                continue
            if workload is None:
                without += 1
            else:
                scaled.append(workload)
    left_out += holders(things, known, namespaces)
    left_out += others(survey, {ref for ref in things.pods if ref is not None}, namespaces)
    unique = {each.ref: each for each in reversed(scaled)}  # a manifest that is there twice is one workload
    ordered = tuple(sorted(unique.values(), key=lambda each: each.ref))
    return Workloads(ordered, tuple(dict.fromkeys(left_out)), tuple(unusable), frozenset(known), without)


def _scalable(survey: Survey) -> Iterator[tuple[Object, Object]]:
    """Each object with a scale whose template we can read, and the Deployment that it would be."""
    for kind in ("Deployment", "StatefulSet"):
        for obj in survey.of(kind, "apps"):
            yield obj, obj
    for obj in survey.of("LeaderWorkerSet", "leaderworkerset.x-k8s.io"):
        replicas = part(obj, "spec").get("replicas")
        group = _group(obj)
        form = {
            "replicas": replicas,
            "template": group.get("workerTemplate") or {},
            "leaderTemplate": group.get("leaderTemplate") or {},
        }
        yield obj, {**obj, "spec": form}


def _workload(
    obj: Object,
    ref: WorkloadRef,
    value: Any,  # noqa: ANN401  the service's value of a workload
    raw: Object,
    things: Things,
) -> GpuWorkload | None:
    """None where it asks for no GPU. Raises ValueError, saying why it can be no model."""
    template = part(raw, "spec", "template")
    engine, of_pods = engine_of(template), mapped(template, "metadata", "labels")
    leader = engine_of(part(raw, "spec", "leaderTemplate"))
    by_resource = gpus(value.gpus)
    if not by_resource:
        if items(template, "spec", "resourceClaims"):
            raise ValueError(
                "asks for devices by resourceClaims (DRA): a pool with their deviceClass counts them, written by hand"
            )
        return None
    if len(by_resource) > 1:
        raise ValueError(f"asks for {' and '.join(sorted(by_resource))}: a pool counts one resource")
    ((resource, each),) = by_resource.items()
    if not 0 <= value.replicas <= MOST_REPLICAS:
        raise ValueError(f"spec.replicas {value.replicas} is no number of replicas")
    pods, seen = _pods_per_replica(obj, resource, each), tuple(_pods_of(things, ref))
    if each * pods > MOST_GPUS:
        raise ValueError(f"{each * pods} GPUs of one replica are more than a policy takes ({MOST_GPUS})")
    return GpuWorkload(
        ref=ref,
        api_version=str(obj.get("apiVersion", "")),
        replicas=value.replicas,
        resource=resource,
        gpus=each * pods,
        pods=pods,
        placement=_placement(value, resource, seen),
        engine=(*leader.words, *engine.words),
        served=leader.served or engine.served,
        role=_role(of_pods),
        labels={**mapped(obj, "metadata", "labels"), **of_pods},
        owner=_owner(raw),
        seen=seen,
    )


def _pods_per_replica(obj: Object, resource: str, each: int) -> int:
    """Pods of one replica: of a LeaderWorkerSet its group. Raises ValueError where they are not alike."""
    if obj["kind"] != "LeaderWorkerSet":
        return 1
    size = _group(obj).get("size", 1)
    if not isinstance(size, int) or not 1 <= size <= MOST_PODS:
        raise ValueError(f"spec.leaderWorkerTemplate.size {size!r} is no size of a group")
    leader = _group(obj).get("leaderTemplate")
    if leader:
        form = {**obj, "spec": {"template": leader}}
        for seen in decoded("deployments", [form], []):
            if gpus(seen.value.gpus) != {resource: each}:
                raise ValueError(
                    f"its leader asks for other GPUs than its workers ({each} {resource}): policies want pods alike"
                )
    return size


def _placement(value: Any, resource: str, seen: Sequence[tuple[Pod, Object]]) -> PodPlacement:  # noqa: ANN401  as above
    tolerations = tolerated(value.tolerations, (pod.tolerations for pod, _ in seen), resource)
    return PodPlacement("", tuple(value.node_selector.items()), tolerations, value.placement.terms)


def _role(labels: Mapping[str, str]) -> str:
    return next((labels[key] for key in sorted(labels) if _ROLES.search(key)), "")


def _group(obj: Object) -> Object:
    return part(obj, "spec", "leaderWorkerTemplate")


def _pods_of(things: Things, ref: WorkloadRef) -> Iterator[tuple[Pod, Object]]:
    if ref.kind != "LeaderWorkerSet":
        yield from things.pods.get(ref, ())
        return
    for pods in things.pods.values():
        for pod, raw in pods:
            if pod.namespace == ref.namespace and text(raw, "metadata", "labels", GROUP_LABEL) == ref.name:
                yield pod, raw


def _owner(raw: Object) -> str:
    return next((f"{text(each, 'kind').lower()}/{text(each, 'name')}" for each in controllers(raw)), "")
