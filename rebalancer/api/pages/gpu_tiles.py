"""Which GPU is what: one character each, by node, then device. A pod keeps its tiles for as long as it is there.

Nobody tells which device a pod got, so a pod is seated where there is room when it is first seen and stays there: a
neighbour that leaves reshuffles nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from rebalancer.api.pages.values.tiles import CLOSED, DOOMED, FREE, LENT, LOADING, OTHER, OWNED, UNKNOWN, Seated
from rebalancer.domain.arithmetic import node_receives
from rebalancer.domain.memory import Loan
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.snapshot import ModelView, NoticeView, PodView, Snapshot, TargetView

WORDS = {
    OWNED: "owned",
    LENT: "lent",
    LOADING: "loading",
    DOOMED: "doomed",
    OTHER: "other",
    CLOSED: "closed",
    FREE: "free",
    UNKNOWN: "unknown",
}
NOBODY, FOREIGN = "", "foreign"  # who sits on a GPU besides pods; no UID is spelled so

Seats = Mapping[str, tuple[str, ...]]  # node -> pod UID per device; POOL/NODE where a node is in several pools


def pods_of(models: Iterable[ModelView]) -> Iterator[tuple[ModelView, TargetView, PodView]]:
    """Every pod with its model and target."""
    return ((model, target, pod) for model in models for target in model.targets for pod in target.pods)


def seat(before: Seats, snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """The pods on the devices of each node, given where they sat before."""
    homes = Counter(node.name for pool in snapshot.pools for node in pool.nodes)
    guests: dict[str, list[tuple[float, str, int]]] = defaultdict(list)
    for _, target, pod in pods_of(snapshot.models):
        for node, pods in Counter(pod.nodes).items() if target.gpus_per_pod else ():
            stock = f"{target.pool}/{node}" if homes[node] > 1 else node
            guests[stock].append((pod.created_at, pod.uid, target.gpus_per_pod * pods))
    stocks = (
        (f"{pool.name}/{node.name}" if homes[node.name] > 1 else node.name, node)
        for pool in snapshot.pools
        for node in pool.nodes
    )
    return {stock: _seat(before.get(stock, ()), node, guests.get(stock, [])) for stock, node in stocks}


def _seat(before: tuple[str, ...], node: NodeView, guests: list[tuple[float, str, int]]) -> tuple[str, ...]:
    """Who stays, stays; pods are seated from the first free device on, others from the last one back."""
    wanted = Counter({uid: gpus for _, uid, gpus in guests})
    wanted[FOREIGN] = node.foreign_gpus
    seats = [NOBODY] * node.gpus
    for device, uid in enumerate(before[: node.gpus]):
        if wanted[uid] > 0:
            seats[device] = uid
            wanted[uid] -= 1
    free = [device for device, uid in enumerate(seats) if uid == NOBODY]
    for _ in range(min(wanted[FOREIGN], len(free))):
        seats[free.pop()] = FOREIGN
    arriving = [uid for _, uid, _ in sorted(guests) for _ in range(wanted[uid])]
    for device, uid in zip(free, arriving, strict=False):
        seats[device] = uid
    return tuple(seats)


def lenders(models: Iterable[ModelView], loans: Iterable[Loan], doomed: frozenset[str]) -> dict[str, str]:
    """Pod UID -> whose GPUs it has beyond its own (the pool: nobody's): the last loan is the youngest replica's."""
    by_target: dict[tuple[str, str], list[Loan]] = defaultdict(list)
    for loan in loans:
        by_target[loan.borrower, loan.pool].append(loan)
    lenders_by_pod: dict[str, str] = {}
    for model in models:
        for target in model.targets:
            booked = by_target.get((model.id, target.pool))
            if booked:
                lenders_by_pod |= _lenders(target, booked, doomed)
    return lenders_by_pod


def _lenders(target: TargetView, booked: list[Loan], doomed: frozenset[str]) -> dict[str, str]:
    staying = [pod for pod in target.pods if not pod.on(doomed) and pod.phase != "terminating"]
    youngest = sorted(staying, key=lambda pod: (pod.created_at, pod.uid), reverse=True)
    last_first = sorted(booked, key=lambda loan: loan.at, reverse=True)
    gpus = max(1, target.gpus_per_pod * target.pods_per_replica)
    names = [loan.owner or loan.pool for loan in last_first for _ in range(max(1, loan.gpus // gpus))]
    return {pod.uid: name for pod, name in zip(youngest, names, strict=False)}


class BeyondOwn(NamedTuple):
    """Ready replicas beyond their model's own GPUs, by model, and `unowned`: those of them on GPUs that nobody owns."""

    replicas: Counter[str]
    unowned: Counter[str]


def on_loan(snapshot: Snapshot, loans: Iterable[Loan]) -> BeyondOwn:
    """Count the Ready replicas whose tiles are drawn as lent."""
    doomed = due(snapshot)
    lent = lenders(snapshot.models, loans, doomed)
    beyond = [
        (model.id, lent[pod.uid] == target.pool)
        for model, target, pod in pods_of(snapshot.models)
        if pod.phase == "ready" and pod.uid in lent
    ]
    return BeyondOwn(Counter(name for name, _ in beyond), Counter(name for name, unowned in beyond if unowned))


def due(snapshot: Snapshot) -> frozenset[str]:
    """Nodes whose notice has come to its time; the pods on others under notice still count."""
    return frozenset(notice.node for notice in snapshot.notices if notice.counts(snapshot.at))


def pod_state(pod: PodView, doomed: Collection[str]) -> str:
    """In words: pending, loading, ready, lost, doomed, terminating."""
    return "doomed" if pod.on(doomed) and pod.phase != "terminating" else pod.phase


@dataclass(frozen=True, slots=True)
class GpuTiles:
    """What it takes to draw any node of one snapshot.

    seats: UID of the pod on each device of a node.
    notices: the notices by name of their node.
    doomed: names of nodes whose notice has come to its time.
    lenders: by pod UID, whose GPUs the pod has beyond its model's own: a model's id, or the pool's name where nobody
        owns them.
    loading: UIDs of pods that have no node yet, or are not Ready yet.
    models: model id by pod UID.
    """

    seats: Seats
    notices: dict[str, NoticeView]
    doomed: frozenset[str]
    lenders: dict[str, str]
    loading: frozenset[str]
    models: dict[str, str]

    @classmethod
    def of(cls, snapshot: Snapshot, loans: Iterable[Loan], seats: Seats) -> "GpuTiles":
        """Looked up once for all nodes."""
        notices = {notice.node: notice for notice in snapshot.notices}
        loading = frozenset(pod.uid for _, _, pod in pods_of(snapshot.models) if pod.phase in {"loading", "pending"})
        doomed = due(snapshot)
        models = {pod.uid: model.id for model, _, pod in pods_of(snapshot.models)}
        return cls(seats, notices, doomed, lenders(snapshot.models, loans, doomed), loading, models)

    def draw(self, node: NodeView, pool: str) -> str:
        """One character per GPU, first match: unknown, other, doomed, loading, lent, owned, closed, free.

        Of a node that is not Ready nothing is known. On one that goes, free GPUs go too; one that is cordoned or under
        notice gives them to nobody.
        """
        if not node.ready:
            return UNKNOWN * node.gpus
        doomed = node.name in self.doomed
        idle = FREE if node_receives(node, self.notices) else CLOSED
        return "".join(idle if each == FREE else each for each in self._drawn(node, pool, doomed=doomed))

    def seated(self, node: NodeView, pool: str) -> tuple[Seated, ...]:
        """The holders of the node's GPUs, by device; a node that is not Ready keeps its pods' names."""
        runs = groupby(self._seats(node, pool), key=lambda uid: (self.models.get(uid, ""), self.lenders.get(uid, "")))
        return tuple(Seated(len(list(run)), *who) for who, run in runs)

    def _seats(self, node: NodeView, pool: str) -> tuple[str, ...]:
        return self.seats.get(f"{pool}/{node.name}", self.seats.get(node.name, (NOBODY,) * node.gpus))

    def _drawn(self, node: NodeView, pool: str, *, doomed: bool) -> Iterator[str]:
        return (self._gpu(uid, doomed=doomed) for uid in self._seats(node, pool))

    def _gpu(self, uid: str, *, doomed: bool) -> str:
        if uid == FOREIGN:
            return OTHER
        if doomed:
            return DOOMED
        if uid == NOBODY:
            return FREE
        if uid in self.loading:
            return LOADING
        return LENT if uid in self.lenders else OWNED

    def deadline(self, node: str) -> float | None:
        """The instant at which the node goes, by its notice; None while it stays."""
        notice = self.notices.get(node)
        return None if notice is None else notice.deadline


def counted_states(drawn: Iterable[str]) -> dict[str, int]:
    """GPUs per state word in the order of a bar, zeros omitted."""
    counts: Counter[str] = Counter()
    for gpus in drawn:
        counts.update(gpus)
    return {word: counts[state] for state, word in WORDS.items() if counts[state]}


def known_gpus(pool: PoolView, missing: Iterable[str]) -> int | None:
    """The pool's GPUs; None before its nodes were listed."""
    return None if "nodes" in missing else sum(node.gpus for node in pool.nodes)
