"""The holder of the GPUs of a pod: the object above it, and the instant at which that ends, where it says so."""

from collections.abc import Iterable
from typing import NamedTuple

from rebalancer.domain.cluster import Pod
from rebalancer.domain.jobs import Job
from rebalancer.domain.quota_view import Holder
from rebalancer.state.objects import Objects

MOST = 8  # holders told by name; who holds less is in the sums alone


class _Who(NamedTuple):
    kind: str
    namespace: str
    name: str


def holders(pods: Iterable[tuple[Pod, int]], objects: Objects) -> tuple[Holder, ...]:
    """The holders of these amounts, the most first. Each pod comes with its own; ended pods hold nothing."""
    amounts: dict[_Who, int] = {}
    ends: dict[_Who, list[float | None]] = {}
    for pod, amount in pods:
        if amount > 0 and not pod.terminal:
            who, ends_at = _above(pod, objects)
            amounts[who] = amounts.get(who, 0) + amount
            ends.setdefault(who, []).append(ends_at)
    holding = [Holder(*who, amount, _last(ends[who])) for who, amount in amounts.items()]
    holding.sort(key=lambda one: (-one.amount, one.kind, one.namespace, one.name))
    return tuple(holding[:MOST])


def _above(pod: Pod, objects: Objects) -> tuple[_Who, float | None]:
    """The object above a pod, of a Job what made it, and when the pod ends at the latest."""
    if pod.workload is None:
        return _Who("Pod", pod.namespace, pod.name), pod.ends_at
    namespace, kind, name = pod.workload.namespace, pod.workload.kind, pod.workload.name
    job = objects.one(Job, name, namespace) if kind == "Job" else None
    if job is None:
        return _Who(kind, namespace, name), pod.ends_at
    above = job.above or (kind, name)
    return _Who(above[0], namespace, above[1]), min(_known(pod.ends_at, job.ends_at), default=None)


def _known(*instants: float | None) -> list[float]:
    return [at for at in instants if at is not None]


def _last(ends: Iterable[float | None]) -> float | None:
    """The last of them, None where one of them is unknown."""
    instants = list(ends)
    known = _known(*instants)
    return max(known) if len(known) == len(instants) else None
