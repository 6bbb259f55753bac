"""One model's page: what it holds and needs, how it is seen, why, and its last hour."""

from collections.abc import Iterator

from rebalancer.api.pages.gpu_tiles import due, lenders, pod_state
from rebalancer.api.pages.overview import newest, running_overrides
from rebalancer.api.pages.values.model import ModelPage, ReplicaRow, SignalRow
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.ports.timeline import Point
from rebalancer.api.text.explain import concerning, render_explain
from rebalancer.api.text.printed import printed
from rebalancer.api.text.summary import changes_when, summary
from rebalancer.api.text.words import printable
from rebalancer.domain.plan import ModelDecision, Plan
from rebalancer.domain.policy import Model
from rebalancer.domain.readings import ModelLoad, NoReading, Reading
from rebalancer.domain.snapshot import ModelView, Snapshot
from rebalancer.domain.words import figure, seconds
from rebalancer.planning.demand.demand import rules_of
from rebalancer.planning.demand.votes import Ballot, poll

RATIOS = {"kvCache", "utilisation"}


def model_page(
    data: PageData, plan: Plan, model: Model, decision: ModelDecision, chart: tuple[Point, ...]
) -> ModelPage:
    """The page of `model`, of which `plan` holds `decision`."""
    view = {each.id: each for each in data.snapshot.models}.get(model.id, ModelView(id=model.id, targets=()))
    lacks = next((row for row in plan.unmet if row.model == model.id), None)
    refusals = concerning(plan, data.snapshot, view, decision)
    load, ballot = _load(data.snapshot, model.id), _ballot(data, model, view)
    overrides = running_overrides(data.status, model.id)
    changes = changes_when(model, decision, data.snapshot, plan.models, data.loans, refusals, overrides)
    return ModelPage(
        at=data.status.at,
        cycle=plan.cycle,
        decision=printed(decision),
        namespace=model.namespace,
        workload_class=model.workload_class,
        team=printed(model.team),
        priority=model.priority,
        actuation=model.actuation,
        unmet=printed((lacks,)) if lacks else (),
        refusals=printed(tuple(refusals)),
        explanation=tuple(render_explain(plan, data.snapshot, model.id, data.refusals).splitlines()),
        signals=tuple(_signal(signal, load, ballot, data.status.at) for signal in model.signals.configured),
        replicas=tuple(sorted(_replicas(data, view), key=lambda row: (row.pool, row.node or "", row.name))),
        chart=chart,
        timeline=newest(data.timeline, model.id),
        overrides=overrides,
        summary=summary(model, decision, load, ballot, lacks, data.status.at),
        changes_when=tuple(printable(each) for each in changes),
        most=model.max_replicas,
    )


def _ballot(data: PageData, model: Model, view: ModelView) -> Ballot:
    """The votes of every configured signal, as in the last cycle."""
    load = _load(data.snapshot, model.id)
    ready = sum(pod.phase == "ready" for target in view.targets for pod in target.pods)
    return poll(model, load, ready, rules_of(data.policy, model), data.policy.guards.blind, data.snapshot.at)


def _load(snapshot: Snapshot, model: str) -> ModelLoad:
    return next((load for load in snapshot.loads if load.model == model), ModelLoad(model=model))


def _signal(signal: str, load: ModelLoad, ballot: Ballot, now: float) -> SignalRow:
    """One signal as it voted in the last cycle; its age is of `now`."""
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
    return SignalRow(signal, _words(signal, reading), vote.replicas, age)


def _words(signal: str, reading: Reading) -> str:
    """A reading for people."""
    if signal in RATIOS:
        return f"{reading.value:.0%}"
    return seconds(reading.value, above=reading.above) if signal == "latency" else figure(reading.value)


def _replicas(data: PageData, view: ModelView) -> Iterator[ReplicaRow]:
    doomed = due(data.snapshot)
    lent = lenders((view,), data.loans, doomed)
    requests = _load(data.snapshot, view.id).pod_requests
    for target in view.targets:
        for pod in target.pods:
            yield ReplicaRow(
                name=printed(pod.name),
                node=printed(", ".join(dict.fromkeys(pod.nodes)) or None),
                pool=target.pool,
                state=pod_state(pod, doomed),
                since=pod.since,
                lender=lent.get(pod.uid, ""),
                requests=requests.get(pod.uid),
            )
