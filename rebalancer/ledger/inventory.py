"""Who holds the GPUs of the pools at one instant, as a snapshot shows it. Pure; nothing here knows how long it lasts.

Whose a Ready replica is follows the loans of planning: the first replicas of a model, in the policy's order of its
targets, are its own up to its entitlement; the rest is borrowed, in the last pools first, and of those there who still
load and then the youngest.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from rebalancer.domain.arithmetic import doomed_nodes, unknown_gpus
from rebalancer.domain.placement import INSTANCE_TYPE
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.readings import FRESH_INTERVALS, ModelLoad
from rebalancer.domain.snapshot import ModelView, PodView, Snapshot, TargetView
from rebalancer.ledger.states import BORROWED, DOOMED, FOREIGN, FREE, LOADING, TERMINATING, UNKNOWN, WARM

# Of Karpenter, EKS and AKS; GKE has a label for each kind that the cloud may take away.
CAPACITY_TYPES = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "kubernetes.azure.com/scalesetpriority",
)
SPOT = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
LOOKED_AT = frozenset({"nodes", "pods"})  # the lists without which nobody knows who holds GPUs
OWNED = "owned"  # by a hold; how long it is, and how much of it busy, is for the books to say


class Shelf(NamedTuple):
    """GPUs that cost the same.

    pool: name of their pool.
    instance_type: label of their nodes, "" where these have none.
    capacity_type: `spot`, `on-demand` or `reserved` by labels of their nodes, "" where these do not say.
    """

    pool: str
    instance_type: str
    capacity_type: str = ""

    @property
    def kind(self) -> str:
        """`p5.48xlarge/spot`; what is not known is left out."""
        return "/".join(filter(None, (self.instance_type, self.capacity_type)))


def usd_per_gpu_hour(pool: Pool, shelf: Shelf) -> float | None:
    """What the policy says that a GPU there costs for an hour; None where it does not."""
    price = pool.instance_prices.get(shelf.kind, pool.instance_prices.get(shelf.instance_type))
    return price if price is not None else pool.price_per_gpu_hour or None


def prices(shelves: Iterable[Shelf], policy: Policy) -> dict[Shelf, float]:
    """What the policy says that a GPU of each shelf costs for an hour; those of which it does not say are missing."""
    pools = {pool.name: pool for pool in policy.pools}
    known = {shelf: usd_per_gpu_hour(pools[shelf.pool], shelf) for shelf in shelves if shelf.pool in pools}
    return {shelf: usd for shelf, usd in known.items() if usd is not None}


def charged_to(entry: Model) -> str:
    """The cost center that a model's GPUs are charged to, else its team; "" where it has neither."""
    return entry.cost_center or entry.team


def capacity_type(labels: Mapping[str, str]) -> str:
    """What a node's labels say of how it was bought, in Karpenter's words; "" where they do not."""
    bought = next((labels[label] for label in CAPACITY_TYPES if label in labels), "").lower()
    if any(labels.get(label) == "true" for label in SPOT):
        return "spot"
    return {"regular": "on-demand"}.get(bought, bought.replace("_", "-"))


class Hold(NamedTuple):
    """Somebody who holds GPUs of one shelf, and how.

    shelf: where they are.
    model: id of the model, "" where none holds them.
    state: a word of `ledger.states`, or `owned`, of which `busy` says how much is which.
    """

    shelf: Shelf
    model: str
    state: str


class Inventory(Struct, frozen=True):
    """The pools at one instant. All numbers are whole GPUs.

    at: the instant.
    capacity: GPUs of each shelf: those that its nodes offer, and where pods hold more, as many as they hold.
    held: GPUs by who holds them and how; they add up to `capacity` shelf by shelf.
    busy: by model the share of its Ready replicas that offered work keeps busy, 0-1; a model of which that is unknown
        is missing.
    lent: GPUs by pool and owner that others borrow of it; the same GPUs are `borrowed` in `held`.
    unknown: why what is seen cannot be relied on, "" where it can.
    """

    at: float
    capacity: Mapping[Shelf, int]
    held: Mapping[Hold, int]
    busy: Mapping[str, float]
    lent: Mapping[tuple[str, str], int]
    unknown: str = ""


