"""Which pods of no model are preemptible in a pool: jobs on idle GPUs, ended by the scheduler for a replica's pod.

Kubernetes' scheduler preempts pods of a lower priority where a pod finds no place otherwise, and each has its own grace
period as notice. So what such pods hold is room, if the pods of every model of the pool have a higher priority.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from rebalancer.domain.cluster import Pod
from rebalancer.domain.policy import Pool

MOST_SECONDS: Final = 120.0  # to end: a replica that waits longer for its place is late for the surge it was raised for


class LowestPriority(NamedTuple):
    """The lowest priority that pods of a pool's models have.

    model: id of a model whose pods have it.
    value: that priority; None where these pods preempt nobody, or nobody knows what they have.
    """

    model: str
    value: int | None


def lowest(priorities: Iterable[LowestPriority]) -> LowestPriority | None:
    """The one that counts: what is unknown before the lowest that is known; None of nobody."""
    return min(priorities, key=lambda one: (one.value is not None, one.value or 0, one.model), default=None)


def is_preemptible(pod: Pod, pool: Pool, models: LowestPriority | None) -> bool:
    """Whether the scheduler would end the pod for a replica of any model of the pool, and it would be gone soon."""
    if pod.priority_class not in pool.preemptible_priority_classes or pod.grace_seconds > MOST_SECONDS:
        return False
    return models is not None and models.value is not None and pod.priority < models.value


def why_not_preemptible(pods: Iterable[Pod], pool: Pool, models: LowestPriority | None) -> str:
    """Why pods of the classes that the policy names are not, by the first of them; "" where there is none."""
    first = next((pod for pod in pods if pod.priority_class in pool.preemptible_priority_classes), None)
    if first is None or models is None:
        return ""
    of = f"pods of PriorityClass {first.priority_class} are not preempted"
    if first.grace_seconds > MOST_SECONDS:
        return f"{of}: they have {first.grace_seconds} s to end, and a replica waits for {MOST_SECONDS:.0f} s at most"
    if models.value is None:
        return f"{of}: pods of model {models.model} preempt nobody, or their PriorityClass is unknown"
    return f"{of}: their priority, {first.priority}, is not below that of model {models.model}'s pods, {models.value}"
