"""The pods of a target as its replicas: one each, or those together that its controller numbers as one group."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter

from msgspec import UNSET
from msgspec.structs import replace

from rebalancer.domain.cluster import Pod, Workload
from rebalancer.domain.snapshot import Place, PodView

Seen = tuple[Pod, PodView]


def replicas_of(workload: Workload, pods: Sequence[Seen], victims: str) -> Iterable[PodView]:
    """The replicas of a target whose pods are `pods`.

    Of a group those pods that are being deleted are a replica apart: its controller may make the others anew.
    """
    if victims != "ordinal" or any(pod.ordinal is None for pod, _ in pods):
        return [view for _, view in pods]
    if workload.pods == 1:
        return [replace(view, place=Place(_number(pod, workload))) for pod, view in pods]
    groups: dict[tuple[int, bool], list[Seen]] = defaultdict(list)
    for pod, view in pods:
        groups[_number(pod, workload), pod.deleting_at is not None].append((pod, view))
    return [_together(number, seen, workload.pods) for (number, _), seen in groups.items()]


def _number(pod: Pod, workload: Workload) -> int:
    return (pod.ordinal or 0) - workload.first_ordinal


def _together(number: int, seen: list[Seen], pods: int) -> PodView:
    """One replica of `pods` pods, of which those in `seen` are there: Ready when all are there and Ready."""
    seen.sort(key=lambda each: (each[0].member, each[0].uid))
    views = [view for _, view in seen]
    first, phases = views[0], {view.phase for view in views}
    nodes = tuple(view.node for view in views if view.node is not None)
    placed = len(nodes) >= pods or (phases == {"terminating"} and first.node is not None)
    return PodView(
        uid=first.uid,
        name=first.name,
        node=nodes[0] if placed else None,
        phase=_phase(phases, placed=placed),
        since=max(map(attrgetter("since"), views)) if phases <= {"ready", "lost"} else first.since,
        created_at=first.created_at,
        begun=all(view.begun for view in views),
        place=Place(number, nodes[1:] if placed else nodes),
        trouble=next((view.trouble for view in views if view.trouble), UNSET),
    )


def _phase(phases: set[str], *, placed: bool) -> str:
    """The phase of pods together; lost where all were Ready by their last word and some on no node that is listed."""
    if phases == {"terminating"}:
        return "terminating"
    if not placed:
        return "pending"
    if phases <= {"ready", "lost"}:
        return "lost" if "lost" in phases else "ready"
    return "loading"
