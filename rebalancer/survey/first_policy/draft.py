"""What a first policy says, value by value, with the evidence of each. Field order is the policy's order of keys."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)

GUESS = "guess: "
"""Begins the evidence of a value that may well be wrong."""

CHOOSE = "choose: "
"""Begins what a person has to decide, since no cluster tells it."""


@dataclass(frozen=True)
class Said(Generic[T_co]):
    """A value and the sentence that it rests on; `off`: written as a comment, so that the default holds."""

    value: T_co
    why: str = ""
    off: bool = False


@dataclass(frozen=True)
class PoolDraft:
    """A pool as the policy will have it; None leaves the key out.

    name: of the pool.
    kind: primary or elastic.
    resource: what counts as one GPU.
    node_labels: labels that tell its nodes from those of all other pools.
    capacity_type: on-demand, reserved or spot.
    price_per_gpu_hour: USD; never known from a cluster.
    node_pools: Karpenter NodePools behind it.
    gpus_per_node: of a node that one of them adds.
    gpu_limit: most GPUs it may ever have.
    notes: sentences above it.
    """

    name: Said[str]
    kind: Said[str]
    resource: Said[str]
    node_labels: Said[dict[str, str]]
    capacity_type: Said[str]
    price_per_gpu_hour: Said[float] | None
    node_pools: Said[tuple[str, ...]] | None
    gpus_per_node: Said[int] | None
    gpu_limit: Said[int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelDraft:
    """A model as the policy will have it; None leaves the key out.

    id: of the model.
    namespace: of its targets.
    aliases: names by which its engine reports metrics.
    targets: where its replicas run, its home first.
    gpus_per_replica: GPUs of one replica.
    pods_per_replica: pods of one replica.
    min_replicas: the floor.
    max_replicas: the most.
    entitlement: what is its own.
    workload_class: realtime, interactive or batch; the key is `class`.
    slo: what was promised.
    load_seconds: from a pod's creation to Ready.
    signals: what votes, by the policy's names of signals.
    notes: sentences above it.
    """

    id: Said[str]
    namespace: Said[str]
    aliases: Said[tuple[str, ...]] | None
    targets: tuple[Said[dict[str, str]], ...]
    gpus_per_replica: Said[int]
    pods_per_replica: Said[int] | None
    min_replicas: Said[int]
    max_replicas: Said[int]
    entitlement: Said[int]
    workload_class: Said[str]
    slo: Said[dict[str, float]]
    load_seconds: Said[float]
    signals: dict[str, Said[object]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Draft:
    """A first policy.

    pools: in an order in which the first pool that a node matches is the right one.
    models: by namespace and name.
    left_out: what asks for GPUs and is no model, each with the reason.
    unread: what could not be read, each with the reason.
    seen: what there was to look at, in words.
    """

    pools: tuple[PoolDraft, ...]
    models: tuple[ModelDraft, ...]
    left_out: tuple[str, ...]
    unread: tuple[str, ...]
    seen: str
