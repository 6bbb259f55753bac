"""What a first policy says, value by value, with the evidence of each. Field order is the policy's order of keys."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)

GUESS = "guess: "
"""Begins the evidence of a value that may well be wrong."""

CHOOSE = "choose: "
"""Begins what a person has to decide, since no cluster tells it."""


@dataclass(frozen=True)
class Reasoned(Generic[T_co]):
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
    isolation: soft, where shares of GPUs count.
    notes: sentences above it.
    """

    name: Reasoned[str]
    kind: Reasoned[str]
    resource: Reasoned[str]
    node_labels: Reasoned[dict[str, str]]
    capacity_type: Reasoned[str]
    price_per_gpu_hour: Reasoned[float] | None
    node_pools: Reasoned[tuple[str, ...]] | None
    gpus_per_node: Reasoned[int] | None
    gpu_limit: Reasoned[int]
    isolation: Reasoned[str] | None = None
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
    team: whose it is.
    slo: what was promised.
    load_seconds: from a pod's creation to Ready.
    signals: what votes, by the policy's names of signals.
    cost_center: whom it is charged to.
    notes: sentences above it.
    """

    id: Reasoned[str]
    namespace: Reasoned[str]
    aliases: Reasoned[tuple[str, ...]] | None
    targets: tuple[Reasoned[dict[str, str]], ...]
    gpus_per_replica: Reasoned[int]
    pods_per_replica: Reasoned[int] | None
    min_replicas: Reasoned[int]
    max_replicas: Reasoned[int]
    entitlement: Reasoned[int]
    workload_class: Reasoned[str]
    team: Reasoned[str] | None
    slo: Reasoned[dict[str, float]]
    load_seconds: Reasoned[float]
    signals: dict[str, Reasoned[object]]
    cost_center: Reasoned[str] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PolicyDraft:
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
