"""What must hold at every write, computed from the snapshot with sums of its own: nothing here asks the product.

`judge_write(world before, world after, change, ...)` asserts it for one write; the names of the rules are in its text.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rebalancer.act.intents import waves
from rebalancer.domain.memory import NodeGrant, Replaced
from rebalancer.domain.plan import Change, DrainChange, NodePoolChange, Plan
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.readings import ModelLoad, Reading
from rebalancer.domain.snapshot import ModelView, PodView, Snapshot, TargetView
from tests.planning import cluster
from tests.planning.story import Story

CONSTRAINTS = {
    "budget", "fit", "waiting", "pause", "freeze", "rollout", "missing", "foreign", "autoscaler-paused", "stop",
    "start", "floor", "empty", "blind", "agree", "sudden", "step", "fleet", "shift", "override", "schedule",
    "ratio", "nodes",
}  # fmt: skip


@dataclass(frozen=True)
class Sums:
    """The figures of one instant.

    Per model: asked (replicas its targets go to), surely (those that no autoscaler may take away), serving (Ready pods
    that nobody deletes, on nodes without a notice that has come to its time). Per pool: promised, budget (None: its
    nodes are not seen).
    """

    asked: dict[str, int]
    surely: dict[str, int]
    serving: dict[str, int]
    promised: dict[str, int]
    budget: dict[str, int | None]


def sums(snapshot: Snapshot, policy: Policy, grants: Iterable[NodeGrant]) -> Sums:
    """All of it."""
    grace = policy.nodes.not_ready_grace_seconds
    dead = {
        node.name
        for pool in snapshot.pools
        for node in pool.nodes
        if not node.ready and (node.ready_changed_at is None or snapshot.at - node.ready_changed_at >= grace)
    }
    doomed = {notice.node for notice in snapshot.notices if notice.counts(snapshot.at)} | dead
    views = {view.id: view for view in snapshot.models}
    models = {model.id: (model, views[model.id]) for model in policy.models if model.id in views}
    return Sums(
        asked={name: sum(goes_to(each) for each in _there(view)) for name, (_, view) in models.items()},
        surely={name: sum(_at_least(each) for each in _there(view)) for name, (_, view) in models.items()},
        serving={name: _serving(view, doomed) for name, (_, view) in models.items()},
        promised=_promised(snapshot, models, doomed),
        budget=_budgets(snapshot, policy, list(grants), doomed),
    )


def _there(view: ModelView) -> list[TargetView]:
    return [target for target in view.targets if not target.missing]


def _ours(target: TargetView) -> bool:
    owner = target.autoscaler
    return owner is not None and not owner.paused and owner.originals is not None


def goes_to(target: TargetView) -> int:
    """The maximum where we set it, else the number in the spec, or the minimum to which an autoscaler takes it."""
    owner = target.autoscaler
    if owner is None or owner.paused:
        return target.replicas
    return owner.maximum if _ours(target) else max(target.replicas, owner.minimum)


def _at_least(target: TargetView) -> int:
    """The minimum of whoever's autoscaler chooses, as far as the spec has come to it, else the number in the spec."""
    owner = target.autoscaler
    if owner is None or owner.paused:
        return target.replicas
    return min(goes_to(target), target.replicas, owner.minimum, owner.effective_minimum)


def _serving(view: ModelView, doomed: set[str]) -> int:
    return sum(1 for target in view.targets for pod in target.pods if pod.phase == "ready" and not pod.on(doomed))


def _promised(snapshot: Snapshot, models: Mapping[str, tuple[Model, ModelView]], doomed: set[str]) -> dict[str, int]:
    """Sum over targets of max(replicas or max asked - doomed, undoomed pods that have not ended) x GPUs."""
    totals = {pool.name: 0 for pool in snapshot.pools}
    for model, view in models.values():
        for target in _there(view):
            most = goes_to(target)
            owner = target.autoscaler
            if owner is not None and not owner.paused:  # the HPA may still follow the old bounds
                most = max(most, min(owner.effective_maximum, max(owner.effective_minimum, target.replicas)))
            leaving = sum(1 for pod in target.pods if pod.on(doomed) and pod.phase != "terminating")
            staying = sum(1 for pod in target.pods if not pod.on(doomed))
            if target.pool in totals:
                totals[target.pool] += max(most - leaving, staying) * model.gpus_per_replica
    return totals


