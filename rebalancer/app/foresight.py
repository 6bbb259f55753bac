"""What would come of a decision: two turns of planning with it beside two turns without it. Pure.

`now` is what the next cycle would write, `then` what the one after it would, once what `now` asked for has happened.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec import UNSET
from msgspec.structs import replace

from rebalancer.act.intents import intent_of
from rebalancer.domain.arithmetic import converging, doomed_nodes, doomed_pods
from rebalancer.domain.memory import Memory
from rebalancer.domain.node_rules import NodeRules
from rebalancer.domain.outcome import WRITTEN, Outcome
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Change, OverrideState, Plan, Refusal, Unmet
from rebalancer.domain.policy import Policy
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.snapshot import NoticeView, PodView, Snapshot, TargetView
from rebalancer.planning import plan_apart
from rebalancer.planning.guard_preview import passed_guards

Key = tuple[str, str]  # model, pool


@dataclass(frozen=True, slots=True)
class Known:
    """What the next cycle would decide from."""

    snapshot: Snapshot
    policy: Policy
    memory: Memory


@dataclass(frozen=True, slots=True)
class Course:
    """Two turns of planning, one after the other.

    now: the first turn's plan.
    then: the second turn's plan, made when all that `now` asks for has happened.
    held: replicas that each model comes to in each pool, without doomed ones: before, after `now`, after `then`.
    lacks: what models are short of after both turns, by what they need, whatever a person says.
    """

    now: Plan
    then: Plan
    held: tuple[dict[Key, int], dict[Key, int], dict[Key, int]]
    lacks: tuple[Unmet, ...]

    @property
    def unmet(self) -> int:
        """Replicas that all models together are short of."""
        return sum(row.replicas for row in self.lacks)


@dataclass(frozen=True, slots=True)
class Move:
    """One number of replicas that comes out differently with a decision, or the same number on other GPUs.

    turn: the turn in which it does, 0: now, 1: then.
    model: id of the model.
    pool: name of the pool.
    replicas_from: replicas before that turn, with the decision.
    replicas_to: replicas after that turn, with the decision.
    without: replicas after that turn, without the decision.
    change: what that turn would write for it, None where the number only stays what it is.
    """

    turn: int
    model: str
    pool: str
    replicas_from: int
    replicas_to: int
    without: int
    change: Change | None


@dataclass(frozen=True, slots=True)
class Foresight:
    """What would come with a decision, beside what would come without it.

    without: the course without the decision.
    course: the course with it.
    moves: the numbers of replicas that differ between the two.
    refusals: refusals of the first turn with the decision that are none without it.
    passed: guards that would decline a change if a person had not decided it, in the guards' order, by change id.
    state: what the status of the override would say; None where it says nothing, or the decision is not a new override.
    """

    without: Course
    course: Course
    moves: tuple[Move, ...]
    refusals: tuple[Refusal, ...]
    passed: dict[str, tuple[str, ...]]
    state: OverrideState | None = None


def foresee(known: Known, override: Override) -> Foresight:
    """What `override` would do, beside everything else that is in force."""
    snapshot = replace(
        known.snapshot,
        overrides=tuple(sorted((*known.snapshot.overrides, override), key=lambda each: (each.name, each.namespace))),
        notices=_with_drain(known.snapshot, override),
    )
    without, course = _course(known, known.snapshot), _course(known, snapshot)
    state = next((each for each in course.now.overrides if each.uid == override.uid), None)
    passed = {
        change.id: passed_guards(snapshot, known.policy, known.memory, change)
        for change in course.now.changes
        if change.passes and f"override {override.name}" in change.passes
    }
    return Foresight(without, course, tuple(_moves(without, course)), _news(without.now, course.now), passed, state)


def foresee_end(known: Known, override: Override) -> Foresight:
    """What would come if `override` were taken back now."""
    snapshot = replace(
        known.snapshot,
        overrides=tuple(one for one in known.snapshot.overrides if one.uid != override.uid),
        notices=tuple(one for one in known.snapshot.notices if one.source != override.source),
    )
    without, course = _course(known, known.snapshot), _course(known, snapshot)
    return Foresight(without, course, tuple(_moves(without, course)), _news(without.now, course.now), {})


def foresee_resume(known: Known) -> Foresight:
    """What would be written if no write stop were in force."""
    without = _course(known, known.snapshot)
    course = _course(known, replace(known.snapshot, write_stop=None))
    return Foresight(without, course, tuple(_moves(without, course)), _news(without.now, course.now), {})


def _with_drain(snapshot: Snapshot, override: Override) -> tuple[NoticeView, ...]:
    """A drain reaches planning as a notice for each node it is about; one that has come to its time stays."""
    if override.kind != "drain":
        return snapshot.notices
    there = {node.name: view.name for view in snapshot.pools for node in view.nodes}
    standing = {notice.node: notice for notice in snapshot.notices if notice.counts(snapshot.at)}
    at = override.created_at
    drained = [
        NoticeView(node=node, kind="drain", since=at, deadline=at, source=override.source)
        for node, pool in there.items()
        if node not in standing and override.subject == (pool if override.subject_kind == "pool" else node)
    ]
    notices = {notice.node: notice for notice in (*snapshot.notices, *drained)}
    return tuple(notices[node] for node in sorted(notices))


def _course(known: Known, snapshot: Snapshot) -> Course:
    rules = known.policy.nodes
    first = plan_apart(snapshot, known.policy, known.memory)
    after = happened(snapshot, first.plan, known.policy)
    second = plan_apart(after, known.policy, first.memory)
    last = happened(after, second.plan, known.policy)
    lacks = plan_apart(last, known.policy, second.memory).plan.unmet
    return Course(
        first.plan,
        second.plan,
        (_held_replicas(snapshot, rules), _held_replicas(after, rules), _held_replicas(last, rules)),
        lacks,
    )


def _held_replicas(snapshot: Snapshot, rules: NodeRules) -> dict[Key, int]:
    doomed = doomed_nodes(snapshot.notices, snapshot.pools, rules, snapshot.at)
    return {
        (model.id, target.pool): max(0, converging(target) - len(doomed_pods(target, doomed)))
        for model in snapshot.models
        for target in model.targets
        if not target.missing
    }


def _moves(without: Course, course: Course) -> Iterator[Move]:
    """Per model and pool: what is another number after this turn than it would be, and than it was."""
    for turn, plan in enumerate((course.now, course.then)):
        changes = {(change.model, change.target.pool): change for change in plan.changes}
        for key, after in course.held[turn + 1].items():
            before, otherwise = course.held[turn][key], without.held[turn + 1][key]
            stays, change = before == after, changes.get(key)
            moved = after != otherwise and not (stays and (turn or without.held[turn][key] == otherwise))
            if moved or (change is not None and change.kind == "replace"):  # as many as before, on other GPUs
                yield Move(turn, *key, before, after, otherwise, None if stays else change)


def _news(without: Plan, plan: Plan) -> tuple[Refusal, ...]:
    old = {(each.guard, each.subject) for each in without.refusals}
    return tuple(each for each in plan.refusals if (each.guard, each.subject) not in old)


def happened(snapshot: Snapshot, plan: Plan, policy: Policy) -> Snapshot:
    """The world once all that `plan` asks for has come: pods gone, pods and nodes there, guards' windows used up."""
    snapshot, brought = _with_nodes(snapshot, plan, policy)
    by_part = {(change.model, change.target.pool): change for change in plan.changes}
    outcomes = [Outcome(intent_of(one, plan.cycle, plan.at), plan.at, WRITTEN) for one in plan.changes]
    models = tuple(
        replace(
            model,
            targets=tuple(
                _carried_out(
                    target, by_part.get((model.id, target.pool)), brought.get((model.id, target.pool), ()), plan.at
                )
                for target in model.targets
            ),
        )
        for model in snapshot.models
    )
    return replace(snapshot, models=models, cycle=snapshot.cycle + 1, outcomes=tuple(outcomes))


