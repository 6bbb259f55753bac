"""What fails on one family of pools costs its models their decisions, and nobody else.

A stage that raises is a defect of ours, or a fact that nobody foresaw. Where pools share something (`facts.families`)
nothing can be said of one without the others; all others get the plan that they would get if those were not there.
Each family is planned by itself to find out which it is, so such a cycle costs up to three plans, without what the
cycle before left. A family of which a model or pool could not even be looked at (`Snapshot.unseen`) is not tried. Where
no family fails by itself, or each one does, the cycle fails as a whole.
"""

from collections.abc import Iterable
from dataclasses import replace as changed
from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.arithmetic import converging
from rebalancer.domain.memory import Memory
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Decision, ModelDecision, Unplanned
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.snapshot import ModelView, Snapshot
from rebalancer.domain.sync import Unseen
from rebalancer.planning import planner
from rebalancer.planning.explanation.lacks import by_model
from rebalancer.planning.facts.families import PoolFamily, families
from rebalancer.planning.memo import Memo
from rebalancer.planning.memory.outcomes import recall
from rebalancer.planning.planner import Unexplained


class NotSeenError(Exception):
    """A model or a pool could not be looked at, so that nothing can be said of its family."""


class PlanInput(NamedTuple):
    """All that a plan is made from."""

    snapshot: Snapshot
    policy: Policy
    memory: Memory


def plan_apart(snapshot: Snapshot, policy: Policy, memory: Memory, memo: Memo | None = None) -> Decision:
    """As `planner.plan`, with families of pools apart."""
    return decide_apart(snapshot, policy, memory, memo).explained().decision


def decide_apart(snapshot: Snapshot, policy: Policy, memory: Memory, memo: Memo | None = None) -> Unexplained:
    """As `planner.decide`; families on which it raises, or that were not seen, are left as they are.

    `Plan.unplanned` tells of them. Raises what `planner.decide` raises, or NotSeenError, where none would be left.
    """
    given = PlanInput(snapshot, policy, memory)
    try:
        return _whole(given, memo)
    except Exception as error:
        if memo is not None:
            memo.forget()
        kin = families(snapshot, policy)
        failures = [(family, why) for family in kin if (why := _failure(family, kin, given)) is not None]
        if not failures or len(failures) == len(kin):
            raise
        return _with_unplanned(failures, given, error)


def _whole(given: PlanInput, memo: Memo | None) -> Unexplained:
    """The decision for all families together. Raises NotSeenError where one of them was not seen."""
    if given.snapshot.unseen:
        raise _not_seen(given.snapshot.unseen[0])
    return planner.decide(*given, memo)


def _failure(family: PoolFamily, kin: tuple[PoolFamily, ...], given: PlanInput) -> Exception | None:
    """Why `family` cannot be planned: what of it was not seen, or what planning it by itself raises; None: it can."""
    for each in given.snapshot.unseen:
        if not family.pools.isdisjoint(each.pools):
            return _not_seen(each)
    others = _together(each for each in kin if each is not family)
    try:
        planner.decide(*_without(others, given))
    except Exception as error:  # noqa: BLE001  # whatever it is, it is this family's, and it is told
        return error
    return None


def _not_seen(unseen: Unseen) -> NotSeenError:
    return NotSeenError(f"{unseen.kind} {unseen.name} could not be looked at: {unseen.why}")


def _with_unplanned(failures: list[tuple[PoolFamily, Exception]], given: PlanInput, error: Exception) -> Unexplained:
    """The decision for all families but those that fail, whose models keep what they have."""
    away = _together(family for family, _ in failures)
    try:
        rest = planner.decide(*_without(away, given))
    except Exception:  # noqa: BLE001  # it was not these families alone
        raise error from None
    unplanned = tuple(
        Unplanned(tuple(sorted(family.pools)), tuple(sorted(family.models)), f"{type(why).__name__}: {why}")
        for family, why in failures
    )
    orders = Decision(replace(rest.orders.plan, unplanned=unplanned), _remembered(away, given, rest.orders.memory))
    left_alone = tuple(
        _left_alone(one, given, each.why) for each in unplanned for one in given.policy.models if one.id in each.models
    )
    return changed(rest, orders=orders, left_alone=left_alone, failures=tuple(why for _, why in failures))


