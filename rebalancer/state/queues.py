"""What Kueue would admit of the policy's targets: their LocalQueue, its ClusterQueue, and what its cohort lends."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rebalancer.domain.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Tree
from rebalancer.domain.policy import Pool
from rebalancer.domain.quota_view import QuotaDraw, QuotaView
from rebalancer.domain.quotas import PodAsk, number, requested
from rebalancer.domain.words import listed, sentences
from rebalancer.state.objects import Objects

KIND = "ClusterQueue"


class Asking(NamedTuple):
    """A target of the policy with what its pods ask for, their namespace's defaults filled in.

    model: id of the model.
    pool: the pool of the target.
    namespace: the namespace of the target.
    pods: the pods of one replica.
    """

    model: str
    pool: Pool
    namespace: str
    pods: tuple[PodAsk, ...]


class _Drawn(NamedTuple):
    """A ClusterQueue as targets draw on it: one resource, of the flavors whose nodes may be those of their pool."""

    queue: str
    resource: str
    flavors: tuple[str, ...]


def queue_views(asking: Sequence[Asking], objects: Objects) -> Iterator[QuotaView]:
    """A view for each queue and resource; and of a cohort, on which all of its queues draw."""
    drawn: defaultdict[_Drawn, list[QuotaDraw]] = defaultdict(list)
    for one in asking if "localqueues" in objects.listed else ():  # without Kueue a label holds nobody back
        names = {pod.queue for pod in one.pods} - {""}
        for name in sorted(names):
            local = objects.one(LocalQueue, name, one.namespace)
            queue = None if local is None else objects.one(ClusterQueue, local.queue)
            why = _closed(name, local, queue)
            if why or queue is None:
                refuses = f"{why}; pods with that queue wait at a gate"
                yield QuotaView(
                    "LocalQueue",
                    one.namespace,
                    name,
                    one.model,
                    draws=(QuotaDraw(one.model, one.pool.name, 0),),
                    refuses=refuses,
                )
                continue
            for resource, amount in _amounts(one).items():
                flavors = tuple(_flavors(queue, resource, one.pool, objects))
                covered = any(quota.resource == resource for quota in queue.quotas)
                if covered:
                    drawn[_Drawn(queue.name, resource, flavors)].append(QuotaDraw(one.model, one.pool.name, amount))
    yield from _numbered(drawn, objects)


def _closed(name: str, local: LocalQueue | None, queue: ClusterQueue | None) -> str:
    """Why a queue admits nothing, whatever its numbers; "" where it may."""
    if local is None:
        return "does not exist"
    if queue is None:
        return f"leads to ClusterQueue {local.queue}, which does not exist"
    stopped = f"LocalQueue {name}" if local.stopped else f"ClusterQueue {queue.name}" if queue.stopped else ""
    return f"admits nothing: {stopped} has a stopPolicy" if stopped else ""


def _amounts(one: Asking) -> dict[str, int]:
    """What a replica requests, by resource, as Kueue counts it."""
    sums: dict[str, int] = {}
    for pod in one.pods:
        for key, amount in requested(pod).items():
            name = key.removeprefix("requests.")
            if key == "pods" or key != name:
                sums[name] = sums.get(name, 0) + amount
    return sums


def _flavors(queue: ClusterQueue, resource: str, pool: Pool, objects: Objects) -> Iterator[str]:
    """Flavors of the resource whose nodes may be those of the pool: none of their labels says otherwise."""
    for quota in queue.quotas:
        flavor = objects.one(ResourceFlavor, quota.flavor)
        labels = {} if flavor is None else flavor.labels
        if quota.resource == resource and all(
            pool.node_labels.get(key, value) == value for key, value in labels.items()
        ):
            yield quota.flavor


def _numbered(drawn: dict[_Drawn, list[QuotaDraw]], objects: Objects) -> Iterator[QuotaView]:
    queues, cohorts = tuple(objects.all(ClusterQueue)), tuple(objects.all(Cohort))
    of_cohort: defaultdict[_Drawn, list[QuotaDraw]] = defaultdict(list)
    for (name, resource, flavors), draws in drawn.items():
        queue = objects.one(ClusterQueue, name)
        if queue is None:
            continue
        trees = [Tree(queues, cohorts, flavor, resource) for flavor in flavors]
        used, own = (sum(each(queue) for each in of) for of in ([t.used for t in trees], [t.nominal for t in trees]))
        free = sum(max(0, tree.available(queue)) for tree in trees)
        back = max(0, own - used) if queue.reclaims else 0  # others give back what they borrow
        yield QuotaView(
            kind=KIND,
            namespace="",
            name=name,
            key=resource,
            hard=used + max(free, back),
            used=used,
            draws=tuple(sorted(draws, key=lambda draw: (draw.model, draw.pool))),
            share=_share(queue, resource, flavors, own, used),
        )
        if queue.cohort:
            of_cohort[_Drawn(queue.cohort, resource, flavors)] += draws
    for (name, resource, flavors), draws in of_cohort.items():
        if len({draw.model for draw in draws}) > 1:
            yield from _of_cohort(name, resource, flavors, draws, queues, cohorts)


def _of_cohort(  # noqa: PLR0913  # what it is made from
    name: str,
    resource: str,
    flavors: tuple[str, ...],
    draws: list[QuotaDraw],
    queues: tuple[ClusterQueue, ...],
    cohorts: tuple[Cohort, ...],
) -> Iterator[QuotaView]:
    """What all queues of a cohort together may still have: two of them shall not be promised the same."""
    members = [queue for queue in queues if queue.cohort == name]
    trees = [Tree(queues, cohorts, flavor, resource) for flavor in flavors]
    if any(queue.reclaims for queue in members):
        return  # what one takes back another loses: Kueue decides who
    used = sum(tree.used(queue) for tree in trees for queue in members)
    free = sum(tree.lent(name, members) for tree in trees)
    yield QuotaView(
        "Cohort", "", name, resource, used + max(0, free), used, tuple(sorted(draws, key=lambda d: (d.model, d.pool)))
    )


def _share(queue: ClusterQueue, resource: str, flavors: tuple[str, ...], own: int, used: int) -> str:
    """`its own 4 of flavor a100, 2 borrowed of cohort ml`."""
    borrowed = max(0, used - own)
    of = f" of flavor {listed(flavors)}" if flavors else ": none of its flavors is of these nodes"
    lent = f"{number(resource, borrowed)} borrowed of cohort {queue.cohort}" if borrowed else ""
    return sentences(f"its own are {number(resource, own)}{of}", lent)