def _budgets(snapshot: Snapshot, policy: Policy, grants: list[NodeGrant], doomed: set[str]) -> dict[str, int | None]:
    """min(policy limit, GPUs of counted nodes + grants still to come) - what others hold there.

    A Ready node has at least the GPUs that pods hold there.
    """
    held = Counter[str | None]()
    for target in (target for view in snapshot.models for target in view.targets):
        for pod in target.pods:
            for node in pod.nodes:
                held[node] += target.gpus_per_pod
    found: dict[str, int | None] = {}
    limits = {pool.name: pool.gpu_limit for pool in policy.pools}
    grace = policy.nodes.not_ready_grace_seconds
    for pool in snapshot.pools:
        nodes = [
            node
            for node in pool.nodes
            if node.name not in doomed
            and (node.ready or (node.ready_changed_at is not None and snapshot.at - node.ready_changed_at < grace))
        ]
        coming = sum(grant.gpus for grant in grants if grant.pool == pool.name)
        there = sum(max(node.gpus, held[node.name] + node.foreign_gpus) if node.ready else node.gpus for node in nodes)
        total = min(limits[pool.name], there + coming)
        seen = any(node.gpus for node in pool.nodes) or not _runs_there(snapshot, pool.name)
        found[pool.name] = total - sum(node.foreign_gpus for node in nodes) if seen else None
    return found


def _runs_there(snapshot: Snapshot, pool: str) -> bool:
    targets = (target for view in snapshot.models for target in view.targets if target.pool == pool)
    return any(pod.nodes for target in targets for pod in target.pods)


def floors(snapshot: Snapshot, policy: Policy) -> dict[str, int]:
    """minReplicas, or less where a person said so by name."""
    return {model.id: _lowered(snapshot, model.id, model.min_replicas) for model in policy.models}


def _lowered(snapshot: Snapshot, model: str, floor: int) -> int:
    """The floor, or less where the override that decides about the model may go below it."""
    for kind in ("pause", "freeze", "pin", "cap"):
        mine = [
            one
            for one in snapshot.overrides
            if (one.kind, one.subject) == (kind, model) and one.expires_at > snapshot.at
        ]
        for newest in sorted(mine, key=lambda one: (-one.created_at, one.name))[:1]:
            return min(floor, newest.value) if newest.allow_below_floor and newest.value is not None else floor
    return floor


def opened(change: Change, gpus: int, at: float) -> NodeGrant | None:
    """The node grant that a written raise opens."""
    if change.grant is None or change.kind == "withdraw":
        return None
    more = change.replicas_to - change.replicas_from
    return NodeGrant(
        change.grant, change.model, change.target.pool, change.node_pool or "", more, more * gpus, asked_at=at, until=at
    )


def judge_write(
    before: Snapshot,
    after: Snapshot,
    change: Change | NodePoolChange,
    policy: Policy,
    grants: list[NodeGrant],
) -> None:
    """Assert what one write may do. `grants` are open; a grant that this very write opens is added to them."""
    if isinstance(change, NodePoolChange):
        _judge_limit(before, change, policy)
        return
    assert before.write_stop is None, f"{change} is written under a write stop"
    assert not before.sync.missing, f"{change} is written before {before.sync.missing} are listed"
    was = sums(before, policy, grants)
    model = next(each for each in policy.models if each.id == change.model)
    grant = opened(change, model.gpus_per_replica, before.at)
    if grant is not None and all(each.id != grant.id for each in grants):
        grants.append(grant)
    now = sums(after, policy, grants)
    _judge_floor(was, now, change, floors(before, policy)[change.model])
    _judge_victims(before, after, change)
    moves = change.kind in {"release", "grant", "replace"}
    assert not moves or was.budget.get(change.target.pool) is not None, f"{change} moves where no node is seen"
    _judge_ratio(before, after, change, policy)
    for pool, promised in now.promised.items():
        budget = now.budget[pool]
        raised = promised > was.promised[pool]
        assert not raised or budget is not None, f"{change} raises {pool}, whose nodes are not seen"
        over = raised and budget is not None and promised > budget
        assert not over, f"{change} promises {promised} GPUs of {pool}, its budget is {budget}"


