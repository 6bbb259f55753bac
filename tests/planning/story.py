"""A world that lives: plan, carry out, let Kubernetes and time do their part, plan again.

`Story` keeps the policy, the snapshot and planning's memory between turns; `tests.planning.cluster` is its physics.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from rebalancer.domain.codec import to_bytes
from rebalancer.domain.memory import Memory, NodeGrant
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import Change, ModelDecision, NodePoolChange, Plan, Refusal, Unmet
from rebalancer.domain.policy import Policy
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.readings import ModelLoad, Signal, Work
from rebalancer.domain.snapshot import NoticeView, Snapshot, TargetView
from rebalancer.planning import Memo
from rebalancer.planning import plan as decide
from tests import builders
from tests.planning import cluster
from tests.planning.outlooks import Shape, an_outlook


class Printer(Protocol):
    """What hypothesis prints a failing example with."""

    def text(self, words: str) -> None: ...


@dataclass(repr=False)
class Story:
    """One world. `plans`: everything decided so far, oldest first; `levels`: work offered, where a test says it so.

    `shapes`: of the curves of the models that have an outlook. `compares`: whether each decision is made a second time
    without what is kept between turns, and must be the same.
    """

    policy: Policy
    snapshot: Snapshot
    memory: Memory = field(default_factory=Memory)
    plans: list[Plan] = field(default_factory=list)
    levels: dict[str, float] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    kept: Memo = field(default_factory=Memo)
    compares: bool = True

    def __repr__(self) -> str:
        """The world in a few lines, for a failing test."""
        lines = [
            f"cycle {self.snapshot.cycle} at {self.snapshot.at - builders.NOW:g} s, levels {self.levels}, {self.shapes}"
        ]
        specs = {pool.name: pool for pool in self.policy.pools}
        for view in self.snapshot.pools:
            nodes = ", ".join(f"{node.name} {node.gpus}{'t' if node.taints else ''}" for node in view.nodes)
            behind = ", ".join(f"{one.name} {one.gpus_used}/{one.gpu_limit}" for one in view.node_pools)
            spec = specs[view.name]
            lines.append(
                f"pool {view.name} {spec.kind} limit {spec.gpu_limit}: {nodes or 'no nodes'}; behind: {behind}"
            )
        views = {view.id: view for view in self.snapshot.models}
        for model in self.policy.models:
            lines.append(
                f"model {model.id}: {model.gpus_per_replica} GPUs, floor {model.min_replicas}, own {model.entitlement},"
                f" most {model.max_replicas}, priority {model.priority}, {model.workload_class}, {model.actuation}"
            )
            lines += [f"  {_in_words(target)}" for target in (views[model.id].targets if model.id in views else ())]
        lines += [f"notice {one.node} {one.kind} karpenter={one.karpenter}" for one in self.snapshot.notices]
        lines += [f"override {one.kind} {one.subject} {one.value}" for one in self.snapshot.overrides]
        lines += [f"grant {one.id} {one.pool} {one.gpus} GPUs" for one in self.memory.node_grants]
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:  # noqa: FBT001  hypothesis calls it so
        printer.text(repr(self))

    # --- turns

    def plan(self) -> Plan:
        """Decide once; memory is kept, last cycle's outcomes are consumed, nothing is written."""
        decision = decide(self.snapshot, self.policy, self.memory, self.kept)
        if self.compares:
            again = decide(self.snapshot, self.policy, self.memory)
            assert to_bytes(decision) == to_bytes(again), "kept changes nothing"
        self.memory = decision.memory
        self.snapshot = replace(self.snapshot, outcomes=(), cycle=self.snapshot.cycle + 1)
        self.plans.append(decision.plan)
        return decision.plan

    def write(self, plan: Plan, most: int | None = None) -> None:
        """The plan (or its first `most` changes) is written; no pod has moved yet."""
        self.snapshot = cluster.execute(self.snapshot, plan, most)

    def kubernetes(self) -> None:
        """ReplicaSets and the scheduler do what they can now; what terminates is not gone yet."""
        self.snapshot = cluster.reconcile(self.snapshot)

    def settle(self) -> None:
        """All that was asked for has happened: pods gone, pods bound, pods Ready."""
        for _ in range(2):  # what went made room for what was pending
            self.snapshot = cluster.become_ready(cluster.vanish(cluster.reconcile(self.snapshot)))

    def karpenter(self) -> None:
        """Nodes come for what is pending, as far as limits allow, and it starts there."""
        for pool in self.policy.pools:
            if pool.node_pools and any(view.name == pool.name for view in self.snapshot.pools):
                self.snapshot = cluster.launch(self.snapshot, pool.name, pool.gpus_per_node)
        self.settle()

    def wait(self, seconds: float) -> None:
        """Time passes; readings stay as fresh as they were."""
        outcomes = self.snapshot.outcomes
        self.snapshot = replace(cluster.later(self.snapshot, seconds), outcomes=outcomes)

    def turn(self, seconds: float = 10.0) -> Plan:
        """One whole turn of the wheel: decide, write, let everything happen, wait for the next period."""
        plan = self.plan()
        self.write(plan)
        self.settle()
        self.wait(seconds)
        return plan

    def turns(self, count: int, seconds: float = 10.0) -> list[Plan]:
        """That many whole turns."""
        return [self.turn(seconds) for _ in range(count)]

    # --- what changes from outside

    def load(
        self,
        model: str,
        readings: Mapping[str, float | Signal] | None = None,
        work: float | Work = 0.0,
        **overrides: object,
    ) -> None:
        """From now on the metrics of `model` say this, told by whom they were told before."""
        at = self.snapshot.at
        fresh = builders.a_load(model, readings, work, **overrides)
        signals = {
            name: replace(one, at=one.at - builders.NOW + at) if hasattr(one, "at") else one
            for name, one in fresh.signals.items()
        }
        now = replace(fresh, signals=signals)
        self._loads(lambda load: replace(now, told_by=load.told_by) if load.model == model else load)

    def foresee(  # one figure each
        self, model: str, late: Mapping[int, float], level: float = 1.0, caution: float = 0.0, busiest: float = 0.0
    ) -> None:
        """From now on the look-ahead says what every count of replicas of `model` costs in late requests."""
        spec = next(each for each in self.policy.models if each.id == model)
        figures = {"level": level, "base": level, "shifted": level, "busiest": busiest}
        self.look_ahead(model, an_outlook(late, self.replicas(model), spec, caution, **figures))

    def look_ahead(self, model: str, outlook: Outlook) -> None:
        """From now on this is the outlook of `model`."""
        self._loads(lambda load: replace(load, outlook=outlook) if load.model == model else load)

    def outlook(self, model: str) -> Outlook | None:
        """What the look-ahead says of `model` now."""
        return next(load.outlook for load in self.snapshot.loads if load.model == model)

    def _loads(self, change: Callable[[ModelLoad], ModelLoad]) -> None:
        self.snapshot = replace(self.snapshot, loads=tuple(change(load) for load in self.snapshot.loads))

    def notice(self, node: str, seconds: float = 120.0, **overrides: object) -> None:
        """`node` is under notice from now on, and goes in `seconds`."""
        at = self.snapshot.at
        notice = builders.a_notice(node, since=at, deadline=at + seconds, **overrides)
        others = [one for one in self.snapshot.notices if one.node != node]
        self.snapshot = replace(self.snapshot, notices=tuple(sorted((*others, notice), key=_by_node)))

    def evict(self, node: str) -> None:
        """Whatever runs on `node` is being deleted, as Karpenter's drain would."""
        self.snapshot = cluster.evict(self.snapshot, node)

    def lose(self, node: str) -> None:
        """`node` is gone, and its pods and notice with it."""
        self.snapshot = cluster.lose(self.snapshot, node)

    def take_away(self, node: str, *, seen: bool = True) -> None:
        """The Node object is gone and its pods know nothing of it; `seen`: by this service, which gives notice then."""
        self.snapshot = cluster.take_away(self.snapshot, node)
        at = self.snapshot.at
        if seen:
            told = next((one for one in self.snapshot.notices if one.node == node), None)
            kind = {} if told else {"kind": "gone", "source": "kubernetes"}
            self.notice(node, min(0.0, told.deadline - at if told else 0.0), **kind)

    def collect(self, node: str) -> None:
        """The garbage collector of pods has come by."""
        self.snapshot = cluster.collect(self.snapshot, node)

    def add(self, pool: str, node: NodeView) -> None:
        """A new node of `pool`."""
        self.pool(pool, nodes=tuple(sorted((*self.view(pool).nodes, node), key=lambda each: each.name)))

    def pool(self, name: str, **overrides: object) -> None:
        """The pool's view says this from now on."""
        pools = tuple(replace(view, **overrides) if view.name == name else view for view in self.snapshot.pools)
        self.snapshot = replace(self.snapshot, pools=pools)

    def target(self, model: str, pool: str | None = None, **overrides: object) -> None:
        """One target of `model` (the first, or the one in `pool`) shows this from now on."""
        pool = pool or self.of(model).pool
        self.snapshot = cluster.on_target(self.snapshot, model, pool, lambda each: replace(each, **overrides))

    def override(self, *overrides: object) -> None:
        """The overrides in the cluster are these."""
        self.snapshot = replace(self.snapshot, overrides=overrides)

    # --- what is asked of it

    def view(self, pool: str) -> PoolView:
        """The pool as the cluster shows it."""
        return next(view for view in self.snapshot.pools if view.name == pool)

    def of(self, model: str, pool: str | None = None) -> TargetView:
        """One target of `model`: the one in `pool`, else the first of the policy."""
        spec = next(each for each in self.policy.models if each.id == model)
        name = pool or spec.targets[0].pool
        view = next(each for each in self.snapshot.models if each.id == model)
        return next(target for target in view.targets if target.pool == name)

    def replicas(self, model: str, pool: str | None = None) -> int:
        """spec.replicas of one target, of all targets without `pool`."""
        if pool is not None:
            return self.of(model, pool).replicas
        return cluster.replicas(self.snapshot)[model]

    def grants(self) -> tuple[NodeGrant, ...]:
        """Node grants that are open."""
        return self.memory.node_grants


