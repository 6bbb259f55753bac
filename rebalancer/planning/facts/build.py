"""One cycle's facts, gathered: what stands from the cycle before is not looked at again."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import UNSET
from msgspec.structs import asdict

from rebalancer.domain.arithmetic import (
    PoolGpus,
    certain_until,
    doomed_nodes,
    most_free_gpus,
    node_receives,
    noticed_nodes,
    pool_gpus,
    ready_by,
    stranded_pods,
    unknown_gpus,
)
from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import ModelView, Snapshot
from rebalancer.domain.takers import offering
from rebalancer.planning.facts.alike import alike
from rebalancer.planning.facts.holdings import NOTHING, holding
from rebalancer.planning.facts.scene import (
    Holding,
    ModelFacts,
    NodeGpus,
    NodeRoom,
    PoolFacts,
    Scene,
    TargetFacts,
    by_id_and_pool,
    highest,
    precedence,
)
from rebalancer.planning.memo import Memo
from rebalancer.planning.overrides.rulings import NO_RULING, Ruling

HANGS_AFTER_STARTS = 2.0
NONE_HUNG = frozenset[str]()


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


def build(
    snapshot: Snapshot, policy: Policy, memory: Memory, rulings: Mapping[str, Ruling], memo: Memo
) -> Scene[ModelFacts]:
    """The scene of one cycle. Nothing of the snapshot is changed."""
    doomed = doomed_nodes(snapshot.notices, snapshot.pools, policy.nodes, snapshot.at)
    noticed = noticed_nodes(snapshot.notices)
    synced_at = snapshot.sync.synced_at
    certain_at = certain_until(policy.nodes, snapshot.at, synced_at)
    holdings = _holdings(snapshot, policy, memory, rulings, doomed, memo)
    occupancy = memo.sums(Occupancy)
    occupancy.book(holdings)
    promised: Counter[str] = Counter()
    rolling: dict[str, list[TargetFacts]] = {}
    for one in holdings.values():
        for name, more in one.promised:
            promised[name] += more
        for target in one.targets:
            if target.view.rolling:
                rolling.setdefault(target.pool, []).append(target)
    pools = {pool.name: pool for pool in policy.pools}
    beside = _beside(snapshot, occupancy, holdings, doomed)
    states, offered = {}, memo.of("", offering, policy)
    for view in snapshot.pools:
        pool = pools[view.name]
        taken = occupancy.nodes[pool.resource]
        overfull = [node for node in view.nodes if node.gpus < taken.get(node.name, NOTHING).gpus]
        doubted = {node.name for node in overfull if (node.fell_at or 0.0) > certain_at}
        rooms = _rooms(view, taken, noticed | doubted | alike(view, snapshot.notices, noticed))
        certain = {node.name: taken[node.name].certain for node in view.nodes if node.name in taken}
        gpus = pool_gpus(pool, view, memory.node_grants, doomed, policy.nodes, snapshot.at, certain, synced_at)
        if gpus.most is not None:
            gpus = gpus._replace(most=min(gpus.most + beside[view.name], pool.gpu_limit - gpus.foreign))
        unknown = _unknown(pool, view, holdings)
        state = _state(pool, view, promised[view.name], rooms, taken, gpus, unknown)
        if view.name in rolling:
            held = {name: on_node.gpus for name, on_node in taken.items()}
            state = _surging(state, rolling[view.name], doomed, most_free_gpus(view, held, noticed))
        names = frozenset([node.name for node in overfull])
        states[view.name] = replace(state, offered=view.name in offered, overfull=names)
    models, of_pool = by_id_and_pool(_models(snapshot, policy, memory, rulings, holdings))
    return Scene(snapshot, policy, memory, snapshot.at, doomed, states, memo, models, of_pool)


def _surging(state: PoolFacts, targets: Iterable[TargetFacts], doomed: frozenset[str], most_free: int) -> PoolFacts:
    """The pool with what rollouts ask for beyond their targets' replicas; those that fit nowhere are promised nothing.

    A pod that has a node needs none any more. `most_free`: the most GPUs that a node has free.
    """
    surging: Counter[int] = Counter()
    promised = state.promised
    for target in targets:
        waiting = min(len(target.leaving_pods), sum(pod.node is None for pod in target.view.pods))
        surging[0] += (len(target.leaving_pods) - waiting) * target.gpus
        surging[target.pod_gpus] += waiting * target.gpus
        promised -= stranded_pods(target.view, doomed, target.pod_gpus, most_free) * target.gpus
    most_soon = max((room.soon for room in state.rooms.values()), default=0)
    needed = tuple((gpus, more) for gpus, more in sorted(surging.items()) if more)
    return replace(state, promised=promised, surging=needed, most_soon=most_soon)


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


def _holdings(  # noqa: PLR0913  # what holdings are made from
    snapshot: Snapshot,
    policy: Policy,
    memory: Memory,
    rulings: Mapping[str, Ruling],
    doomed: frozenset[str],
    memo: Memo,
) -> dict[str, Holding]:
    views = {view.id: view for view in snapshot.models}
    resources = memo.of("", _resources, policy)
    holdings: dict[str, Holding] = {}
    for model in policy.models:
        name = model.id
        remembered, ruling = memory.models.get(name), rulings.get(name)
        replaced = remembered.replaced if remembered is not None else ()
        floor = model.min_replicas if ruling is None else ruling.floor_of(model)
        needed = remembered.demand or 0 if remembered is not None and replaced else 0
        paused = ruling is not None and ruling.paused is not None
        view = views.get(name)
        hung = NONE_HUNG if view is None else _hung(model, view, snapshot.at)
        holdings[name] = memo.of(name, holding, model, view, replaced, floor, needed, paused, doomed, resources, hung)
    return holdings


def _hung(model: Model, view: ModelView, at: float) -> frozenset[str]:
    """Pools in which a rollout has hung though by its counts it is over: its old pods have died with their nodes.

    None of the new pods is Ready, none ever was for all that the target says, and one has loaded for twice as long as
    starts take. Until then it is a start like any other.
    """
    if all(target.unproven is UNSET for target in view.targets):
        return NONE_HUNG
    load_seconds = model.load_seconds if view.slow_load_seconds is None else view.slow_load_seconds
    return frozenset(
        target.pool
        for target in view.targets
        if target.unproven is not UNSET
        and any(
            pod.phase == "loading" and ready_by(pod, HANGS_AFTER_STARTS * load_seconds) <= at for pod in target.pods
        )
    )


def _resources(policy: Policy) -> dict[str, str]:
    """What counts as one GPU, by pool."""
    return {pool.name: pool.resource for pool in policy.pools}


def _models(
    snapshot: Snapshot,
    policy: Policy,
    memory: Memory,
    rulings: Mapping[str, Ruling],
    holdings: Mapping[str, Holding],
) -> Iterator[ModelFacts]:
    loads = {load.model: load for load in snapshot.loads}
    ranks = highest(snapshot.ranks)
    for model in policy.models:
        name = model.id
        ruling = rulings.get(name, NO_RULING)
        reachable = _reachable(model, holdings[name].targets)
        yield ModelFacts(
            **asdict(holdings[name]),
            entry=reachable,
            load=loads.get(name) or ModelLoad(model=name),
            memory=memory.models.get(name) or ModelMemory(),
            ruling=ruling,
            floor=ruling.floor_of(model),
            most_replicas=ruling.wanted(reachable, reachable.max_replicas),
            precedence=precedence(model, ranks),
        )


def _reachable(model: Model, targets: Sequence[TargetFacts]) -> Model:
    """The model, with no more replicas than its ScaledObjects go to where those follow our answer."""
    views = [target.view for target in targets]
    followed = [each.autoscaler.maximum for each in views if each.autoscaler is not None and each.by_metric]
    if not followed or len(followed) < len(views) or sum(followed) >= model.max_replicas:
        return model
    return model.model_copy(update={"max_replicas": max(model.min_replicas, sum(followed))})


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


def _unknown(pool: Pool, view: PoolView, holdings: Mapping[str, Holding]) -> str | None:
    why = unknown_gpus(pool, view)
    running = why is not None and any(_runs(target, view.name) for one in holdings.values() for target in one.targets)
    return why if running else None


def _runs(target: TargetFacts, pool: str) -> bool:
    return target.pool == pool and not target.view.missing and any(pod.nodes for pod in target.view.pods)


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
