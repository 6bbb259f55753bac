"""The snapshot seen through the policy: who holds what, which nodes have room, what is doomed.

Facts only, built by `facts.build`; nothing here changes afterwards. `TargetFacts`: what one model holds in one pool;
`ModelFacts`: a model. Later stages know more of a model and say so by its type: `demand.need.ModelNeed`, then
`shares.share.ModelShare`. A `Scene` carries the models of one stage.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from rebalancer.domain.arithmetic import bounding, least_grant, node_gpus
from rebalancer.domain.cluster import Toleration
from rebalancer.domain.gpu_memory import GpuMemory, LoadedMemory
from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.domain.placement import NodeTerm
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.quota_view import PodRank
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import AutoscalerView, PodView, Snapshot, TargetView
from rebalancer.planning.memo import Memo
from rebalancer.planning.overrides.rulings import Ruling


class NodeGpus(NamedTuple):
    """GPUs that some pods hold on one node.

    gpus: of all of them.
    certain: the same by the least that a pod may hold, where policy, template and pods differ: as many are there.
    staying: of those that are not on their way out.
    ready: of Ready ones.
    remaining: of those that are neither on their way out nor doomed.
    """

    gpus: int
    certain: int
    staying: int
    ready: int
    remaining: int


UNSEEN = "unseen/"  # no pod UID begins so
ROLLOUT = "rollout"  # why a target is stuck whose pods under notice are replaced all the same


class PodPlacement(NamedTuple):
    """What decides, whatever else stands there, on which nodes a pod may land.

    pool: the pool of its target.
    selector: labels that the node must have, by key.
    tolerations: the taints that the pod bears.
    terms: required node affinity; a node must meet one of them, where there are some.
    memory: GPU memory that a replica needs, by the policy or as measured; None where nobody knows.
    gpus: GPUs over which it has that, where it is known.
    """

    pool: str
    selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]
    terms: tuple[NodeTerm, ...] = ()
    memory: GpuMemory | LoadedMemory | None = None
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What one model holds in one pool.

    Worked example: a Deployment of 5 is under KEDA with a minimum of 4. One pod stands on a node under notice and has
    a replacement beside it, so 6 are asked for; one of these is no pod yet. Then `desired_replicas` is 6, `doomed` and
    `beside` are that one pod, `staying_replicas` is 5, `staying_pods` are four pods and one stand-in, `unseen_pods` is
    1, and `sure` is 4.

    model: id of the model.
    pool: name of the pool.
    gpus: GPUs of one replica; where policy, template and pods differ the most of them, on which grants rest.
    certain_gpus: GPUs of one replica; where they differ the least of them, on which releases rest.
    view: the target as the snapshot has it.
    placement: on which nodes its pods may land.
    desired_replicas: what the target converges to; always `staying_replicas` + `doomed` + `settle`.
    doomed: pods on nodes under notice that nobody deletes yet.
    beside: those of `doomed` for which a replacement was asked, here or in another pool.
    settle: replaced pods that are gone and whose number is to be taken back from the target.
    settled: UIDs of the pods behind `settle`.
    void: entries of memory about replaced pods that say nothing any more: somebody else took the number back, or it
        stays because the floor wants it, the notice was taken back, or it is not the number that we asked for.
    staying_replicas: replicas asked for, those under notice not counted.
    staying_pods: the pods of `staying_replicas`, the best first; stand-ins for those that are no pods yet come last.
    leaving_pods: pods that a decrease already written will take.
    unseen_pods: how many of `staying_pods` are stand-ins.
    unplaced: those of `staying_pods` that have no node.
    sure: how many of `desired_replicas` no autoscaler may take by itself.
    stuck: why the target is neither donor nor recipient, None where it is both; in a rollout pods under notice are
        replaced all the same.
    pods: pods of one replica, each of which holds its part of `gpus`, on whatever node.
    """

    model: str
    pool: str
    gpus: int
    certain_gpus: int
    view: TargetView
    placement: PodPlacement
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
    unplaced: tuple[PodView, ...]
    sure: int
    stuck: str | None
    pods: int = 1

    @property
    def key(self) -> tuple[str, str]:
        """Model id and pool name."""
        return (self.model, self.pool)

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
    def pod_gpus(self) -> int:
        """GPUs of each pod of a replica."""
        return self.gpus // self.pods

    @property
    def numbered(self) -> bool:
        """Whether its controller numbers the replicas, and ends the highest number first."""
        return self.view.victims == "ordinal"

    @property
    def unreplaced(self) -> int:
        """Doomed pods that still count on somebody granting a replacement."""
        return len(self.doomed) - self.replaced

    @property
    def replaceable(self) -> int:
        """Replicas that the target may receive though it is stuck: in a rollout those beside its doomed pods."""
        return self.unreplaced if self.stuck == ROLLOUT else 0

    @property
    def owner(self) -> AutoscalerView | None:
        """The autoscaler that chooses the number between bounds."""
        return bounding(self.view)

    @property
    def least(self) -> int:
        """Smallest grant possible."""
        return least_grant(self.view)

    @property
    def ready_staying(self) -> int:
        """Ready replicas that stay."""
        return len([pod for pod in self.staying_pods if pod.phase == "ready"])

    @property
    def assured(self) -> int:
        """Undoomed replicas that nobody but us can take."""
        return min(self.staying_replicas, max(0, self.sure - len(self.doomed) - self.settle))


