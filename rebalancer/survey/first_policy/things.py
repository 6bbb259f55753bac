"""The objects of a survey as the service would see them: decoded by `ingest`, and beside each what it was made of."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from rebalancer.domain.cluster import Node, NodePool, Pod
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects import SHAPES, Unusable, value_of
from rebalancer.survey.objects import Object, Survey, address
from rebalancer.survey.parts import NO_NAMESPACE


class DecodedObject(NamedTuple):
    """One decoded object: the service's value and the JSON that has everything else."""

    value: Any
    raw: Object


class Things(NamedTuple):
    """Nodes and what else is decoded as it is.

    nodes: those with or without GPUs.
    node_pools: Karpenter's NodePools with their JSON.
    pods: pods that are not over, with their JSON, by what owns them (None: nothing does).
    unusable: objects that cannot be understood, each with the reason.
    """

    nodes: tuple[Node, ...]
    node_pools: tuple[tuple[NodePool, Object], ...]
    pods: dict[WorkloadRef | None, list[tuple[Pod, Object]]]
    unusable: tuple[str, ...]


def things_of(survey: Survey) -> Things:
    """Raises nothing: an object that is broken is told, and costs no other."""
    unusable: list[str] = []
    pods: dict[WorkloadRef | None, list[tuple[Pod, Object]]] = {}
    for pod, raw in decoded("pods", survey.of("Pod", ""), unusable):
        if pod.holds_gpus:
            pods.setdefault(pod.workload, []).append((pod, raw))
    return Things(
        tuple(seen.value for seen in decoded("nodes", survey.of("Node", ""), unusable)),
        tuple((seen.value, seen.raw) for seen in decoded("nodepools", survey.of("NodePool", "karpenter.sh"), unusable)),
        pods,
        tuple(unusable),
    )


def decoded(source: str, objects: Iterable[Object], unusable: list[str]) -> Iterator[DecodedObject]:
    """Each object as `domain.cluster` has it; one that cannot be is added to `unusable` with the reason."""
    for each in objects:
        try:
            raw = plain(each)
            value = value_of(source, msgspec.convert(raw, SHAPES[source].wire))
        except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
            unusable.append(f"{address(each)}: {error}")
            continue
        if isinstance(value, Unusable):
            unusable.append(f"{address(each)}: {value.why}")
        else:
            yield DecodedObject(value, raw)


def plain(obj: Object) -> dict[str, Any]:
    """The object as JSON has it (a YAML timestamp is text), in the namespace where kubectl would put it.

    Raises TypeError for an object without metadata.
    """
    raw: dict[str, Any] = msgspec.to_builtins(obj, enc_hook=str)
    if not isinstance(raw.get("metadata"), dict):
        raise TypeError("it has no metadata")
    if raw.get("kind") not in {"Node", "NodePool"}:
        raw = {**raw, "metadata": {**raw["metadata"], "namespace": raw["metadata"].get("namespace") or NO_NAMESPACE}}
    return raw
