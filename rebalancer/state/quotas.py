"""What bounds the pods that the policy's targets may ask for. Looked at again only where something changed."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from rebalancer.domain.cluster import Pod, Workload
from rebalancer.domain.jobs import Job
from rebalancer.domain.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from rebalancer.domain.policy import Policy
from rebalancer.domain.quota_view import PodRank, QuotaDraw, QuotaView
from rebalancer.domain.quotas import (
    THOUSAND,
    LimitRange,
    PodAsk,
    PriorityClass,
    ResourceQuota,
    admitted,
    refused,
    requested,
    unsaid,
)
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state.holders import holders
from rebalancer.state.objects import Change, Objects
from rebalancer.state.preemption import LowestPriority, lowest
from rebalancer.state.queues import Asking, queue_views

_RULES = (ResourceQuota, LimitRange, PriorityClass, LocalQueue, ClusterQueue, Cohort, ResourceFlavor)
_REQUESTS = "requests."


Near = TypeVar("Near", LimitRange, Asking)


class Quotas:
    """Views of quotas, kept until an object that they rest on changes."""

    def __init__(self, policy: Policy, objects: Objects) -> None:
        self._objects = objects
        self._views: tuple[QuotaView, ...] = ()
        self._ranks: tuple[PodRank, ...] = ()
        self._lowest: dict[str, LowestPriority] = {}
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Take over models and pools."""
        pools = {pool.name: pool for pool in policy.pools}
        self._targets = {
            WorkloadRef(model.namespace, spec.kind, spec.name): (model.id, pools[spec.pool])
            for model in policy.models
            for spec in model.targets
        }
        self._namespaces = {ref.namespace for ref in self._targets}
        self._dirty = True

    def moved(self, change: Change) -> None:
        """An object was added, changed or removed."""
        if not self._dirty:
            self._dirty = any(self._concerns(obj) for obj in change)

    def _concerns(self, obj: object) -> bool:
        match obj:
            case Pod():
                return bool(self._views) and bool(obj.gpus) and obj.namespace in self._namespaces
            case Workload():
                return obj.ref in self._targets
            case Job():
                return bool(self._views) and obj.namespace in self._namespaces
        return isinstance(obj, _RULES)

    def views(self) -> tuple[QuotaView, ...]:
        """All of them that bind a target, by kind and name."""
        self._look()
        return self._views

    def ranks(self) -> tuple[PodRank, ...]:
        """The PriorityClasses of targets' pods, by model and pool."""
        self._look()
        return self._ranks

    def lowest(self) -> Mapping[str, LowestPriority]:
        """The lowest priority of the pods of each pool's models; a pool without any pods' template is missing."""
        self._look()
        return self._lowest

    def _look(self) -> None:
        if self._dirty:
            self._dirty = False
            asking = tuple(self._asking())
            views = [*self._of_namespaces(asking), *queue_views(asking, self._objects)]
            views.sort(key=lambda view: (view.kind, view.namespace, view.name, view.key))
            self._views = tuple(views)
            self._ranks = tuple(sorted(self._ranked(asking), key=lambda rank: (rank.model, rank.pool)))
            self._lowest = self._lowest_by_pool(asking)

    def _ranked(self, asking: Iterable[Asking]) -> Iterator[PodRank]:
        for one in asking:
            priority = self._objects.one(PriorityClass, one.pods[0].priority_class)
            if priority is not None and priority.value != 0:
                yield PodRank(one.model, one.pool.name, priority.name, priority.value, priority.preempts)

    def _lowest_by_pool(self, asking: Iterable[Asking]) -> dict[str, LowestPriority]:
        by_pool: defaultdict[str, list[LowestPriority]] = defaultdict(list)
        for one in asking:
            name = one.pods[0].priority_class
            priority = self._objects.one(PriorityClass, name)
            known = 0 if not name else priority.value if priority is not None and priority.preempts else None
            by_pool[one.pool.name].append(LowestPriority(one.model, known))
        for ref, (model, pool) in self._targets.items():
            workload = self._objects.workload(ref)
            if workload is not None and not workload.templated:
                by_pool[pool.name].append(LowestPriority(model, None))
        return {pool: least for pool, ranked in by_pool.items() if (least := lowest(ranked)) is not None}

    def _asking(self) -> Iterator[Asking]:
        default = next((one.name for one in self._objects.all(PriorityClass) if one.default), "")
        ranges = _by_namespace(self._objects.all(LimitRange))
        for ref, (model, pool) in self._targets.items():
            workload = self._objects.workload(ref)
            if workload is not None and workload.templated:
                of = (workload.leader_ask or workload.ask, *[workload.ask] * (workload.pods - 1))
                pods = tuple(admitted(pod, ranges[ref.namespace], default) for pod in of)
                yield Asking(model, pool, ref.namespace, pods)

    def _of_namespaces(self, asking: Sequence[Asking]) -> Iterator[QuotaView]:
        near = _by_namespace(asking)
        for limits in self._objects.all(LimitRange):
            for one in near[limits.namespace]:
                yield from _of_range(limits, one)
        for quota in self._objects.all(ResourceQuota):
            if near[quota.namespace]:
                yield from self._of_quota(quota, near[quota.namespace])

    def _of_quota(self, quota: ResourceQuota, near: Sequence[Asking]) -> Iterator[QuotaView]:
        draws: defaultdict[str, list[QuotaDraw]] = defaultdict(list)
        refused: defaultdict[str, list[QuotaDraw]] = defaultdict(list)  # by the key of which a pod says nothing
        for one in near:
            counted = [pod for pod in one.pods if quota.takes(pod, requested(pod))]
            sums: Counter[str] = Counter()
            for pod in counted:
                sums.update(requested(pod))
            for key in quota.hard.keys() & sums.keys():
                draws[key].append(QuotaDraw(one.model, one.pool.name, sums[key]))
            missing = next((key for pod in counted if (key := unsaid(pod, quota.hard))), "")
            if missing:
                refused[missing].append(QuotaDraw(one.model, one.pool.name, 0))
        for key, of in draws.items():
            known = key in quota.used
            yield QuotaView(
                kind="ResourceQuota",
                namespace=quota.namespace,
                name=quota.name,
                key=key,
                hard=quota.hard[key],
                used=quota.used.get(key, 0),
                draws=_in_order(of),
                holders=holders(self._holding(quota, key), self._objects),
                refuses="" if known else f"has not counted {key} yet, and takes no pod before that",
            )
        for key, of in refused.items():
            why = f"takes no pod with a container that says nothing of {key}"
            yield QuotaView("ResourceQuota", quota.namespace, quota.name, key, draws=_in_order(of), refuses=why)

    def _holding(self, quota: ResourceQuota, key: str) -> Iterator[tuple[Pod, int]]:
        """Pods with devices that the quota counts, each with what it takes of the key; cores and bytes are not read."""
        for pod in self._objects.device_pods_in.get(quota.namespace):
            seen = PodAsk(priority_class=pod.priority_class, ends=pod.ends_at is not None)
            amount = 1 if key in {"pods", "count/pods"} else pod.gpus.get(key.removeprefix(_REQUESTS), 0)
            if quota.takes(seen, {"cpu": 1}):
                yield pod, amount * THOUSAND


def _of_range(limits: LimitRange, one: Asking) -> Iterator[QuotaView]:
    why = next((why for pod in one.pods if (why := refused(pod, limits))), "")
    if why:
        draw = QuotaDraw(one.model, one.pool.name, 0)
        yield QuotaView("LimitRange", limits.namespace, limits.name, one.model, draws=(draw,), refuses=why)


def _in_order(draws: Iterable[QuotaDraw]) -> tuple[QuotaDraw, ...]:
    return tuple(sorted(draws, key=lambda draw: (draw.model, draw.pool)))


def _by_namespace(every: Iterable[Near]) -> defaultdict[str, list[Near]]:
    near: defaultdict[str, list[Near]] = defaultdict(list)
    for one in every:
        near[one.namespace].append(one)
    return near
