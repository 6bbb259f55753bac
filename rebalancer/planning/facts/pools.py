"""What each pool has: its budget, what is promised of it, and the room on its nodes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from rebalancer.domain.arithmetic import (
    PoolGpus,
    most_free_gpus,
    node_receives,
    pool_gpus,
    stranded_pods,
    unknown_gpus,
)
from rebalancer.domain.memory import Memory
from rebalancer.domain.policy import Policy, Pool
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.takers import offering
from rebalancer.planning.facts.alike import alike
from rebalancer.planning.facts.holdings import NOTHING
from rebalancer.planning.facts.scene import Holding, NodeGpus, NodeRoom, PoolFacts, TargetFacts
from rebalancer.planning.memo import Memo


class LeavingNodes(NamedTuple):
    """Nodes that leave, and figures of nodes that fall, as of this cycle.

    doomed: names of those that count no more. noticed: of all under notice.
    certain_at: a node that has offered fewer devices since before that instant does so for certain.
    """

    doomed: frozenset[str]
    noticed: frozenset[str]
    certain_at: float


class Occupancy:
    """GPUs of every node that our pods hold; of a model that holds others than before only the difference is booked.

    `nodes`: by what counts as one GPU, then by node: MIG slices of two shapes on one node are two stocks.
    """

    def __init__(self) -> None:
        self.nodes: defaultdict[str, dict[str, NodeGpus]] = defaultdict(dict)
        self._booked: dict[str, Holding] = {}

    def book(self, holdings: Mapping[str, Holding]) -> None:
        """Each model's holding; who is not named keeps what was booked."""
        for name, now in holdings.items():
            then = self._booked.get(name)
            if then is not now:
                if then is not None:
                    self._add(then, -1)
                self._add(now, 1)
                self._booked[name] = now

    def _add(self, one: Holding, sign: int) -> None:
        for resource, nodes in one.nodes.items():
            stock = self.nodes[resource]
            for node, more in nodes.items():
                there = stock.pop(node, NOTHING)
                gpus = there.gpus + sign * more.gpus
                if gpus:
                    stock[node] = NodeGpus(
                        gpus,
                        there.certain + sign * more.certain,
                        there.staying + sign * more.staying,
                        there.ready + sign * more.ready,
                        there.remaining + sign * more.remaining,
                    )


def pool_facts(  # noqa: PLR0913  # what a pool's facts are made from
    snapshot: Snapshot,
    policy: Policy,
    memory: Memory,
    holdings: Mapping[str, Holding],
    leaving: LeavingNodes,
    memo: Memo,
) -> dict[str, PoolFacts]:
    """The pools that are seen, by name."""
    doomed, noticed, synced_at = leaving.doomed, leaving.noticed, snapshot.sync.synced_at
    occupancy = memo.sums(Occupancy)
    occupancy.book(holdings)
    promised, rolling = _promised(holdings)
    pools = {pool.name: pool for pool in policy.pools}
    beside = _beside(snapshot, occupancy, holdings, doomed)
    states, offered = {}, memo.of("", offering, policy)
    for view in snapshot.pools:
        pool, surging = pools[view.name], rolling.get(view.name, ())
        taken = occupancy.nodes[pool.resource]
        overfull = [node for node in view.nodes if node.gpus < taken.get(node.name, NOTHING).gpus]
        doubted = {node.name for node in overfull if (node.fell_at or 0.0) > leaving.certain_at}
        rooms = _rooms(view, taken, noticed | doubted | alike(view, snapshot.notices, noticed))
        certain = {node.name: taken[node.name].certain for node in view.nodes if node.name in taken}
        gpus = pool_gpus(pool, view, memory.node_grants, doomed, policy.nodes, snapshot.at, certain, synced_at)
        unknown = unknown_gpus(pool, view)
        free = most_free_gpus(view, {name: one.gpus for name, one in taken.items()}, noticed) if surging else 0
        stranded = sum(stranded_pods(one.view, doomed, one.pod_gpus, free) * one.gpus for one in surging)
        if unknown is not None and not _runs(view.name, holdings):
            unknown = None
        if gpus.most is not None:
            gpus = gpus._replace(most=min(gpus.most + beside[view.name], pool.gpu_limit - gpus.foreign))
        state = _state(pool, view, promised[view.name], rooms, taken, gpus, unknown)
        state = _surging(state, surging, stranded) if surging else state
        names = frozenset([node.name for node in overfull])
        states[view.name] = replace(state, offered=view.name in offered, overfull=names)
    return states