def _with_nodes(snapshot: Snapshot, plan: Plan, policy: Policy) -> tuple[Snapshot, dict[Key, tuple[str, ...]]]:
    """The world with the nodes that the plan's node grants wait for, and the new node of each of their replicas."""
    pools = {view.name: view for view in snapshot.pools}
    per_node = {pool.name: pool.gpus_per_node for pool in policy.pools}
    limits = {each.name: each.limit_to for each in plan.node_pools if each.kind == "limit"}
    brought: dict[Key, tuple[str, ...]] = {}
    for change in (one for one in plan.changes if one.grant is not None and one.replicas_to > one.replicas_from):
        target, view = change.target, pools[change.target.pool]
        fitting = max(1, per_node[view.name] // target.gpus_per_pod)
        replicas = change.replicas_to - change.replicas_from - len(change.nodes)
        count = -(-replicas * target.pods_per_replica // fitting)
        names = tuple(f"to-come/{change.grant}/{number}" for number in range(count))
        brought[change.model, view.name] = tuple(
            names[number * target.pods_per_replica // fitting] for number in range(replicas)
        )
        pools[view.name] = _grown(view, change.node_pool or "", names, per_node[view.name], limits)
    return replace(snapshot, pools=tuple(pools.values())), brought


def _grown(
    view: PoolView, node_pool: str, names: tuple[str, ...], gpus: int, limits: Mapping[str, int | None]
) -> PoolView:
    """The pool with these nodes of `gpus` more, like those that the NodePool brought before; `limits` as the plan sets.

    Of a NodePool that has brought none nobody knows the labels of a node.
    """
    like = next((node for node in view.nodes if node.node_pool == node_pool), NodeView("", gpus, True, True))  # noqa: FBT003  # of a record
    new = [
        NodeView(name, gpus, True, True, node_pool=node_pool, labels=like.labels, memory_gib=like.memory_gib)  # noqa: FBT003  # of a record
        for name in names
    ]
    behind = tuple(
        replace(one, gpus_used=one.gpus_used + gpus * len(names), gpu_limit=limits.get(one.name, one.gpu_limit))
        if one.name == node_pool
        else one
        for one in view.node_pools
    )
    return replace(view, nodes=(*view.nodes, *new), node_pools=behind)


def _carried_out(target: TargetView, change: Change | None, brought: tuple[str, ...], at: float) -> TargetView:
    """The target after `change`; `brought`: the nodes to come of its pods that found no other."""
    if change is None:
        return target
    victims = set(change.victims)
    pods = [pod for pod in target.pods if pod.uid not in victims][: change.replicas_to]
    nodes = iter((*change.nodes, *brought))
    pods += [
        PodView(
            uid=f"to-come/{change.id}/{number}",
            name="",
            node=next(nodes, None),
            phase="loading",
            since=at,
            created_at=at,
        )
        for number in range(change.replicas_to - len(pods))
    ]
    owner = target.autoscaler
    if target.metric is not UNSET:
        target = replace(target, metric=replace(target.metric, desired=change.replicas_to))
    if owner is not None and not target.by_metric:
        most = max(1, change.replicas_to)
        owner = replace(
            owner, minimum=change.minimum, maximum=most, effective_minimum=change.minimum, effective_maximum=most
        )
    pods.sort(key=lambda pod: pod.uid)
    return replace(target, replicas=change.replicas_to, unconfirmed_replicas=None, pods=tuple(pods), autoscaler=owner)
