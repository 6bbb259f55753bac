"""Floor, budget and limit are checked again against the cluster as it is at a write: the plan may be old, or wrong."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from rebalancer.act.driver import Refused
from rebalancer.act.unseen_writes import UnseenWrites, asking, converging
from rebalancer.domain.arithmetic import (
    assured,
    bound_gpus,
    bounding,
    certain_pod_gpus,
    doomed_nodes,
    doomed_pods,
    most_free_gpus,
    noticed_nodes,
    peak_replicas,
    pod_gpus,
    pool_gpus,
    promised_gpus,
    promised_replicas,
    stranded_pods,
    unknown_gpus,
)
from rebalancer.domain.couples import couples
from rebalancer.domain.memory import NodeGrant
from rebalancer.domain.people import DECIDING, Override
from rebalancer.domain.plan import Change, NodePoolChange
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import ModelView, PodView, Snapshot, TargetView
from rebalancer.domain.victims import serving_after
from rebalancer.domain.words import counted, gpus, replicas

NOT_DECREASES: Final = frozenset({"settle", "withdraw"})  # nothing that serves goes, so no guard's window is used up
CERTAIN: Final = ("override", "drain")  # decreases that rest on no count of what serves beside


class Ground:
    """The policy and the node grants, this plan's own included, against which the writes of one plan are checked."""

    def __init__(self, policy: Policy, grants: Iterable[NodeGrant]) -> None:
        self.policy = policy
        self.models = {model.id: model for model in policy.models}
        self.pools = {pool.name: pool for pool in policy.pools}
        self.gpus_per_pod = {model.id: model.gpus_per_pod for model in policy.models}
        self.couples = couples(policy)
        self._grants = {grant.id: grant for grant in grants}
        self._opened: dict[str, NodeGrant] = {}

    @property
    def grants(self) -> tuple[NodeGrant, ...]:
        """Grants whose GPUs are still to come, and are in the budget."""
        return (*self._grants.values(), *self._opened.values())

    def open(self, change: Change, now: float) -> None:
        """Count the node grant that `change` opens: raises past the free GPUs are in the budget by it."""
        pool = self.pools.get(change.target.pool)
        behind = pool is not None and change.node_pool in pool.brings_nodes
        if change.grant is None or change.grant in self._grants or not behind or change.model not in self.models:
            return
        replicas = max(0, change.replicas_to - change.replicas_from)
        self._opened[change.grant] = NodeGrant(
            id=change.grant,
            model=change.model,
            pool=change.target.pool,
            node_pool=change.node_pool or "",
            replicas=replicas,
            gpus=replicas * self.models[change.model].gpus_per_replica,
            asked_at=now,
            until=now + self.policy.nodes.node_timeout_seconds,
        )

    def close(self, change: Change) -> None:
        """`change` was not written: its grant is none."""
        self._opened.pop(change.grant or "", None)


def decreases(change: Change) -> bool:
    """Whether a guard's window may count `change`: fewer replicas, or a lower bound that lets an HPA take some."""
    if change.kind in NOT_DECREASES:
        return False
    before, after = converging(change.target), asking(change)
    return after.replicas < max(before.replicas, change.replicas_from) or after.minimum < before.minimum


def check(change: Change, snapshot: Snapshot, ground: Ground, unseen: UnseenWrites) -> None:
    """Raise Refused (moved, floor, budget) unless `change` keeps floor and budget now."""
    unseen.forget(snapshot.at)
    if change.model not in ground.models:
        raise Refused("moved", f"{change.model} is no model of the policy any more")
    view = next((each for each in snapshot.models if each.id == change.model), None)
    if view is None or not any(_same(each, change.target) for each in view.targets):
        raise Refused("moved", f"{change.target.name} is no target of {change.model} any more")
    doomed = doomed_nodes(snapshot.notices, snapshot.pools, ground.policy.nodes, snapshot.at)
    first = frozenset(change.victims) if snapshot.marks_victims else ()
    check_floor(change, view, floor(change, snapshot, ground), doomed, unseen, first)
    check_losses(change, view, first)
    check_budget(change, snapshot, ground, doomed, unseen)
    check_ratio(change, snapshot, ground, doomed, unseen)