def _judge_floor(was: Sums, now: Sums, change: Change, floor: int) -> None:
    name = change.model
    for words, old, new in (
        ("asked for", was.asked[name], now.asked[name]),
        ("sure of", was.surely[name], now.surely[name]),
    ):
        assert new >= old or new >= floor, f"{change} leaves {name} {words} {new} replicas, its floor is {floor}"


def _judge_ratio(before: Snapshot, after: Snapshot, change: Change, policy: Policy) -> None:
    """No write takes two roles out of their ratio, or further out; a number that comes back is no move."""
    if change.kind == "settle":
        return
    was, now = staying(before, policy), staying(after, policy)
    for model in policy.models:
        if model.ratio is not None:
            old, new = (beyond(model, each) for each in (was, now))
            assert new <= old + 1e-6, f"{change} takes {model.id} and {model.ratio.to} from {was} to {now}"


def beyond(model: Model, staying: Mapping[str, int]) -> float:
    """Replicas of a role by which it and the other one are outside of its ratio."""
    assert model.ratio is not None
    of, to = staying[model.id], staying[model.ratio.to]
    return max(0.0, model.ratio.least * to - of, of - model.ratio.most * to)


def staying(snapshot: Snapshot, policy: Policy) -> dict[str, int]:
    """Replicas that each model is asked for, doomed ones not counted, once Kubernetes has ended who is to go."""
    asked, snapshot = sums(snapshot, policy, ()).asked, cluster.reconcile(snapshot)
    doomed = {notice.node for notice in snapshot.notices if notice.counts(snapshot.at)}
    return {
        view.id: asked[view.id]
        - sum(pod.on(doomed) and pod.phase != "terminating" for target in view.targets for pod in target.pods)
        for view in snapshot.models
        if view.id in asked
    }


def _judge_victims(before: Snapshot, after: Snapshot, change: Change) -> None:
    """Of those on a node a ReplicaSet ends whom the plan meant; else GPUs come free elsewhere than it counts on.

    A doomed one that goes instead is nobody's loss. Where the number of replaced ones that are gone comes back too,
    whoever was made in their stead goes as well.
    """
    was, now = ({pod.uid for pod in _ended(each, change)} for each in (before, after))
    settled = {Replaced.of(entry).pod for entry in change.replaces} - {*change.victims}
    others = now - was - {*change.victims}
    assert change.kind != "release" or len(others) <= len(settled), f"{change}: {others} go, not {change.victims}"


def _ended(snapshot: Snapshot, change: Change) -> list[PodView]:
    """Pods on nodes without notice that the target's ReplicaSet ends, or has ended."""
    doomed = {notice.node for notice in snapshot.notices}
    held = {pod.uid for pod in _target(snapshot, change).pods if pod.node is not None and not pod.on(doomed)}
    pods = _target(cluster.reconcile(snapshot), change).pods
    return [pod for pod in pods if pod.phase == "terminating" and pod.uid in held]


def _target(snapshot: Snapshot, change: Change) -> TargetView:
    view = next(each for each in snapshot.models if each.id == change.model)
    return next(each for each in view.targets if each.pool == change.target.pool)


def carry_out(story: Story, plan: Plan, most: int | None = None) -> int:
    """Write (the first `most` changes of) a plan, judging every write; returns how many there were."""
    grants = list(story.memory.node_grants)
    before = story.snapshot
    ordered = [change for wave in waves(plan) for chain in wave for change in chain][:most]
    for change in ordered:
        after = cluster.write(story.snapshot, change, plan.cycle)
        if not isinstance(change, DrainChange):
            judge_write(story.snapshot, after, change, story.policy, grants)
        story.snapshot = after
    judge_pods(before, story.snapshot, story.policy)
    return len(ordered)