class _Node(NamedTuple):
    shelf: Shelf
    gpus: int
    foreign: int
    doomed: bool
    warm: int


_Nodes = dict[tuple[str, str], _Node]  # by resource and name: a node may offer several resources, each to one pool


def inventory(snapshot: Snapshot, policy: Policy) -> Inventory:
    """What `snapshot` shows under `policy`."""
    doomed = doomed_nodes(snapshot.notices, snapshot.pools, policy.nodes, snapshot.at)
    nodes = _nodes(snapshot, policy, doomed)
    entries = {model.id: model for model in policy.models}
    resources = {pool.name: pool.resource for pool in policy.pools}
    loads = {load.model: load for load in snapshot.loads}
    held: Counter[Hold] = Counter()
    on_node: Counter[tuple[str, str]] = Counter()
    busy: dict[str, float] = {}
    unused: dict[str, list[tuple[int, str]]] = {}
    for view in snapshot.models:
        entry = entries.get(view.id)
        if entry is None:
            continue
        share = busy_share(told_work(loads.get(view.id), policy, snapshot.at), ready_replicas(view))
        if share is not None:
            busy[view.id] = share
        own_pool, left = _hold(view, entry, resources, nodes, doomed, (held, on_node))
        unused.setdefault(own_pool, []).append((left, view.id))
    capacity = _rest(nodes, on_node, held)
    blind = _unknown_pools(snapshot, policy, on_node, resources)
    if blind:
        held = _as_unknown(held, blind)
    lent = dict(_lent(held, unused))
    bad = sorted(LOOKED_AT & {*snapshot.sync.missing, *snapshot.sync.stale})
    why = f"the lists of {' and '.join(bad)} were not whole" if bad else ""
    return Inventory(snapshot.at, capacity, dict(held), busy, lent, why)


def told_work(load: ModelLoad | None, policy: Policy, at: float) -> float | None:
    """Offered work of the last minute, in replicas; None where it is unknown or was told too long ago."""
    if load is None or load.work.last_60s is None:
        return None
    patience = load.lag_seconds + max(policy.guards.blind.stale_seconds, FRESH_INTERVALS * load.interval_seconds)
    if load.known_until is not None and at - load.known_until > patience:
        return None
    return load.work.last_60s


def busy_share(work: float | None, ready: int) -> float | None:
    """Offered work over Ready replicas, at most 1; None where work is unknown or nobody is Ready.

    Work is in replicas (`domain.readings.Work`): 2.5 of it on 4 Ready replicas keep five eighths of their GPUs busy.
    """
    return None if work is None or not ready else min(1.0, max(0.0, work / ready))


def ready_replicas(view: ModelView) -> int:
    """Ready replicas of a model."""
    return sum(pod.phase == "ready" for target in view.targets for pod in target.pods)


def pod_gpus(target: TargetView, entry: Model) -> int:
    """GPUs that one pod of the target holds: by its pods, else by its template, else by the policy."""
    return target.running_gpus or target.gpus_per_pod or entry.gpus_per_pod


def _nodes(snapshot: Snapshot, policy: Policy, doomed: frozenset[str]) -> _Nodes:
    resources = {pool.name: pool.resource for pool in policy.pools}
    return {
        (resources[view.name], node.name): _Node(
            Shelf(view.name, node.labels.get(INSTANCE_TYPE, ""), capacity_type(node.labels)),
            node.gpus,
            node.foreign_gpus,
            node.name in doomed,
            node.warm_gpus,
        )
        for view in snapshot.pools
        if view.name in resources
        for node in view.nodes
    }


def _hold(  # noqa: PLR0913  # what holding depends on
    view: ModelView,
    entry: Model,
    resources: Mapping[str, str],
    nodes: _Nodes,
    doomed: frozenset[str],
    into: tuple[Counter[Hold], Counter[tuple[str, str]]],
) -> tuple[str, int]:
    """Book one model's pods; (its primary pool, GPUs of its entitlement that it does not use)."""
    held, on_node = into
    order = {target.pool: place for place, target in enumerate(entry.targets)}
    targets = sorted((each for each in view.targets if not each.missing), key=lambda each: order.get(each.pool, 99))
    staying = {each.pool: [pod for pod in each.pods if _stays(pod, doomed)] for each in targets}
    count = sum(len(pods) for pods in staying.values())
    beyond = max(0, count - entry.entitlement)
    for target in reversed(targets):
        resource, gpus = resources.get(target.pool, ""), pod_gpus(target, entry)
        here = min(beyond, len(staying[target.pool]))
        beyond -= here
        borrowed = _borrowed(staying[target.pool], here)
        for pod in target.pods:
            for node_name in pod.nodes:
                node = nodes.get((resource, node_name))
                if node is not None and gpus:
                    on_node[resource, node_name] += gpus
                    held[Hold(node.shelf, view.id, _state(pod, node, borrowed))] += gpus
    return entry.targets[0].pool, max(0, entry.entitlement - count) * entry.gpus_per_replica