def _promised(holdings: Mapping[str, Holding]) -> tuple[Counter[str], dict[str, list[TargetFacts]]]:
    """GPUs that are promised, and the targets in a rollout, each by pool."""
    promised: Counter[str] = Counter()
    rolling: dict[str, list[TargetFacts]] = {}
    for one in holdings.values():
        for name, more in one.promised:
            promised[name] += more
        for target in one.targets:
            if target.view.rolling:
                rolling.setdefault(target.pool, []).append(target)
    return promised, rolling


def _surging(state: PoolFacts, targets: Iterable[TargetFacts], stranded_gpus: int) -> PoolFacts:
    """The pool with what rollouts ask for beyond their targets' replicas.

    A pod that has a node needs none any more. `stranded_gpus`: of those that fit nowhere, which are promised nothing.
    """
    surging: Counter[int] = Counter()
    for target in targets:
        waiting = min(len(target.leaving_pods), sum(pod.node is None for pod in target.view.pods))
        surging[0] += (len(target.leaving_pods) - waiting) * target.gpus
        surging[target.pod_gpus] += waiting * target.gpus
    most_soon = max((room.soon for room in state.rooms.values()), default=0)
    needed = tuple((gpus, more) for gpus, more in sorted(surging.items()) if more)
    return replace(state, promised=state.promised - stranded_gpus, surging=needed, most_soon=most_soon)


def _beside(
    snapshot: Snapshot, occupancy: Occupancy, holdings: Mapping[str, Holding], doomed: frozenset[str]
) -> Counter[str]:
    """GPUs by pool that Ready pods of it hold on nodes of no pool: as many are there, though no node counts for them.

    The Node cannot be read, or its labels are others now; its pods serve all the same, and nothing is owed for them.
    """
    by_pool: Counter[str] = Counter()
    ours = {node for nodes in occupancy.nodes.values() for node in nodes}
    strangers = ours - {node.name for view in snapshot.pools for node in view.nodes} - doomed
    if strangers:
        for target in (target for one in holdings.values() for target in one.targets if not target.view.missing):
            nodes = (node for pod in target.view.pods if pod.phase == "ready" for node in pod.nodes)
            by_pool[target.pool] += sum(node in strangers for node in nodes) * (target.certain_gpus // target.pods)
    return by_pool


def _state(  # noqa: PLR0913  # the terms of a pool's arithmetic
    pool: Pool,
    view: PoolView,
    promised: int,
    rooms: dict[str, NodeRoom],
    taken: Mapping[str, NodeGpus],
    gpus: PoolGpus,
    unknown: str | None,
) -> PoolFacts:
    """The pool's arithmetic; without a budget where the GPUs that our pods hold cannot be told from none."""
    if unknown is not None:
        return PoolFacts(pool, view, None, promised, rooms, taken, most=0, unknown=unknown)
    most = gpus.most if gpus.most is not None else pool.gpu_limit - gpus.foreign
    return PoolFacts(pool, view, gpus.budget, promised, rooms, taken, most=most)


def _runs(pool: str, holdings: Mapping[str, Holding]) -> bool:
    """Whether a pod of ours is on a node of the pool."""
    targets = (target for one in holdings.values() for target in one.targets if target.pool == pool)
    return any(not target.view.missing and any(pod.nodes for pod in target.view.pods) for target in targets)


def _rooms(view: PoolView, taken: Mapping[str, NodeGpus], closed: frozenset[str]) -> dict[str, NodeRoom]:
    """Nodes that may receive pods, but those that are `closed`: under notice, alike, or doubted.

    Doubted is one that offers fewer devices than pods of ours hold there, until that is certain: a device plugin that
    restarts offers none for a while. Then as many must go first as are held beyond it.
    """
    receiving = (node for node in view.nodes if node_receives(node, closed))
    return {node.name: _room(node, taken.get(node.name, NOTHING)) for node in receiving}


def _room(node: NodeView, taken: NodeGpus) -> NodeRoom:
    free = node.gpus - node.unpreemptible_gpus
    return NodeRoom(node, free - taken.gpus, free - taken.staying)
