"""The snapshot seen through the policy: who holds what, which nodes have room, what is doomed.

Built once per cycle; facts only. `Part` is one model's holding in one pool, `Holder` a model, `PoolState` a pool.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial

from rebalancer.domain.arithmetic import converging, doomed_nodes, node_receives, pool_budget, promised_replicas
from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.domain.plan import Refusal
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import AutoscalerView, NodeView, PodView, PoolView, Snapshot, TargetView
from rebalancer.planning.deferral import NO_DEFERRAL, Deferral
from rebalancer.planning.demand import Demand, need_of
from rebalancer.planning.rulings import NO_RULING, Ruling
from rebalancer.planning.votes import Ballot

UNSEEN = "unseen/"  # no pod UID begins so
_PHASE_ORDER = {"ready": 0, "loading": 1, "pending": 2}


def keep_order(pod: PodView, doomed: Collection[str] = ()) -> tuple[int, int, bool, float, str]:
    """Sort key, best first: the reverse of the order in which a ReplicaSet deletes.

    It deletes unassigned, then not ready, then lower deletion cost, then younger pods first; of equals in that the
    doomed are what we would rather lose.
    """
    return (_PHASE_ORDER.get(pod.phase, 3), -(pod.deletion_cost or 0), pod.node in doomed, pod.created_at, pod.uid)


@dataclass(slots=True)
class Part:
    """One model's replicas in one pool.

    asked: what the target converges to = held + doomed + settle. doomed: pods under notice that nobody deletes yet;
    `replaced` of them have a replacement asked beside them (here or in another pool), `settle` such pods are gone and
    their number comes back (`settled`: which; `void`: those whose number is back already by somebody else's hand, or
    stays: the floor wants it, or the notice was taken back, and fewer replicas are a decrease like any other).
    held: undoomed replicas asked. kept: pods that stay (best first), going: pods that a release already written will
    take, unseen: how many of kept are asked for but are no pods yet. stuck: why the target is neither donor nor
    recipient now (None: it is both).
    """

    model: str
    pool: str
    gpus: int
    target: TargetView
    asked: int
    doomed: tuple[PodView, ...]
    replaced: int
    settle: int
    settled: tuple[str, ...]
    void: tuple[str, ...]
    held: int
    kept: tuple[PodView, ...]
    going: tuple[PodView, ...]
    unseen: int
    stuck: str | None

    @property
    def key(self) -> tuple[str, str]:
        """(model id, pool name)."""
        return (self.model, self.pool)

    @property
    def unreplaced(self) -> int:
        """Doomed pods that still count on somebody granting a replacement."""
        return len(self.doomed) - self.replaced

    @property
    def owner(self) -> AutoscalerView | None:
        """The autoscaler that chooses the number between bounds."""
        return owner_of(self.target)

    @property
    def least(self) -> int:
        """Smallest grant possible."""
        return least_of(self.target)

    @property
    def steady(self) -> int:
        """Ready replicas that stay."""
        return len([pod for pod in self.kept if pod.phase == "ready"])

    @property
    def assured(self) -> int:
        """Undoomed replicas that nobody but us can take: an autoscaler may go down to its minimum by itself."""
        if self.owner is None:
            return self.held
        return min(self.held, max(0, self.owner.minimum - len(self.doomed) - self.settle))


@dataclass(slots=True)
class Holder:
    """One model of the policy with everything known about it.

    held: undoomed replicas asked for. has: as before any notice, so with the doomed ones that nobody replaces yet.
    ready: all that serve, doomed ones included (votes count them). steady and loading: Ready and not yet Ready, doomed
    ones not counted: what need is met with. `share`: of the GPUs there are, by what each count of replicas is worth.
    `doubt`: what the guard `plausible` declined of its demand. `deferral`: how far it stands back as batch work.
    `cost`: of a replica until the horizon where nodes can go, in requests; 0: where it runs GPUs are there anyway.
    """

    model: Model
    load: ModelLoad
    memory: ModelMemory
    ruling: Ruling
    parts: tuple[Part, ...]
    floor: int
    held: int
    has: int
    ready: int
    steady: int
    loading: int
    doomed: int
    ballot: Ballot = field(default_factory=lambda: Ballot((), (), 0))
    demand: Demand = field(default_factory=lambda: Demand(0, unknown=True, surge=False, why=""))
    share: int | None = None
    doubt: Refusal | None = None
    deferral: Deferral = NO_DEFERRAL
    cost: float = 0.0

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.model.gpus_per_replica

    @property
    def aim(self) -> int:
        """Replicas it is to have before guards: its share; its demand where there is nothing to share by."""
        return self.demand.replicas if self.share is None else self.share

    @property
    def assured(self) -> int:
        """Ready, undoomed replicas that nobody but us can take."""
        return sum(min(part.assured, part.steady) for part in self.parts)

    @property
    def need_now(self) -> int | None:
        """ceil(l + 1.5 sqrt(l)), l = max(slow level, last minute's offered work); None when the work is unknown.

        What a donor holds above this is surplus and may go at once (measured: the limits cost 13-21 points of
        violation in a surge without that exemption, 0.1 with it).
        """
        known = [level for level in (self.load.work.slow, self.load.work.last_60s) if level is not None]
        if not known:
            return None
        return need_of(max(0.0, *known))


@dataclass(slots=True)
class Room:
    """GPUs of one node: free now, and free once what is terminating or going has gone."""

    node: NodeView
    now: int
    soon: int


@dataclass(slots=True)
class PoolState:
    """A pool with its arithmetic. budget None: unknown (no node seen while pods run there)."""

    pool: Pool
    view: PoolView
    budget: int | None
    promised: int
    rooms: dict[str, Room]

    @property
    def grows(self) -> bool:
        """Whether Karpenter can add nodes: then GPU-hours have a price and the budget is not fixed."""
        return bool(self.pool.node_pools)

    @property
    def growth(self) -> int:
        """GPUs that Karpenter may still add: the policy's bound less the nodes there are. No cloud offers MIG nodes."""
        if not self.view.node_pools or "/mig-" in self.pool.resource:
            return 0
        return max(0, self.pool.gpu_limit - sum(node.gpus for node in self.view.nodes))


@dataclass(slots=True)
class Scene:
    """One cycle's facts."""

    snapshot: Snapshot
    policy: Policy
    memory: Memory
    now: float
    doomed: frozenset[str]
    pools: dict[str, PoolState]
    holders: dict[str, Holder]

    def holders_by_priority(self) -> list[Holder]:
        """Highest priority first, ties by id."""
        return sorted(self.holders.values(), key=lambda holder: (-holder.model.priority, holder.model.id))


def build(snapshot: Snapshot, policy: Policy, memory: Memory, rulings: dict[str, Ruling]) -> Scene:
    """The scene of one cycle. Nothing of the snapshot is changed."""
    doomed = doomed_nodes(snapshot.notices)
    pools = {pool.name: pool for pool in policy.pools}
    holders = _holders(snapshot, policy, memory, rulings, doomed)
    states = {
        view.name: _pool_state(pools[view.name], view, snapshot, policy, memory, doomed) for view in snapshot.pools
    }
    _charge(holders, states, doomed)
    return Scene(snapshot, policy, memory, snapshot.at, doomed, states, holders)


def _holders(
    snapshot: Snapshot, policy: Policy, memory: Memory, rulings: dict[str, Ruling], doomed: frozenset[str]
) -> dict[str, Holder]:
    views = {view.id: view for view in snapshot.models}
    loads = {load.model: load for load in snapshot.loads}
    holders: dict[str, Holder] = {}
    for model in policy.models:
        view = views.get(model.id)
        kept = memory.models.get(model.id, ModelMemory())
        ruling = rulings.get(model.id, NO_RULING)
        seen = {target.pool: target for target in (view.targets if view else ())}
        specs = [seen[spec.pool] for spec in model.targets if spec.pool in seen]  # the policy's order of preference
        parts = _parts(model, specs, kept, ruling, doomed)
        ready = steady = loading = held = has = doomed_here = 0
        for part in parts:
            ready += len([pod for pod in part.target.pods if pod.phase == "ready"])
            still = part.steady
            steady += still
            loading += len(part.kept) - part.unseen - still
            held += part.held
            has += part.held + part.unreplaced
            doomed_here += len(part.doomed)
        holders[model.id] = Holder(
            model=model,
            load=loads.get(model.id, ModelLoad(model=model.id)),
            memory=kept,
            ruling=ruling,
            parts=parts,
            floor=ruling.floor_of(model),
            held=held,
            has=has,
            ready=ready,
            steady=steady,
            loading=loading,
            doomed=doomed_here,
        )
    return holders


def _parts(
    model: Model, targets: list[TargetView], kept: ModelMemory, ruling: Ruling, doomed: frozenset[str]
) -> tuple[Part, ...]:
    """What each target holds. Numbers come back only as far as the model is asked for more than its floor."""
    above = sum(converging(target) for target in targets if not target.missing) - ruling.floor_of(model)
    parts = []
    for target in targets:
        part = _part(model, target, kept, ruling, doomed, max(0, above))
        above -= part.settle
        parts.append(part)
    return tuple(parts)


def _part(  # noqa: PLR0913  # what a target's pods are told apart by
    model: Model, target: TargetView, kept: ModelMemory, ruling: Ruling, doomed: frozenset[str], above_floor: int
) -> Part:
    """What `target` holds, with replacements told from the replicas they stand beside."""
    wanted = 0 if target.missing else converging(target)
    alive = [pod for pod in target.pods if pod.phase != "terminating"]
    alive.sort(key=partial(keep_order, doomed=doomed))
    entries = [entry for entry in kept.replaced if entry.startswith(f"{target.pool}/")]
    replaced = [pod for pod in alive if pod.node in doomed and f"{target.pool}/{pod.uid}" in entries]
    beside = {f"{target.pool}/{pod.uid}" for pod in replaced}
    living = {f"{target.pool}/{pod.uid}" for pod in alive} if entries else beside
    gone = [entry for entry in entries if entry not in living]
    spared = [entry for entry in entries if entry in living - beside]  # nothing takes them away any more
    settle = min(len(gone), above_floor, max(0, wanted - len(replaced) - least_of(target)))
    base = max(0, wanted - len(replaced) - settle)
    others = [pod for pod in alive if f"{target.pool}/{pod.uid}" not in beside] if beside else alive
    staying = others[:base]
    alone = [pod for pod in staying if pod.node in doomed] if doomed else []
    undoomed = [pod for pod in staying if pod.node not in doomed] if doomed else staying
    held = base - len(alone)
    return Part(
        model=model.id,
        pool=target.pool,
        gpus=model.gpus_per_pod,
        target=target,
        asked=wanted,
        doomed=(*replaced, *alone),
        replaced=len(replaced),
        settle=settle,
        settled=tuple(gone[:settle]),
        void=(*gone[settle:], *spared),
        held=held,
        kept=(*undoomed, *_unseen(held - len(undoomed))),
        going=tuple(others[base:]),
        unseen=held - len(undoomed),
        stuck=_stuck(model, target, ruling),
    )


def owner_of(target: TargetView) -> AutoscalerView | None:
    """The autoscaler that chooses the number between bounds; a paused one chooses nothing."""
    autoscaler = target.autoscaler
    return autoscaler if autoscaler is not None and not autoscaler.paused else None


def least_of(target: TargetView) -> int:
    """Smallest grant possible: an autoscaler's maximum cannot be 0."""
    return 0 if owner_of(target) is None else 1


def _unseen(count: int) -> tuple[PodView, ...]:
    """Stand-ins for replicas asked for that are no pods yet: last to be kept, first to go."""
    return tuple(
        PodView(uid=f"{UNSEEN}{index}", name="", node=None, phase="pending", since=math.inf, created_at=math.inf)
        for index in range(count)
    )


def _stuck(model: Model, target: TargetView, ruling: Ruling) -> str | None:
    if target.missing:
        return "missing"
    if ruling.paused is not None:
        return "paused"
    if target.rolling:
        return "rollout"
    if target.autoscaler is None or (target.autoscaler.paused and model.actuation == "scale"):
        return None
    if target.autoscaler.paused:
        return "autoscaler-paused"
    return "foreign" if model.actuation == "scale" else None


def _pool_state(  # noqa: PLR0913  # the terms of the budget
    pool: Pool, view: PoolView, snapshot: Snapshot, policy: Policy, memory: Memory, doomed: frozenset[str]
) -> PoolState:
    budget: int | None = pool_budget(pool, view, memory.node_grants, doomed, policy.nodes, snapshot.at)
    rooms = {
        node.name: Room(node, node.gpus - node.foreign_gpus, node.gpus - node.foreign_gpus)
        for node in view.nodes
        if node_receives(node, doomed)
    }
    return PoolState(pool, view, budget, 0, rooms)


def _charge(holders: dict[str, Holder], states: dict[str, PoolState], doomed: frozenset[str]) -> None:
    """Take what our pods hold off the nodes' rooms, and add up what is promised per pool."""
    rooms = {name: room for state in states.values() for name, room in state.rooms.items()}
    for holder in holders.values():
        for part in holder.parts:
            if part.target.missing or part.pool not in states:
                continue
            state = states[part.pool]
            state.promised += promised_replicas(part.target, doomed) * part.gpus
            if not state.view.nodes and any(pod.node is not None for pod in part.target.pods):
                state.budget = None  # an empty set of nodes is never the truth while pods run there
            going = {pod.uid for pod in part.going}
            for pod in part.target.pods:
                room = rooms.get(pod.node or "")
                if room is not None:
                    room.now -= part.gpus
                    if pod.phase != "terminating" and pod.uid not in going:
                        room.soon -= part.gpus