def _stays(pod: PodView, doomed: frozenset[str]) -> bool:
    return pod.node is not None and pod.phase in {"ready", "loading", "pending"} and not pod.on(doomed)


def _borrowed(pods: Sequence[PodView], beyond: int) -> frozenset[str]:
    """UIDs of the Ready ones of `beyond` replicas: those that still load are the last loans, then the youngest are."""
    last_first = sorted(pods, key=lambda pod: (pod.phase != "ready", pod.created_at, pod.uid), reverse=True)
    return frozenset(pod.uid for pod in last_first[:beyond] if pod.phase == "ready")


def _state(pod: PodView, node: _Node, borrowed: frozenset[str]) -> str:
    if node.doomed:
        return DOOMED
    if pod.phase == "terminating":
        return TERMINATING
    if pod.phase != "ready":
        return LOADING
    return BORROWED if pod.uid in borrowed else OWNED


def _rest(nodes: _Nodes, on_node: Mapping[tuple[str, str], int], held: Counter[Hold]) -> dict[Shelf, int]:
    """Book what no model holds; GPUs of each shelf."""
    capacity: Counter[Shelf] = Counter()
    for key, node in nodes.items():
        taken = on_node.get(key, 0) + node.foreign
        whole = max(node.gpus, taken)  # device plugins restart: allocatable is 0 under pods that serve
        capacity[node.shelf] += whole
        if node.foreign:
            held[Hold(node.shelf, "", FOREIGN)] += node.foreign
        warm = 0 if node.doomed else min(node.warm, whole - taken)
        if warm:
            held[Hold(node.shelf, "", WARM)] += warm
        if whole > taken + warm:
            held[Hold(node.shelf, "", DOOMED if node.doomed else FREE)] += whole - taken - warm
    return dict(capacity)


def _unknown_pools(
    snapshot: Snapshot, policy: Policy, on_node: Mapping[tuple[str, str], int], resources: Mapping[str, str]
) -> frozenset[str]:
    """Pools in which pods run while no node offers a GPU: nobody knows what is there."""
    views = {view.name: view for view in snapshot.pools}
    unknown = set()
    for pool in policy.pools:
        view = views.get(pool.name)
        runs = view is not None and any((resources[pool.name], node.name) in on_node for node in view.nodes)
        if view is not None and runs and unknown_gpus(pool, view) is not None:
            unknown.add(pool.name)
    return frozenset(unknown)


def _as_unknown(held: Mapping[Hold, int], pools: frozenset[str]) -> Counter[Hold]:
    """The same GPUs, those of `pools` without a word on how they are held."""
    blurred: Counter[Hold] = Counter()
    for hold, gpus in held.items():
        blurred[hold._replace(state=UNKNOWN) if hold.shelf.pool in pools else hold] += gpus
    return blurred


def _lent(
    held: Mapping[Hold, int], unused: Mapping[str, Sequence[tuple[int, str]]]
) -> Iterator[tuple[tuple[str, str], int]]:
    """Borrowed GPUs of a pool, booked to the owners there who leave most of their entitlement unused; ties by id."""
    borrowed: Counter[str] = Counter()
    for hold, gpus in held.items():
        if hold.state == BORROWED:
            borrowed[hold.shelf.pool] += gpus
    for pool, gpus in borrowed.items():
        left = gpus
        for spare, owner in sorted(unused.get(pool, ()), key=lambda each: (-each[0], each[1])):
            if min(spare, left) > 0:
                yield (pool, owner), min(spare, left)
                left -= min(spare, left)
