"""Which pool a workload belongs to, and which workloads are one model."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rebalancer.domain.words import counted
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.survey.first_policy.draft import CHOOSE, GUESS
from rebalancer.survey.first_policy.pools import NodeGrouping
from rebalancer.survey.first_policy.workloads import GpuWorkload


@dataclass(frozen=True)
class Home:
    """The pool of a workload, and what says so."""

    pool: NodeGrouping
    why: str


def home_of(workload: GpuWorkload, pools: Sequence[NodeGrouping]) -> Home | None:
    """Where most of its pods stand, else the only pool where they may, else the first of those; None without any."""
    rooms = [pool for pool in pools if workload.ref in pool.guests]
    where = {place.name: pool for pool in pools for place in pool.places if pool.resource == workload.resource}
    standing = Counter(where[pod.node].name for pod, _ in workload.seen if pod.node in where)
    if standing:
        name, count = min(standing.items(), key=lambda each: (-each[1], each[0]))
        others = ", ".join(f"{n} in {other}" for other, n in sorted(standing.items()) if other != name)
        why = f"{counted(count, 'pod')} of it stand{'s' if count == 1 else ''} there"
        if others:
            why += f", {others}: {CHOOSE}a Deployment for each pool, or a nodeSelector"
        return Home(next(pool for pool in pools if pool.name == name), why)
    if not rooms:
        return None
    home = min(rooms, key=lambda pool: (pool.spot, -pool.gpus, pool.name))
    if len(rooms) == 1:
        return Home(
            home, f"{GUESS}no pod of it was seen; only nodes of this pool take it" if home.places else "by its selector"
        )
    names = ", ".join(pool.name for pool in rooms if pool is not home)
    return Home(home, f"{CHOOSE}no pod was seen, and {names} would take it as well: a nodeSelector says which")


def twins(workloads: Sequence[GpuWorkload], homes: Mapping[WorkloadRef, Home]) -> Iterator[tuple[GpuWorkload, ...]]:
    """Workloads of one model: the same engine with the same arguments, each in a pool of its own; spot comes last."""
    alike: dict[object, list[GpuWorkload]] = {}
    for each in workloads:
        same = (each.ref.namespace, each.ref.kind, each.gpus, each.pods, each.engine, each.role)
        alike.setdefault(same if each.served else each.ref, []).append(each)
    for some in alike.values():
        pools = [homes[each.ref].pool.name for each in some]
        if len(some) > 1 and len(set(pools)) == len(pools):
            yield tuple(sorted(some, key=lambda each: (homes[each.ref].pool.spot, -each.replicas, each.ref)))
        else:
            yield from ((each,) for each in some)
