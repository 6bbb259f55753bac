"""Figures of a plan, and of the world that it was made from."""

from collections import Counter
from collections.abc import Iterable, Iterator

from rebalancer.domain.arithmetic import doomed_pods
from rebalancer.domain.drain import dated
from rebalancer.domain.memory import Memory, Replaced
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.starts import MIDDLE, SLOW
from rebalancer.ledger.books import MICRO, Books
from rebalancer.ledger.inventory import charged_to, prices
from rebalancer.obs.metrics.catalogue import MODEL_STATES, POOL_STATES
from rebalancer.obs.metrics.figure import Figure
from rebalancer.obs.predictions import DayPrediction
from rebalancer.planning.demand.votes import usable
from rebalancer.planning.guards.guards import EVERY_GUARD


def plan_figures(plan: Plan, now: float, *, sees_replicas: bool = True) -> Iterator[Figure]:
    """What the last plan says; models and pools that left the policy are not in it any more.

    Before `sees_replicas` none is counted: 0 would be told to people as a model below its floor.
    """
    yield Figure("rebalancer_plan_timestamp_seconds", plan.at)
    refusals = Counter(refusal.guard for refusal in plan.refusals)
    yield from (Figure("rebalancer_refusals", refusals[guard], (guard,)) for guard in EVERY_GUARD)
    short = {one.model: one for one in plan.unmet}
    fought = {refusal.subject for refusal in plan.refusals if refusal.guard == "foreign"}
    for model in plan.models:
        name, unmet = model.model, short.get(model.model)
        if sees_replicas:
            yield from _states("rebalancer_model_replicas", name, model, MODEL_STATES)
        yield Figure("rebalancer_model_blind", model.demand is None, (name,))
        yield Figure("rebalancer_foreign_writer", name in fought, (name,))
        yield Figure("rebalancer_unmet_replicas", unmet.replicas if unmet else 0, (name,))
        yield Figure("rebalancer_unmet_seconds", max(0.0, now - unmet.since) if unmet else 0, (name,))
    for pool in plan.pools:
        yield from _states("rebalancer_pool_gpus", pool.pool, pool, POOL_STATES)
        yield Figure("rebalancer_pool_budget_known", pool.budget is not None, (pool.pool,))


def ledger_figures(books: Books, policy: Policy) -> Iterator[Figure]:
    """GPU-seconds since this process leads, and what they cost then; nothing of models and pools that left the policy.

    What has no price now is absent, whatever it cost before.
    """
    pools = {pool.name for pool in policy.pools}
    priced = prices({shelf for _, shelf, _, _ in books.charged}, policy)
    charged = {model.id: (model.team, charged_to(model)) for model in policy.models} | {"": ("", "")}
    sums: Counter[tuple[str, str, str]] = Counter()
    usd: dict[tuple[str, str, str], float | None] = {}
    for (_, shelf, model, state), amount in books.charged.items():
        if shelf.pool in pools and model in charged:
            held = (shelf.pool, model, state)
            sums[held] += amount
            known = usd.get(held, 0.0)
            usd[held] = None if shelf not in priced or known is None else known + books.usd[shelf, model, state]
    for held, amount in sums.items():
        pool, model, state = held
        labels = (pool, model, *charged[model], state)
        yield Figure("rebalancer_gpu_seconds_total", amount / MICRO, labels)
        cost = usd[held]
        if cost is not None:
            yield Figure("rebalancer_gpu_cost_usd_total", cost, labels)


def latency_figures(snapshot: Snapshot, policy: Policy) -> Iterator[Figure]:
    """How long requests take, and how long they may."""
    for load in snapshot.loads:
        latency = usable(load, "latency", policy.guards.blind, snapshot.at)
        if latency is not None:
            yield Figure("rebalancer_model_latency_seconds", latency, (load.model,))
    for model in policy.models:
        if model.slo is not None:
            for name in (model.id, *model.aliases):
                labels = (model.id, model.namespace, name)
                yield Figure("rebalancer_model_slo_seconds", model.slo.latency_seconds, labels)


def prediction_figures(predictions: Iterable[DayPrediction], policy: Policy) -> Iterator[Figure]:
    """How far the newest prediction of each model was off, of all oldest first; nothing of models that left."""
    models = {model.id for model in policy.models}
    newest = {each.model: each for each in predictions if each.model in models}
    for name, each in newest.items():
        for quantity, error in (("late-requests", each.late_error), ("gpu-hours", each.gpu_hours_error)):
            if error is not None:
                yield Figure("rebalancer_prediction_error_ratio", error, (name, quantity))


def start_figures(snapshot: Snapshot) -> Iterator[Figure]:
    """How long the last starts took."""
    for model in snapshot.models:
        for each in model.starts:
            of = model.id, each.pool, each.kind
            yield Figure("rebalancer_start_seconds", each.median_seconds, (*of, str(MIDDLE)))
            yield Figure("rebalancer_start_seconds", each.slow_seconds, (*of, str(SLOW)))


def _states(metric: str, name: str, figures: object, states: Iterable[str]) -> Iterator[Figure]:
    for state in states:
        value = getattr(figures, state)
        if value is not None:
            yield Figure(metric, value, (name, state))


def notice_figures(snapshot: Snapshot, memory: Memory) -> Iterator[Figure]:
    """Replicas that go with their node and have no replacement; a voluntary disruption brings its own.

    Before a notice has come to its time nobody is to replace them. How long is left only a deadline says that is one.
    """
    due = (notice for notice in snapshot.notices if notice.counts(snapshot.at) and not notice.voluntary)
    notices = {notice.node: notice for notice in due}
    for model in snapshot.models:
        known = memory.models.get(model.id)
        replaced = {one.pod for one in map(Replaced.of, known.replaced)} if known else set()
        going = [pod for target in model.targets for pod in doomed_pods(target, notices) if pod.uid not in replaced]
        yield Figure("rebalancer_notice_unreplaced_replicas", len(going), (model.id,))
        nodes = {node for pod in going for node in pod.nodes}
        deadlines = [notice.deadline for node, notice in notices.items() if node in nodes and dated(notice)]
        if deadlines:
            yield Figure("rebalancer_notice_left_seconds", min(deadlines) - snapshot.at, (model.id,))