def rests_on_marks(change: Change, snapshot: Snapshot, ground: Ground, unseen: UnseenWrites) -> bool:
    """Whether a change that `check` lets pass would be refused if its victims could not be marked."""
    if not (change.victims and snapshot.marks_victims):
        return False
    try:
        check(change, replace(snapshot, marks_victims=False), ground, unseen)
    except Refused:
        return True
    return False


def floor(change: Change, snapshot: Snapshot, ground: Ground) -> int:
    """The model's floor now: the policy's, unless an override that says so by name decided this change.

    A plan that kept a higher one, as a schedule's, is held to it: its word may raise the floor, never lower it.
    """
    return max(_own_floor(change, snapshot, ground), change.floor)


def _own_floor(change: Change, snapshot: Snapshot, ground: Ground) -> int:
    own = ground.models[change.model].min_replicas
    if not (change.passes or "").startswith("override"):
        return own
    newest: dict[str, Override] = {}
    for one in sorted(snapshot.overrides, key=lambda each: each.created_at):
        if one.subject == change.model and one.expires_at > snapshot.at:
            newest[one.kind] = one
    decides = next((newest[kind] for kind in DECIDING if kind in newest), None)
    if decides is None or decides.value is None or not decides.allow_below_floor:
        return own
    return min(own, decides.value)


def check_floor(  # noqa: PLR0913  # what a floor is judged by
    change: Change, view: ModelView, least: int, doomed: Collection[str], unseen: UnseenWrites, first: Collection[str]
) -> None:
    """Raise Refused when the write itself would leave the model less than its floor.

    `first`: UIDs of the pods that a ReplicaSet is told to end first. Judged twice: by what its targets are asked for,
    doomed pods not counted, and by what their autoscalers may go down to. Asking for less because doomed pods are the
    ones to go takes nothing away.
    """
    own = next(target for target in view.targets if _same(target, change.target))
    others = [target for target in view.targets if not target.missing and target is not own]
    before, after = converging(change.target), asking(change)
    dying = doomed_pods(own, doomed)
    go = min(len(_named(dying, change, after.replicas)), max(0, before.replicas - after.replicas))
    stay = after.replicas - (len(dying) - go)
    stay += sum(max(0, unseen.least(each).replicas - len(doomed_pods(each, doomed))) for each in others)
    if before.replicas - after.replicas > go and stay < least:
        raise Refused("floor", f"{change.model} would keep {replicas(stay)}, and its floor is {least}")
    lowest = min(after.minimum, assured(own)) + sum(unseen.least(each).minimum for each in others)
    if before.minimum - after.minimum > go and lowest < least:
        raise Refused("floor", f"{change.model} could be scaled down to {replicas(lowest)}, and its floor is {least}")
    _check_serving(change, own, others, least, doomed, unseen, first)


def _named(dying: Iterable[PodView], change: Change, replicas: int) -> list[PodView]:
    """Those of the doomed pods that a decrease to `replicas` ends: as the plan chose them, or by their numbers."""
    if change.target.victims == "ordinal":
        return [pod for pod in dying if pod.ordinal is not None and pod.ordinal >= replicas]
    going = set(change.victims)
    return [pod for pod in dying if pod.uid in going]


def _check_serving(  # noqa: PLR0913  # what a floor is judged by
    change: Change,
    own: TargetView,
    others: Iterable[TargetView],
    least: int,
    doomed: Collection[str],
    unseen: UnseenWrites,
    first: Collection[str],
) -> None:
    """Raise Refused when the write takes a Ready replica, or lets an autoscaler take one, that the floor needs.

    Whatever was asked for: pods that failed since the plan was made serve nobody, in this target or in another one.
    """
    before, after = converging(own), asking(change)  # a write that may not have happened excuses no other one
    beside = [(each.pods, unseen.least(each)) for each in others]
    for was, then, theirs in (
        (before.replicas, after.replicas, sum(serving_after(pods, ask.replicas, doomed) for pods, ask in beside)),
        (before.minimum, after.minimum, sum(serving_after(pods, ask.minimum, doomed) for pods, ask in beside)),
    ):
        left = serving_after(own.pods, then, doomed, first)
        if left < serving_after(own.pods, was, doomed) and left + theirs < least:
            raise Refused(
                "floor",
                f"{change.model} would keep {counted(left + theirs, 'Ready replica')}, and its floor is {least}",
            )