def judge_plan(snapshot: Snapshot, policy: Policy, plan: Plan) -> None:
    """Assert what a whole plan says: unmet need has its constraint, givers name who gets it, the unseen are spared."""
    loads = {load.model: load for load in snapshot.loads}
    known = {model.id for model in policy.models}
    unmet = {row.model: row for row in plan.unmet}
    for decision in plan.models:
        row = unmet.get(decision.model)
        if decision.demand is not None:
            short = max(0, decision.demand - decision.ready - decision.loading)
            told = row.replicas if row else decision.headroom
            assert bool(told) >= bool(short), f"{decision.model} lacks {short}, unmet says {row}"
            assert row is None or decision.headroom == 0, f"{decision.model} is short and would merely use more"
        assert row is None or (row.constraint in CONSTRAINTS and row.why), f"{row} does not say what binds"
        comes = max(decision.allocation, decision.granted) > decision.ready + decision.loading
        assert row is None or row.constraint != "waiting" or comes, f"{row} waits for nothing: {decision}"
    for change in plan.changes:
        _judge_giver(change, known)
        if unseen(loads.get(change.model), policy, snapshot.at):
            _judge_unseen(change)


def _judge_giver(change: Change, known: set[str]) -> None:
    gives = change.kind == "release" and (change.counts == "shift" or change.passes == "reclaim")
    assert not gives or change.recipients, f"{change} gives to nobody"
    assert set(change.recipients) <= known - {change.model}, f"{change} gives to {change.recipients}"


def unseen(load: ModelLoad | None, policy: Policy, at: float) -> bool:
    """Whether no signal of the model is fresh, complete and a number."""
    if load is None:
        return True
    model = next(each for each in policy.models if each.id == load.model)
    readings = [load.signals.get(name) for name in model.signals.configured]
    return not any(isinstance(one, Reading) and at - one.at <= 10.0 and one.coverage >= 0.8 for one in readings)


def _judge_unseen(change: Change) -> None:
    """Nothing is taken from a model on no evidence: only what is doomed, pending, its owner's, or a person's."""
    may = change.kind in {"settle", "withdraw"} or (change.passes or "").startswith(("drain", "reclaim", "override"))
    assert may or change.replicas_to >= change.replicas_from, f"{change} takes from a model that nobody sees"
    owner = change.target.autoscaler
    if owner is not None and not may and change.kind == "bounds":
        lowest = min(owner.minimum, change.replicas_from)
        assert change.minimum >= lowest, f"{change} lowers the minimum of a model that nobody sees"


def judge_pods(before: Snapshot, written: Snapshot, policy: Policy) -> None:
    """Assert that what Kubernetes makes of the writes leaves every model its floor in Ready replicas.

    Both times: what earlier writes have set in motion is not these writes' doing.
    """
    was, now = (sums(cluster.reconcile(each), policy, ()) for each in (before, written))
    for name, floor in floors(before, policy).items():
        old, new = was.serving.get(name, 0), now.serving.get(name, 0)
        assert new >= min(old, floor), f"{name} served with {old} replicas, is left {new}, its floor is {floor}"


def _judge_limit(before: Snapshot, change: NodePoolChange, policy: Policy) -> None:
    assert before.write_stop is None, f"{change} is written under a write stop"
    pool = next(each for each in policy.pools if each.name == change.pool)
    view = next(each for each in before.pools if each.name == change.pool)
    node_pool = next(each for each in view.node_pools if each.name == change.name)
    if change.kind in {"limit", "restore-limit"}:
        assert change.limit_to is not None
        assert change.limit_to >= node_pool.gpus_used, f"{change} is under what is in use"
    if change.kind == "limit":
        bound = max(pool.gpu_limit, node_pool.gpus_used)
        assert change.limit_to is not None
        assert change.limit_to <= bound, f"{change} is beyond the policy's {pool.gpu_limit}"