class Holding(Struct, frozen=True):
    """The pods, GPUs and replicas of one model over all its targets.

    targets: what it has by target, in the policy's order of preference.
    floor: replicas below which it is never taken.
    staying_replicas: replicas asked for, doomed ones not counted.
    committed_replicas: `staying_replicas`, and doomed ones that nobody replaces yet.
    serving_replicas: Ready pods, doomed ones included.
    ready_staying: Ready pods that are not doomed.
    loading_staying: pods that are neither Ready nor doomed.
    doomed: doomed pods.
    quiet: whether nothing is to be written unless replicas move.
    contested: whether others wrote its numbers lately.
    promised: GPUs that its targets ask for, by pool.
    nodes: GPUs that its pods hold, by what counts as one (the pool's `resource`), then by node.
    """

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
    promised: tuple[tuple[str, int], ...]
    nodes: Mapping[str, Mapping[str, NodeGpus]]


class ModelFacts(Holding, frozen=True):
    """One model of the policy with all that is known of it before anybody asks what it needs.

    entry: its entry in the policy.
    load: its readings.
    memory: what the plan before remembered of it.
    ruling: what people and schedules say about it.
    most_replicas: the most that policy, schedules and people let it have.
    precedence: the policy's priority, and the highest of its pods' PriorityClasses, which decides among equals.
    """

    entry: Model
    load: ModelLoad
    memory: ModelMemory
    ruling: Ruling
    most_replicas: int
    precedence: tuple[int, int]

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.entry.gpus_per_replica

    @property
    def assured(self) -> int:
        """Ready replicas, those under notice not counted, that nobody but us can take."""
        return sum(min(target.assured, target.ready_staying) for target in self.targets)


Model_co = TypeVar("Model_co", bound=ModelFacts, covariant=True)
NextModel = TypeVar("NextModel", bound=ModelFacts)


