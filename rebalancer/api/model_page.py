"""One model's page: what it holds and needs, how it is seen, why, and its last hour."""

from collections.abc import Iterator

from rebalancer.api.look import Look
from rebalancer.api.overview import newest, running_overrides
from rebalancer.api.pages import ModelPage, Point, ReplicaRow, SignalRow
from rebalancer.api.text.explain import concerning, render_explain
from rebalancer.api.text.printed import printed
from rebalancer.api.tiles import due, lenders, pod_state
from rebalancer.domain.plan import ModelDecision, Plan
from rebalancer.domain.policy import Model
from rebalancer.domain.readings import ModelLoad, NoReading
from rebalancer.domain.snapshot import ModelView, Snapshot
from rebalancer.domain.words import figure
from rebalancer.planning.demand.demand import rules_of
from rebalancer.planning.demand.votes import Ballot, poll

RATIOS = {"kvCache", "utilisation"}


def model_page(look: Look, plan: Plan, model: Model, decision: ModelDecision, chart: tuple[Point, ...]) -> ModelPage:
    """The page of `model`, of which `plan` holds `decision`."""
    view = {each.id: each for each in look.snapshot.models}.get(model.id, ModelView(id=model.id, targets=()))
    lacks = next((row for row in plan.unmet if row.model == model.id), None)
    return ModelPage(
        at=look.status.at,
        cycle=plan.cycle,
        decision=printed(decision),
        namespace=model.namespace,
        workload_class=model.workload_class,
        team=printed(model.team),
        priority=model.priority,
        actuation=model.actuation,
        unmet=printed((lacks,)) if lacks else (),
        refusals=printed(tuple(concerning(plan, look.snapshot, view, lacks))),
        explanation=tuple(render_explain(plan, look.snapshot, model.id).splitlines()),
        signals=tuple(_signals(look, model, view)),
        replicas=tuple(sorted(_replicas(look, view), key=lambda row: (row.pool, row.node or "", row.name))),
        chart=chart,
        happenings=newest(look.happenings, model.id),
        overrides=running_overrides(look.status, model.id),
    )


def _signals(look: Look, model: Model, view: ModelView) -> Iterator[SignalRow]:
    """Every configured signal as it voted in the last cycle; its age is of now."""
    load = _load(look.snapshot, model.id)
    ready = sum(pod.phase == "ready" for target in view.targets for pod in target.pods)
    blind = look.policy.guards.blind
    ballot = poll(model, load, ready, rules_of(look.policy, model), blind, look.snapshot.at)
    for signal in model.signals.configured:
        yield _signal(signal, load, ballot, look.status.at)


def _load(snapshot: Snapshot, model: str) -> ModelLoad:
    return next((load for load in snapshot.loads if load.model == model), ModelLoad(model=model))


def _signal(signal: str, load: ModelLoad, ballot: Ballot, now: float) -> SignalRow:
    vote = next((each for each in ballot.votes if each.signal == signal), None)
    why = dict(ballot.abstained).get(signal, "")
    if vote is not None and vote.value is None:
        return SignalRow(signal, "idle", vote.replicas, vote.age(now))
    reading = load.signals.get(signal, NoReading(why="never-seen"))
    if isinstance(reading, NoReading):
        return SignalRow(signal, None, None, None, why or reading.why)
    age = max(0.0, now - reading.at)
    if vote is None:  # what may not vote may not be read as if it were so: why it has no vote says what was seen
        return SignalRow(signal, None, None, age, why)
    return SignalRow(signal, _words(signal, reading.value), vote.replicas, age)


def _words(signal: str, value: float) -> str:
    """A reading for people."""
    if signal in RATIOS:
        return f"{value:.0%}"
    return f"{figure(value)} s" if signal == "latency" else figure(value)


def _replicas(look: Look, view: ModelView) -> Iterator[ReplicaRow]:
    doomed = due(look.snapshot)
    lent = lenders((view,), look.loans, doomed)
    requests = _load(look.snapshot, view.id).pod_requests
    for target in view.targets:
        for pod in target.pods:
            yield ReplicaRow(
                name=printed(pod.name),
                node=printed(pod.node),
                pool=target.pool,
                state=pod_state(pod, doomed),
                since=pod.since,
                lender=lent.get(pod.uid, ""),
                requests=requests.get(pod.uid),
            )