def _together(kin: Iterable[PoolFamily]) -> PoolFamily:
    """Several families as one."""
    all_of = tuple(kin)
    return PoolFamily(
        frozenset(pool for each in all_of for pool in each.pools),
        frozenset(model for each in all_of for model in each.models),
    )


def _without(away: PoolFamily, given: PlanInput) -> PlanInput:
    """What is given, as if the pools and models of `away` were not there.

    Planning itself drops views of what is not in the policy, and what memory has of it.
    """
    snapshot, policy, memory = given
    nodes = _nodes(away, snapshot)
    return PlanInput(
        replace(
            snapshot,
            overrides=tuple(one for one in snapshot.overrides if not _about(one, away, nodes)),
            notices=tuple(notice for notice in snapshot.notices if notice.node not in nodes),
        ),
        policy.model_copy(
            update={
                "pools": tuple(pool for pool in policy.pools if pool.name not in away.pools),
                "models": tuple(model for model in policy.models if model.id not in away.models),
            }
        ),
        replace(
            memory,
            shifts=tuple(shift for shift in memory.shifts if shift.pool not in away.pools),
            accounts=tuple(one for one in memory.accounts if one.pool not in away.pools),
        ),
    )


def _nodes(away: PoolFamily, snapshot: Snapshot) -> frozenset[str]:
    return frozenset(node.name for view in snapshot.pools if view.name in away.pools for node in view.nodes)


def _about(one: Override, away: PoolFamily, nodes: frozenset[str]) -> bool:
    if one.named_model in away.models:
        return True
    return one.subject in {"pool": away.pools, "node": nodes}.get(one.subject_kind, frozenset())


def _remembered(away: PoolFamily, given: PlanInput, rest: Memory) -> Memory:
    """`rest`, and of `away` what was remembered before, with what became of its writes.

    Guards' windows rest on that.
    """
    snapshot, policy, memory = given
    before = recall(memory, snapshot.outcomes, policy, snapshot.at)
    nodes = _nodes(away, snapshot)
    overrides = {one.uid for one in snapshot.overrides if _about(one, away, nodes)}
    bring = {name for pool in policy.pools if pool.name in away.pools for name in pool.brings_nodes}
    models = rest.models | {name: each for name, each in before.models.items() if name in away.models}
    decided = (*rest.overrides, *(one for one in before.overrides if one.uid in overrides))
    return replace(
        rest,
        models={name: models[name] for name in sorted(models)},
        loans=(*rest.loans, *(loan for loan in before.loans if loan.pool in away.pools)),
        shifts=tuple(
            sorted(
                (*rest.shifts, *(shift for shift in before.shifts if shift.pool in away.pools)),
                key=lambda shift: (shift.opened_at, shift.id),
            )
        ),
        node_grants=(*rest.node_grants, *(one for one in before.node_grants if one.pool in away.pools)),
        grant_failures=(
            *(one for one in rest.grant_failures if one.node_pool not in bring),
            *(one for one in before.grant_failures if one.node_pool in bring),
        ),
        overrides=tuple(sorted(decided, key=lambda one: one.uid)),
        accounts=(*rest.accounts, *(one for one in before.accounts if one.pool in away.pools)),
    )


def _left_alone(model: Model, given: PlanInput, why: str) -> ModelDecision:
    """What is told of a model for which nothing is decided: it keeps what it has."""
    snapshot = given.snapshot
    view = next((each for each in snapshot.models if each.id == model.id), ModelView(model.id, ()))
    due = {notice.node for notice in snapshot.notices if notice.counts(snapshot.at)}
    staying = [pod.phase for target in view.targets for pod in target.pods if not pod.on(due)]
    doomed = sum(pod.on(due) for target in view.targets for pod in target.pods if pod.phase != "terminating")
    replicas = max(0, sum(converging(target) for target in view.targets) - doomed)
    lent, _, borrowed = by_model(given.memory.loans)
    return ModelDecision(
        model=model.id,
        demand=None,
        allocation=replicas,
        granted=replicas,
        ready=staying.count("ready"),
        loading=staying.count("pending") + staying.count("loading"),
        doomed=doomed,
        floor=model.min_replicas,
        surge=False,
        lent=lent[model.id],
        borrowed=borrowed[model.id],
        unowned=sum(loan.owner is None for loan in given.memory.loans if loan.borrower == model.id),
        why=f"is left as it is: {why}",
    )