@dataclass(slots=True)
class NodeRoom:
    """GPUs of one node: free now, and free once what is terminating or going has gone."""

    node: NodeView
    now: int
    soon: int


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A pool with its arithmetic, all in GPUs.

    pool: its entry in the policy.
    view: the pool as the snapshot has it.
    budget: what models may hold together; None where it is unknown.
    promised: what models hold or were promised.
    rooms: what is free, by node that may receive pods.
    taken: what our pods hold of its resource, by node; nodes of other pools are included.
    most: what models may hold before releases are owed; it is `budget` where that is certain.
    unknown: why the budget is unknown, "" where it is known.
    offered: whether some model takes what is idle there.
    surging: what pods of rollouts hold or wait for beyond the replicas of their targets, after what one of them still
        needs on a node.
    most_soon: the most that one node has free once what goes has gone.
    overfull: names of nodes that offer fewer devices than our pods hold there.
    """

    pool: Pool
    view: PoolView
    budget: int | None
    promised: int
    rooms: dict[str, NodeRoom]
    taken: Mapping[str, NodeGpus]
    most: int = 0
    unknown: str = ""
    offered: bool = False
    surging: tuple[tuple[int, int], ...] = ()
    most_soon: int = 0
    overfull: frozenset[str] = frozenset()

    def surging_beside(self, gpus: int | None) -> int:
        """What pods of rollouts may take of a node where room for so many GPUs is made; None: what they hold."""
        most = 0 if gpus is None else self.most_soon + gpus
        return sum(more for needed, more in self.surging if needed <= most)

    @property
    def priced(self) -> bool:
        """Whether a GPU that nobody gains from is let go: its node goes, or batch work takes it."""
        return self.grows or self.offered

    @property
    def grows(self) -> bool:
        """Whether nodes can be added: then GPU-hours have a price and the budget is not fixed.

        Not to a NodePool of a fixed number of nodes.
        """
        fixed = {view.name for view in self.view.node_pools if view.fixed is not None}
        return any(name not in fixed for name in self.pool.brings_nodes)

    @property
    def growth(self) -> int:
        """GPUs that may still be added: the policy's bound less those there are, as the budget counts them.

        No cloud offers MIG nodes.
        """
        if not (self.view.node_pools or self.view.node_groups) or "/mig-" in self.pool.resource:
            return 0
        held = ((node, self.taken.get(node.name)) for node in self.view.nodes)
        there = sum(node_gpus(node, 0 if ours is None else ours.certain) for node, ours in held)
        return max(0, self.pool.gpu_limit - there)


@dataclass(frozen=True, slots=True)
class Scene(Generic[Model_co]):
    """What one cycle knows after a stage.

    snapshot: the cluster and its readings, as planning was given them.
    policy: the policy in force.
    memory: what the plan before left, with the outcomes of its writes.
    now: the instant of the snapshot, in seconds since the epoch.
    doomed: names of nodes that will be gone, or are.
    pools: the pools by name.
    memo: what stands from the plan before because it was made from equal values.
    models: the models by id, in the policy's order.
    of_pool: the models by name of a pool in which they have a target, in the policy's order.
    """

    snapshot: Snapshot
    policy: Policy
    memory: Memory
    now: float
    doomed: frozenset[str]
    pools: Mapping[str, PoolFacts]
    memo: Memo
    models: Mapping[str, Model_co]
    of_pool: Mapping[str, Sequence[Model_co]]

    def with_models(self, models: Iterable[NextModel]) -> "Scene[NextModel]":
        """The same cycle with its models as a stage leaves them."""
        by_id, of_pool = by_id_and_pool(models)
        return Scene(
            self.snapshot, self.policy, self.memory, self.now, self.doomed, self.pools, self.memo, by_id, of_pool
        )

    @property
    def models_by_priority(self) -> list[Model_co]:
        """Highest precedence first, ties by id."""
        return [self.models[name] for name in self.memo.of("", _by_precedence, self.policy, self.snapshot.ranks)]


def by_id_and_pool(models: Iterable[NextModel]) -> tuple[dict[str, NextModel], dict[str, list[NextModel]]]:
    """The models by id, and by name of a pool in which they have a target."""
    by_id = {model.entry.id: model for model in models}
    of_pool: dict[str, list[NextModel]] = {}
    for model in by_id.values():
        for target in model.targets:
            of_pool.setdefault(target.pool, []).append(model)
    return by_id, of_pool


def precedence(model: Model, ranks: Mapping[str, int]) -> tuple[int, int]:
    """What decides who comes first. `ranks`: of the PriorityClasses of a model's pods the highest, by its id."""
    return model.priority, ranks.get(model.id, 0)


def highest(ranks: Iterable[PodRank]) -> dict[str, int]:
    """The highest priority of each model's pods; who is missing has 0."""
    ranks_by_model: dict[str, int] = {}
    for rank in ranks:
        ranks_by_model[rank.model] = max(ranks_by_model.get(rank.model, rank.value), rank.value)
    return ranks_by_model


def _by_precedence(policy: Policy, ranks: tuple[PodRank, ...]) -> tuple[str, ...]:
    values, first = highest(ranks), sorted(policy.models, key=lambda model: model.id)
    return tuple(model.id for model in sorted(first, key=lambda model: precedence(model, values), reverse=True))
