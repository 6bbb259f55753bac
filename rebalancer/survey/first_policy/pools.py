"""Groups of nodes that all workloads see alike, with names, and with labels that tell them apart: the pools."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rebalancer.domain.words import listed
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.survey.first_policy.draft import CHOOSE, GUESS, Reasoned
from rebalancer.survey.first_policy.labels import CAPACITIES, telling
from rebalancer.survey.first_policy.places import (
    Counting,
    NodePlace,
    capacity_of,
    counting_of,
    product_of,
    resources_of,
)
from rebalancer.survey.first_policy.workloads import GpuWorkload

OWN_LABEL: Final = "rebalancer.io/pool"
PRESENT: Final = {"nvidia.com/gpu.present": "true"}  # NVIDIA's feature discovery puts it on every node with GPUs
_MOST_NAME: Final = 40
_SHOWN: Final = 3


@dataclass(frozen=True)
class NodeGrouping:
    """A group of places, or what workloads ask for where no node is.

    name: of the pool.
    labels: of its nodes.
    resource: what counts as one GPU.
    capacity: on-demand, reserved or spot.
    places: its nodes; none where no node is there yet.
    guests: workloads that may stand there.
    soft: whether shares of GPUs count there.
    notes: sentences above it.
    """

    name: str
    labels: Reasoned[dict[str, str]]
    resource: str
    capacity: Reasoned[str]
    places: tuple[NodePlace, ...]
    guests: frozenset[WorkloadRef]
    soft: bool = False
    notes: tuple[str, ...] = ()

    @property
    def spot(self) -> bool:
        """Whether the cloud may take it away at any time."""
        return self.capacity.value == "spot"

    @property
    def gpus(self) -> int:
        """GPUs of its nodes; a node that is yet to come has none."""
        return sum(place.gpus.get(self.resource, 0) for place in self.places if place.name)


@dataclass(frozen=True)
class _Group:
    """Places of one signature, in the order of their names."""

    resource: str
    product: str
    counting: Counting
    capacity: str
    by: str
    guests: frozenset[WorkloadRef]
    places: tuple[NodePlace, ...]


def pools_of(
    places: Sequence[NodePlace], workloads: Sequence[GpuWorkload], bystanders: Iterable[dict[str, str]]
) -> tuple[NodeGrouping, ...]:
    """One pool per resource, product, capacity and set of workloads that may stand there, telling labels first.

    A node that matches two pools of one resource belongs to the first, so a later pool's labels may hold for an earlier
    one's nodes; one with several resources is in a pool of each that is asked for.
    `bystanders`: labels of nodes without GPUs.
    """
    selected = {key for each in workloads for key, _ in each.placement.selector}
    selected |= {one.key for each in workloads for term in each.placement.terms for one in term.labels}
    left, away = list(_groups(places, workloads)), list(bystanders)
    pools: list[NodeGrouping] = []
    while left:
        labelled = [(group, _labels(group, left, away, selected)) for group in left]
        now = [each for each in labelled if each[1]] or labelled  # at a standstill the rest want a label of their own
        for group, labels in now:
            name = _unused(_name(group, labels or {}), {pool.name for pool in pools})
            before = sum(
                1
                for pool in pools
                for place in pool.places
                if labels and labels.items() <= place.labels.items() and pool.resource == group.resource
            )
            pools.append(_pool(group, name, labels, before))
            left.remove(group)
    return tuple(pools)


def wanted(
    workloads: Sequence[GpuWorkload], pools: Sequence[NodeGrouping]
) -> tuple[tuple[NodeGrouping, ...], tuple[str, ...]]:
    """Pools of workloads that fit no node there is, by what their templates select; and those that can have none.

    They go before the others, as they select by more: one whose labels would take nodes that it cannot use is left out.
    """
    groups: defaultdict[tuple[str, tuple[tuple[str, str], ...]], list[GpuWorkload]] = defaultdict(list)
    for each in workloads:
        selected = _selected(each) or (PRESENT if each.resource.startswith("nvidia.com/") else {})
        groups[each.resource, tuple(sorted(selected.items()))].append(each)
    made: list[NodeGrouping] = []
    left_out: list[str] = []
    for (resource, selects), some in sorted(groups.items(), key=lambda group: (-len(group[0][1]), group[0])):
        labels = dict(selects)
        if taken := _taken(labels, (*pools, *made)):
            left_out += [
                f"{each.ref}: no node can run it: those of pool {taken} have the labels that it selects, and"
                f" their taints, its affinity or its resource ({each.resource}) keep it away"
                for each in some
            ]
            continue
        who = listed([str(each.ref) for each in some])
        name = _unused(
            _clean(_word(labels) or f"{resource.partition('.')[0]}-gpus"), {pool.name for pool in (*pools, *made)}
        )
        why = f"no node has them now: what {who} selects"
        if not any(map(_selected, some)):
            why = f"{CHOOSE}labels of your GPU nodes; {who} selects none"
        labels = labels or {OWN_LABEL: name}
        spot, by = capacity_of(labels)
        capacity = Reasoned(
            spot, f"label {by}" if by else f"{GUESS}nothing says that the cloud may take its nodes away"
        )
        guests = frozenset(each.ref for each in some)
        made.append(NodeGrouping(name, Reasoned(labels, why), resource, capacity, (), guests))
    return tuple(made), tuple(left_out)


def _taken(labels: dict[str, str], pools: Sequence[NodeGrouping]) -> str:
    """The pool whose nodes a pool of these labels would take if it stood before it, or that has the very labels."""
    for pool in pools:
        takes = any(labels.items() <= place.labels.items() for place in pool.places)
        if labels and (takes or labels.items() <= pool.labels.value.items()):
            return pool.name
    return ""


def _groups(places: Sequence[NodePlace], workloads: Sequence[GpuWorkload]) -> Iterable[_Group]:
    wanted_resources = {each.resource for each in workloads}
    groups: defaultdict[tuple[str, str, Counting, tuple[str, str], frozenset[WorkloadRef]], list[NodePlace]] = (
        defaultdict(list)
    )
    for place in places:
        for resource in resources_of(place, wanted_resources):
            guests = frozenset(each.ref for each in workloads if each.resource == resource and place.takes(each))
            counting = counting_of(place, resource)
            groups[resource, product_of(place.labels), counting, capacity_of(place.labels), guests].append(place)
    for (resource, product, counting, (capacity, by), guests), some in sorted(
        groups.items(), key=lambda each: _order(each[1])
    ):
        ordered = tuple(sorted(some, key=lambda place: place.name))
        yield _Group(resource, product, counting, capacity, by, guests, ordered)


def _order(places: Sequence[NodePlace]) -> tuple[int, str, str]:
    """Largest first; a pool without nodes last, by its NodePool."""
    return (-sum(1 for place in places if place.name), min(place.name for place in places), places[0].node_pool)


def _labels(
    group: _Group, left: Sequence[_Group], bystanders: list[dict[str, str]], selected: set[str]
) -> dict[str, str] | None:
    ours = [place.labels for place in group.places]
    here = {id(place) for place in group.places}
    others = [place.labels for other in left for place in other.places if id(place) not in here]
    return telling(ours, [*others, *bystanders], selected) or telling(ours, others, selected)


def _pool(group: _Group, name: str, labels: dict[str, str] | None, before: int) -> NodeGrouping:
    nodes = [place.name for place in group.places if place.name]
    if labels is not None:
        who = f"on all its nodes ({len(nodes)})" if nodes else f"NodePool {group.places[0].node_pool} gives it"
        why = f"{who}, on no other with GPUs" if not before else f"{who}; of pools above too ({before}), which go first"
    else:
        command = (
            f"kubectl label node {' '.join(nodes[:_SHOWN])}{' ...' if len(nodes) > _SHOWN else ''} {OWN_LABEL}={name}"
        )
        why = f"{CHOOSE}no label tells its nodes from others: give them one: {command}"
    labels = labels or {OWN_LABEL: name}
    for label, value in group.counting.sliced:
        labels = {**labels, label: value}
        why += f"; {label} makes its MIG slices count"
    capacity = f"label {group.by}" if group.by else f"{GUESS}no label of its nodes says"
    return NodeGrouping(
        name=name,
        labels=Reasoned(labels, why),
        resource=group.resource,
        capacity=Reasoned(group.capacity, capacity),
        places=group.places,
        guests=group.guests,
        soft=group.counting.isolation == "soft",
        notes=tuple(_notes(group)),
    )


def _notes(group: _Group) -> Iterable[str]:
    sizes = Counter(place.gpus[group.resource] for place in group.places if place.name)
    if len(sizes) > 1:
        shown = ", ".join(f"{count} of {size} GPUs" for size, count in sorted(sizes.items()))
        yield f"its nodes are not alike ({shown}): a replica of more GPUs than a node has does not fit there"
    others = sorted({name for place in group.places for name in place.gpus} - {group.resource})
    if others:
        yield f"its nodes have {', '.join(others)} too: a pool counts one resource, a second of the same labels another"
    if group.counting.refused:
        yield f"nothing counts there: each of its nodes {group.counting.refused}"


def _selected(workload: GpuWorkload) -> dict[str, str]:
    """Labels that its node selector names, and with one value each its one term of required nodeAffinity."""
    terms = workload.placement.terms
    conditions = terms[0].labels if len(terms) == 1 else ()
    required = {one.key: one.values[0] for one in conditions if one.operator == "In" and len(one.values) == 1}
    return dict(workload.placement.selector) | required


def _name(group: _Group, labels: dict[str, str]) -> str:
    name = _clean(_word(labels) or group.product or next(iter(labels), group.resource).rpartition("/")[2])
    return f"{name}-spot" if group.capacity == "spot" and "spot" not in name else name


def _word(labels: dict[str, str]) -> str:
    """The first value of some labels that says anything by itself."""
    values = (value for key, value in labels.items() if key not in CAPACITIES)
    return next((value for value in values if value and value != "true"), "")


def _clean(text: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-").removeprefix("nvidia-")[:_MOST_NAME].strip("-")
    return name or "gpus"


def _unused(name: str, used: set[str]) -> str:
    if name not in used:
        return name
    number = 2
    while f"{name}-{number}" in used:
        number += 1
    return f"{name}-{number}"
