"""One model's page: its signals, its replicas, its last hour, and whether more GPUs would help."""

from msgspec import Struct, field

from rebalancer.api.pages.more_gpus import MoreGpus
from rebalancer.api.ports.timeline import Point, TimelineEvent
from rebalancer.domain.instant import Instant
from rebalancer.domain.people import Override
from rebalancer.domain.plan import ModelDecision, Refusal, Unmet


class SignalRow(Struct, frozen=True):
    """One signal of a model, as it voted in the last cycle.

    signal: name of the signal, as in the policy.
    reading: what was measured, in words; `idle` where the model is idle, so that nobody measures it. None where there
        is no reading, or the reading may not vote.
    vote: replicas that it asks for, None where it has no vote.
    age_seconds: age of the reading in seconds, None where there is no reading.
    why: why it has no vote, "" where it has one.
    """

    signal: str
    reading: str | None
    vote: int | None
    age_seconds: float | None
    why: str = ""


class ReplicaRow(Struct, frozen=True):
    """One replica: a pod, or several that serve together.

    name: name of the pod; of several pods the leading one's.
    node: name of its node, or names of its nodes joined by commas; None before it has one.
    pool: name of the pool.
    state: pending, loading, ready, lost, terminating, or doomed, which stands for any of the others but terminating.
    since: when it became Ready, or its deletion was requested, or else when it was created.
    lender: id of the model whose GPUs it has, or name of the pool where nobody owns them, as on an elastic pool; ""
        where they are its model's own.
    requests: requests in flight on it, None where samples do not come per pod.
    """

    name: str
    node: str | None
    pool: str
    state: str
    since: Instant
    lender: str = ""
    requests: float | None = None


class ModelPage(Struct, frozen=True):
    """One model of the policy.

    at: the service's clock when the page was made.
    cycle: number of the cycle that made the plan.
    decision: what that plan decides about the model.
    namespace: namespace of its targets.
    workload_class: its class in the policy.
    team: who owns it, "" where the policy names nobody.
    priority: weight of its need against that of others.
    actuation: how its targets are moved: bounds, scale or metric.
    unmet: what it is short of, at most one entry; empty where it is not short.
    refusals: moves of its own that guards declined; where it lacks GPUs also releases by models that share a pool.
    explanation: the lines that `rebalancer explain` prints.
    signals: its signals, in the policy's order.
    replicas: its replicas, by pool, node and name.
    chart: its last 60 minutes, oldest first, a point for each minute.
    timeline: what happened to it in the last 30 minutes, oldest first; the newest 500.
    overrides: overrides on it that have not expired, the soonest to end first.
    summary: how it is, in one sentence.
    changes_when: what would change that, a sentence each.
    most: the policy's maxReplicas.
    more_gpus: whether more GPUs would help it; None in a page that was made without that answer.
    """

    at: Instant
    cycle: int
    decision: ModelDecision
    namespace: str
    workload_class: str
    team: str
    priority: int
    actuation: str
    unmet: tuple[Unmet, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    explanation: tuple[str, ...] = ()
    signals: tuple[SignalRow, ...] = ()
    replicas: tuple[ReplicaRow, ...] = ()
    chart: tuple[Point, ...] = ()
    timeline: tuple[TimelineEvent, ...] = field(default=(), name="happenings")
    overrides: tuple[Override, ...] = ()
    summary: str = ""
    changes_when: tuple[str, ...] = ()
    most: int | None = None
    more_gpus: MoreGpus | None = None
