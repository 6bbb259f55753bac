"""The snapshot seen through the policy: who holds what, which nodes have room, what is doomed.

Facts only, gathered by `planning.sight`. `TargetFacts`: one model's holding in one pool; `ModelFacts`: a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalancer.domain.arithmetic import assured, node_gpus
from rebalancer.domain.cluster import Toleration
from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.domain.plan import Refusal
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import AutoscalerView, NodeView, PodView, PoolView, Snapshot, TargetView
from rebalancer.planning.demand.deferral import NO_DEFERRAL, Deferral
from rebalancer.planning.demand.demand import Demand, need_now
from rebalancer.planning.demand.votes import Ballot
from rebalancer.planning.memo import Memo
from rebalancer.planning.overrides.rulings import Ruling


class NodeGpus(NamedTuple):
    """GPUs of some pods on one node: all of them, of those not on their way out, of Ready ones, of those that stay."""

    gpus: int
    staying: int
    ready: int
    kept: int


NO_BALLOT = Ballot((), (), 0)
NO_DEMAND = Demand(0, unknown=True, surge=False, why="")
UNSEEN = "unseen/"  # no pod UID begins so
ROLLOUT = "rollout"  # why a part is stuck that is replaced all the same


class PodPlacement(NamedTuple):
    """What decides on which nodes a pod may land."""

    pool: str
    selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]


@dataclass(slots=True)
class TargetFacts:
    """One model's replicas in one pool.

    desired_replicas: what the target converges to = held + doomed + settle. doomed: pods under notice that nobody deletes yet;
    `beside` some of them a replacement was asked (here or in another pool), `settle` such pods are gone and their
    number comes back (`settled`: which; `void`: those whose number is back already by somebody else's hand, or stays:
    the floor wants it, the notice was taken back, or it is not the number that we asked for; fewer replicas are then a
    decrease like any other).
    staying_replicas: undoomed replicas asked. kept: pods that stay (best first), going: pods that a release already written will
    take, unseen: how many of kept are asked for but are no pods yet. stuck: why the target is neither donor nor
    recipient now (None: it is both); of one in a rollout pods under notice are replaced all the same.
    gpus: of a replica, the most where policy, template and pods differ; certain_gpus: the least of them, on which
    releases rest.
    """

    model: str
    pool: str
    gpus: int
    certain_gpus: int
    view: TargetView
    desired_replicas: int
    doomed: tuple[PodView, ...]
    beside: tuple[PodView, ...]
    settle: int
    settled: tuple[str, ...]
    void: tuple[str, ...]
    staying_replicas: int
    staying_pods: tuple[PodView, ...]
    leaving_pods: tuple[PodView, ...]
    unseen_pods: int
    stuck: str | None
    key: tuple[str, str] = field(init=False)  # (model id, pool name)
    placement: PodPlacement = field(init=False)
    unplaced: tuple[PodView, ...] = field(init=False)  # those kept that have no node
    sure: int = field(init=False)  # of asked, doomed ones included: below it no autoscaler may go by itself

    def __post_init__(self) -> None:
        self.key = (self.model, self.pool)
        selector = tuple(sorted(self.view.node_selector.items()))
        self.placement = PodPlacement(self.pool, selector, self.view.tolerations)
        self.unplaced = tuple(pod for pod in self.staying_pods if pod.node is None)
        self.sure = 0 if self.view.missing else assured(self.view)

    @property
    def replaced(self) -> int:
        """Doomed pods beside which a replacement was asked."""
        return len(self.beside)

    @property
    def obliging(self) -> int:
        """Undoomed replicas for which others may have to give way when the pool shrinks.

        All that we asked for. Of a number that somebody else wrote, or that we leave alone, it is what holds GPUs: what
        others wish for may keep us from raising, it never obliges a release of ours.
        """
        return self.staying_replicas if self.stuck is None and not self.view.by_others else self.placed

    @property
    def placed(self) -> int:
        """Undoomed replicas that hold GPUs of a node."""
        return len([pod for pod in self.staying_pods if pod.node is not None])

    @property
    def unreplaced(self) -> int:
        """Doomed pods that still count on somebody granting a replacement."""
        return len(self.doomed) - self.replaced

    @property
    def replaceable(self) -> int:
        """Replicas that the part may receive though it is stuck: in a rollout those beside its doomed pods."""
        return self.unreplaced if self.stuck == ROLLOUT else 0

    @property
    def owner(self) -> AutoscalerView | None:
        """The autoscaler that chooses the number between bounds."""
        return owner_of(self.view)

    @property
    def least(self) -> int:
        """Smallest grant possible."""
        return least_of(self.view)

    @property
    def ready_staying(self) -> int:
        """Ready replicas that stay."""
        return len([pod for pod in self.staying_pods if pod.phase == "ready"])

    @property
    def assured(self) -> int:
        """Undoomed replicas that nobody but us can take."""
        return min(self.staying_replicas, max(0, self.sure - len(self.doomed) - self.settle))


@dataclass(slots=True)
class ModelFacts:
    """One model of the policy with everything known about it.

    staying_replicas: undoomed replicas asked for. has: as before any notice, so with the doomed ones that nobody replaces yet.
    serving_replicas: all that serve, doomed ones included (votes count them). steady and loading: Ready and not yet Ready, doomed
    ones not counted: what need is met with. `quiet`: unless replicas move nothing is to be written; `contested`: others
    wrote its numbers lately. `most`: replicas that policy, schedules and people let it have. `nodes`: what its pods
    hold of them. `share`: of the GPUs there are, by what each count of replicas is worth. `needed`: its demand, less
    those that would gain nothing though they were there; `short`: those of them that neither are nor come. `doubt`:
    what the guard `plausible` declined of its demand. `deferral`: how far it stands back as batch work. `cost`: of a
    replica until the horizon where nodes can go, in requests; 0: where it runs GPUs are there anyway. `keeps`: replicas
    of which none is surplus yet, however many its aim has.
    """

    entry: Model
    load: ModelLoad
    memory: ModelMemory
    ruling: Ruling
    targets: tuple[TargetFacts, ...]
    floor: int
    staying_replicas: int
    committed_replicas: int
    serving_replicas: int
    ready_staying: int
    loading_staying: int
    doomed: int
    quiet: bool
    contested: bool
    ballot: Ballot = NO_BALLOT
    demand: Demand = NO_DEMAND
    most_replicas: int = 0
    nodes: Mapping[str, NodeGpus] = field(default_factory=dict)
    share: int | None = None
    needed: int = 0
    short: int = 0
    plausibility_refusal: Refusal | None = None
    deferral: Deferral = NO_DEFERRAL
    cost: float = 0.0
    kept_replicas: int = 0

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.entry.gpus_per_replica

    @property
    def aim(self) -> int:
        """Replicas it is to have before guards: its share; its demand where there is nothing to share by."""
        return self.demand.replicas if self.share is None else self.share

    @property
    def assured(self) -> int:
        """Ready, undoomed replicas that nobody but us can take."""
        return sum(min(target.assured, target.ready_staying) for target in self.targets)

    @property
    def need_now(self) -> int | None:
        """What a donor holds above this is surplus and may go at once.

        Measured: the limits cost 13-21 points of violation in a surge without that exemption, 0.1 with it. Of work with
        a deadline that is what is due: it gives way at once.
        """
        return self.deferral.due if self.deferral.counts else need_now(self.load.work)


@dataclass(slots=True)
class NodeRoom:
    """GPUs of one node: free now, and free once what is terminating or going has gone."""

    node: NodeView
    now: int
    soon: int


@dataclass(slots=True)
class PoolFacts:
    """A pool with its arithmetic. budget None: unknown, and `unknown` says why.

    most: the GPUs beyond which releases are owed, the budget where that is certain. taken: what our pods hold of every
    node, other pools' nodes included.
    """

    pool: Pool
    view: PoolView
    budget: int | None
    promised: int
    rooms: dict[str, NodeRoom]
    taken: Mapping[str, NodeGpus]
    most: int = 0
    unknown: str = ""

    @property
    def grows(self) -> bool:
        """Whether Karpenter can add nodes: then GPU-hours have a price and the budget is not fixed."""
        return bool(self.pool.node_pools)

    @property
    def growth(self) -> int:
        """GPUs that Karpenter may still add: the policy's bound less those there are, as the budget counts them.

        No cloud offers MIG nodes.
        """
        if not self.view.node_pools or "/mig-" in self.pool.resource:
            return 0
        held = ((node, self.taken.get(node.name)) for node in self.view.nodes)
        there = sum(node_gpus(node, 0 if ours is None else ours.gpus) for node, ours in held)
        return max(0, self.pool.gpu_limit - there)


@dataclass(slots=True)
class Scene:
    """One cycle's facts. `kept`: what stands from the plan before."""

    snapshot: Snapshot
    policy: Policy
    memory: Memory
    now: float
    doomed: frozenset[str]
    pools: dict[str, PoolFacts]
    models: dict[str, ModelFacts]
    memo: Memo = field(default_factory=Memo)
    of_pool: dict[str, list[ModelFacts]] = field(init=False)  # with a part there, in the policy's order

    def __post_init__(self) -> None:
        self.of_pool = {}
        for model in self.models.values():
            for target in model.targets:
                self.of_pool.setdefault(target.pool, []).append(model)

    def models_by_priority(self) -> list[ModelFacts]:
        """Highest priority first, ties by id."""
        return [self.models[name] for name in self.memo.of("", _by_priority, self.policy)]


def _by_priority(policy: Policy) -> tuple[str, ...]:
    return tuple(model.id for model in sorted(policy.models, key=lambda model: (-model.priority, model.id)))


def owner_of(target: TargetView) -> AutoscalerView | None:
    """The autoscaler that chooses the number between bounds; a paused one chooses nothing."""
    autoscaler = target.autoscaler
    return autoscaler if autoscaler is not None and not autoscaler.paused else None


def least_of(target: TargetView) -> int:
    """Smallest grant possible: an autoscaler's maximum cannot be 0."""
    return 0 if owner_of(target) is None else 1