def check_losses(change: Change, view: ModelView, first: Collection[str]) -> None:
    """Raise Refused when a decrease leaves fewer replicas that serve than it would have when the plan was made.

    What it gives was spare beside the others then. The floor alone would let the last spare ones go of a model whose
    others have just died; the next cycle plans with those that are left. `first`: as for `check_floor`.
    """
    if not decreases(change) or (change.passes or "").startswith(CERTAIN):
        return
    own, to = next(target for target in view.targets if _same(target, change.target)), asking(change).replicas
    left, planned = (serving_after(each.pods, to, (), first) for each in (own, change.target))
    if left < planned:
        what = f"{own.name} would keep {counted(left, 'Ready replica')}"
        raise Refused("moved", f"{what}, and {planned} when the plan was made")


def check_budget(
    change: Change, snapshot: Snapshot, ground: Ground, doomed: Collection[str], unseen: UnseenWrites
) -> None:
    """Raise Refused when the write raises what its target is asked for, and more is promised than there is.

    Judged twice: by all GPUs of the pool, and by those of nodes that are under no notice. Nothing new is granted on
    the others, so what is free there is no room for what others took elsewhere since the plan was made. A minimum that
    makes the target run what it was asked for anyway is judged by all of them, as it is planned.
    """
    view = next(each for each in snapshot.models if each.id == change.model)
    seen = next(target for target in view.targets if _same(target, change.target))
    own = unseen.with_most(seen)
    asked_anyway = peak_replicas(_after(change, seen)) <= peak_replicas(seen)
    if asked_anyway and not _runs_more(change, own):
        return  # as far as is known: a write that may not have happened excuses no other one
    then = _after(change, own)
    pool, nodes = ground.pools.get(own.pool), next((each for each in snapshot.pools if each.name == own.pool), None)
    if pool is None or nodes is None:
        raise Refused("budget", f"pool {own.pool} is unknown, so is its budget")
    unknown = unknown_gpus(pool, nodes)
    if unknown is not None and _runs_in(snapshot, pool.name):
        raise Refused("budget", unknown)
    by_policy, noticed = ground.gpus_per_pod, noticed_nodes(snapshot.notices)
    alike = {name for name, each in ground.pools.items() if each.resource == pool.resource}
    held = bound_gpus(snapshot, by_policy, alike)
    certain = bound_gpus(snapshot, by_policy, alike, certain_pod_gpus) if _differ(snapshot, by_policy, alike) else held
    free = most_free_gpus(nodes, held, noticed)
    rules, synced_at = ground.policy.nodes, snapshot.sync.synced_at
    models = _asked_in(pool.name, snapshot, unseen)
    nodes_out = {"": {*doomed}, " on nodes that stay": {*doomed, *noticed}}
    if asked_anyway or noticed <= nodes_out[""]:
        del nodes_out[" on nodes that stay"]  # of what is asked for anyway nothing is new there, or it is the same sum
    for where, out in nodes_out.items():
        stranded = stranded_pods(own, out, by_policy[change.model], free)
        more = promised_replicas(then, out, stranded) - promised_replicas(own, out, stranded)
        each = pod_gpus(own, by_policy[change.model]) * own.pods_per_replica
        promised = promised_gpus(models, pool.name, by_policy, out, free) + more * each
        budget = pool_gpus(pool, nodes, ground.grants, out, rules, snapshot.at, certain, synced_at).budget
        if promised > budget:
            what = f"{gpus(promised)} of pool {pool.name} would be promised{where}"
            raise Refused("budget", f"{what}, and its budget is {budget}")


def _runs_more(change: Change, target: TargetView) -> bool:
    """Whether its new minimum makes the target run more than it does, and than it was to run already.

    Somebody had let it go down to fewer than we asked for, and its GPUs may be another's by now.
    """
    autoscaler = bounding(target)
    if autoscaler is None:
        return False
    runs = max(target.replicas, autoscaler.minimum, autoscaler.effective_minimum, target.unconfirmed_replicas or 0)
    return asking(change).minimum > runs