def _in_words(target: TargetView) -> str:
    owner = target.autoscaler
    bounds = "" if owner is None else f" [{owner.minimum}, {owner.maximum}{'' if owner.originals else ' theirs'}]"
    pods = " ".join(f"{pod.phase[0]}:{pod.node or '-'}" for pod in target.pods)
    return f"{target.pool} {target.replicas}{bounds}{' rolling' if target.rolling else ''}  {pods}"


def _by_node(notice: NoticeView) -> str:
    return notice.node


def moves(plan: Plan) -> dict[str, tuple[int, int]]:
    """What a plan asks of each model: (from, to). Bounds on an unchanged number are left out."""
    return {change.model: (change.replicas_from, change.replicas_to) for change in plan.changes if _moves(change)}


def _moves(change: Change) -> bool:
    return change.replicas_from != change.replicas_to


def change_of(plan: Plan, model: str, pool: str | None = None) -> Change:
    """The one change of `model` (in `pool`)."""
    found = [each for each in plan.changes if each.model == model and pool in {None, each.target.pool}]
    assert len(found) == 1, f"{model} has {len(found)} changes: {[str(each) for each in plan.changes]}"
    return found[0]


def refusal_of(plan: Plan, guard: str, subject: str) -> Refusal:
    """What `guard` declined to do to `subject`."""
    found = [each for each in plan.refusals if (each.guard, each.subject) == (guard, subject)]
    assert found, f"no {guard} refusal of {subject} among {[str(each) for each in plan.refusals]}"
    return found[0]


def refused(plan: Plan) -> set[tuple[str, str]]:
    """(guard, subject) of every refusal."""
    return {(each.guard, each.subject) for each in plan.refusals}


def decision_of(plan: Plan, model: str) -> ModelDecision:
    """All that was decided about `model`."""
    return next(each for each in plan.models if each.model == model)


def unmet_of(plan: Plan, model: str) -> Unmet | None:
    """What `model` still lacks, None when nothing."""
    return next((each for each in plan.unmet if each.model == model), None)


def node_pool_changes(plan: Plan) -> dict[str, NodePoolChange]:
    """Changes to NodePools by kind."""
    return {change.kind: change for change in plan.node_pools}