def _differ(snapshot: Snapshot, by_policy: Mapping[str, int], pools: Collection[str]) -> bool:
    """Whether some pods of these pools hold fewer GPUs for certain than they count for: most often none do."""
    return any(
        pod_gpus(target, by_policy.get(model.id, 0)) != certain_pod_gpus(target, by_policy.get(model.id, 0))
        for model in snapshot.models
        for target in model.targets
        if target.pool in pools
    )


def _asked_in(pool: str, snapshot: Snapshot, unseen: UnseenWrites) -> list[ModelView]:
    """The models with targets in the pool, and only these, with what we wrote a moment ago.

    A model that has just left the policy still holds what its pods hold.
    """
    there = ((model, [each for each in model.targets if each.pool == pool]) for model in snapshot.models)
    return [replace(model, targets=tuple(map(unseen.with_most, own))) for model, own in there if own]


def _after(change: Change, target: TargetView) -> TargetView:
    """The target on its way to what it has been asked for, and to what `change` asks for."""
    return replace(target, unconfirmed_replicas=max(peak_replicas(target), asking(change).replicas))


def _runs_in(snapshot: Snapshot, pool: str) -> bool:
    targets = (target for model in snapshot.models for target in model.targets if target.pool == pool)
    return any(pod.nodes for target in targets for pod in target.pods)


def check_ratio(
    change: Change, snapshot: Snapshot, ground: Ground, doomed: Collection[str], unseen: UnseenWrites
) -> None:
    """Raise Refused when the write takes two roles out of their ratio, or further out of it.

    Doomed replicas do not count, nor does a number that comes back (`settle`): nobody goes by it. The other role counts
    with the least and with the most that it may be asked for by now.
    """
    couple = ground.couples.get(change.model)
    if couple is None or change.kind == "settle":
        return
    views = {each.id: each.targets for each in snapshot.models}
    own = next(target for target in views[change.model] if _same(target, change.target))
    dying = doomed_pods(own, doomed)
    before, after = converging(change.target).replicas, asking(change).replicas
    go = min(len(_named(dying, change, after)), max(0, before - after))
    beside = [each for each in views[change.model] if each is not own]
    beside_replicas = sum(
        max(0, unseen.least(each).replicas - len(doomed_pods(each, doomed))) for each in beside
    ) - len(dying)
    others = views.get(couple.other(change.model), ())
    gone = sum(len(doomed_pods(each, doomed)) for each in others)
    least = sum(unseen.least(each).replicas for each in others) - gone
    most = sum(converging(unseen.with_most(each)).replicas for each in others) - gone
    for theirs in {max(0, least), max(0, most)}:
        if not couple.bears(change.model, beside_replicas + before, beside_replicas + after + go, [theirs]):
            has = f"{change.model} would have {replicas(beside_replicas + after + go)}"
            raise Refused("ratio", f"{has}, and {couple.words(change.model, theirs)}")


def check_limit(change: NodePoolChange, ground: Ground) -> None:
    """Raise Refused when a NodePool's limit would exceed what the policy lets us ask Karpenter for."""
    if change.kind != "limit":
        return
    pool = ground.pools.get(change.pool)
    if pool is None or change.name not in pool.node_pools:
        raise Refused("budget", f"NodePool {change.name} is behind no pool of the policy")
    if change.limit_to is None or change.limit_to > pool.gpu_limit:
        raise Refused(
            "budget", f"limit {change.limit_to} is beyond the {pool.gpu_limit} GPUs of {pool.name} in the policy"
        )


def check_node_pool(change: NodePoolChange, snapshot: Snapshot) -> None:
    """Raise Refused when the policy in force has left the NodePool out since the plan: it is being given back."""
    if not any(view.name == change.name for pool in snapshot.pools for view in pool.node_pools):
        raise Refused("moved", f"NodePool {change.name} is behind no pool of the policy any more")


def _same(one: TargetView, other: TargetView) -> bool:
    return (one.namespace, one.kind, one.name) == (other.namespace, other.kind, other.name)
