"""What the console shows, as values: one overview, one model, one pool. Counted here, once, for every reader.

Times are instants (UTC epoch seconds in memory, RFC 3339 on the wire); unknown is None, never zero.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from rebalancer.api.pages.badges import Badge
from rebalancer.api.pages.more_gpus import MoreGpus
from rebalancer.api.ports.timeline import DecisionRow, Point, TimelineEvent
from rebalancer.domain.account import NoticeAccount
from rebalancer.domain.instant import Instant
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.plan import Change, DrainChange, ModelDecision, Plan, Refusal, Unmet
from rebalancer.domain.snapshot import NoticeView, Snapshot, Sync
from rebalancer.survey.finding import Finding

# One character per GPU on the wire, first match: 10,000 GPUs are 10 KB.
UNKNOWN, OTHER, DOOMED, LOADING, LENT, OWNED, CLOSED, FREE = "?ox/+#-."


PageNumber = Annotated[int, Meta(ge=1, le=1000, description="which page, from 1")]


class WayOut(Struct, frozen=True):
    """What a person may do about a need. `said`: in a few words; `command`: the same, or the way to find out more.

    `kind`: the override to look at first, "" where only a command helps, `end` to end the one on `model`; `model`: whom
    it is about, "" where a person has to choose; `value`: its replicas, None where it has none.
    """

    said: str
    command: str
    kind: str = ""
    model: str = ""
    value: int | None = None


class AttentionItem(Struct, frozen=True):
    """One thing a person should look at. `severity`: critical or warning; `until`: when it comes or ends (None: open).

    `model`, `pool`, `node`: what it is about, for links. `impact`: who notices, and how much, "" where nobody does or
    nobody knows; `since`: since when (None: not known). `way_out`: what to do, None where it ends by itself.
    """

    severity: str
    text: str = field(name="said")
    until: Instant | None = None
    model: str | None = None
    pool: str | None = None
    node: str | None = None
    impact: str = ""
    since: Instant | None = None
    way_out: WayOut | None = None


class Seated(Struct, frozen=True):
    """`gpus` neighbouring devices under one pod, or under none (`model` ""). `lender`: as in ReplicaRow."""

    gpus: int
    model: str = ""
    lender: str = ""


class NodeTiles(Struct, frozen=True):
    """A node's GPUs by device, one character each (see the constants above). `seated`: who has them, by device.

    Empty in pools above 256 GPUs, whose pictures have no room for names.
    """

    name: str
    gpus: str
    ready: bool = True
    doomed_at: Instant | None = None
    seated: tuple[Seated, ...] = ()


class PoolRow(Struct, frozen=True):
    """A pool's counts and tiles. `counts`: state word -> GPUs, zeros omitted. `nodes` empty above 512 nodes.

    State words: owned, lent, loading, doomed, other, closed, free, unknown. `nodes_total`: how many nodes there are.
    """

    name: str
    kind: str
    gpus: int | None
    counts: dict[str, int]
    nodes: tuple[NodeTiles, ...] = ()
    nodes_total: int = 0


class ModelRow(Struct, frozen=True):
    """One line of the models table; `next_at`: when the thing it waits for comes by itself.

    `on_loan`: Ready replicas beyond its own GPUs, as pools draw them, `unowned` of them on GPUs that nobody owns.
    `headroom`: replicas that it would use, though in time.
    `most`: the policy's maxReplicas, None where the policy has no such model any more.
    """

    model: str
    demand: int | None
    allocation: int
    ready: int
    loading: int
    doomed: int
    floor: int
    lent: int
    borrowed: int
    unmet: int
    why: str
    surge: bool = False
    next_at: Instant | None = None
    workload_class: str = ""
    namespace: str = ""
    on_loan: int = 0
    headroom: int = 0
    most: int | None = None
    unowned: int = 0


class Overview(Struct, frozen=True):
    """Everything the first page needs, at one instant. The stream sends the same value; its id is `epoch-cycle`.

    `models`: the page asked for, trouble first; `models_total`: how many match. `timeline`: 30 minutes, oldest
    first, the newest 500. `overrides`: those that have not expired, with what the last cycle said of each. `badges`: of
    models that pools' tiles name.
    """

    epoch: str
    cluster: str
    instance: str
    leader: str
    write_mode: str
    at: Instant
    cycle: int
    plan_at: Instant | None
    sync: Sync
    writes_stopped: WriteStop | None = None
    policy_problems: tuple[str, ...] = ()
    attention: tuple[AttentionItem, ...] = field(default=(), name="needs")
    pools: tuple[PoolRow, ...] = ()
    models: tuple[ModelRow, ...] = ()
    models_total: int = 0
    timeline: tuple[TimelineEvent, ...] = field(default=(), name="happenings")
    overrides: tuple[Override, ...] = ()
    policy_refused: tuple[str, ...] = ()
    badges: dict[str, Badge] = {}


class Beat(Struct, frozen=True):
    """What the stream sends every 5 s as event `beat`: the server's time, and how old what it shows is."""

    at: Instant
    cycle: int
    plan_at: Instant | None


class SignalRow(Struct, frozen=True):
    """One signal of a model: its reading in words, its vote in replicas, the age in seconds; None = it has none."""

    signal: str
    reading: str | None
    vote: int | None
    age_seconds: float | None
    why: str = ""


class ReplicaRow(Struct, frozen=True):
    """One pod. `state`: pending, loading, ready, doomed, terminating; `lender`: whose GPUs it has, "" when its own.

    Of GPUs that nobody owns, as an elastic pool's, it is the pool. `requests`: in flight, None where samples do not
    come per pod.
    """

    name: str
    node: str | None
    pool: str
    state: str
    since: Instant
    lender: str = ""
    requests: float | None = None


class ModelPage(Struct, frozen=True):
    """One model. `explanation`: the lines `rebalancer explain` prints. `chart`: at most 120 points of 60 minutes.

    `summary`: how it is, in one sentence; `changes_when`: what would change that, a sentence each. `most`: maxReplicas.
    `more_gpus`: whether more GPUs would help.
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


class PodRow(Struct, frozen=True):
    """One pod on a node of a pool; `state` and `lender` as in ReplicaRow."""

    name: str
    model: str
    gpus: int
    state: str
    since: Instant
    lender: str = ""


class NodeRow(Struct, frozen=True):
    """One node: its GPUs one character each, who holds them. `foreign_gpus`: held by pods that are no model's.

    `refused`: why devices that it offers do not count, "" where all do.
    """

    name: str
    gpus: str
    ready: bool
    schedulable: bool
    foreign_gpus: int
    doomed_at: Instant | None = None
    pods: tuple[PodRow, ...] = ()
    refused: str = ""
    seated: tuple[Seated, ...] = ()


class LoanRow(Struct, frozen=True):
    """One replica of `borrower` beyond its own GPUs; `lender` as in ReplicaRow."""

    borrower: str
    lender: str
    gpus: int
    at: Instant


class PoolPage(Struct, frozen=True):
    """One pool. `budget`: GPUs that may be used, `promised`: what our targets ask for; None = unknown.

    `nodes`: the page asked for, 64 each, by name; `nodes_total`: how many there are.
    """

    at: Instant
    cycle: int
    name: str
    kind: str
    resource: str
    capacity_type: str
    price_per_gpu_hour: float
    gpu_limit: int
    node_pools: tuple[str, ...]
    gpus: int | None
    counts: dict[str, int]
    budget: int | None = None
    promised: int | None = None
    nodes: tuple[NodeRow, ...] = ()
    nodes_total: int = 0
    loans: tuple[LoanRow, ...] = ()
    notices: tuple[NoticeView, ...] = ()
    timeline: tuple[TimelineEvent, ...] = field(default=(), name="happenings")
    badges: dict[str, Badge] = {}


class Decisions(Struct, frozen=True):
    """Newest first. `next_before`: ask for the next page with `before=`; None: there is no older one in memory.

    `newest`: whether nothing that was asked for is newer. `oldest_at`: how far back memory reaches, None: it is empty.
    """

    decisions: tuple[DecisionRow, ...]
    next_before: int | None = None
    newest: bool = True
    oldest_at: Instant | None = None


class ModelBeside(Struct, frozen=True):
    """A model before and after one decision: replicas that its targets ask for; None where no target is seen.

    `demand`: replicas that it needed then (None: unknown); `why`: the one thing to know about it.
    """

    model: str
    before: int | None
    after: int | None
    demand: int | None
    why: str


class DecisionPage(Struct, frozen=True):
    """One cycle from the journal: what it saw, what it decided, what became of that.

    `policy_digest`, `code_digest`: by which policy and source. With `?model=` everything is that model's alone.
    `beside`: every model before and after it; `triggers`: what was new since the cycle before, a sentence each, None
    where that cycle is not recorded.
    """

    cycle: int
    at: Instant
    policy_digest: str
    code_digest: str
    plan: Plan
    inputs: Snapshot
    outcomes: tuple[Outcome, ...] = ()
    beside: tuple[ModelBeside, ...] = ()
    triggers: tuple[str, ...] | None = None


class PolicyPage(Struct, frozen=True):
    """The policy in force. `since`: when it came into force here; `differences`: what was other before, an entry each.

    `before`: digest of the policy before it, "" where the service started with this one. `file`: where it is read;
    `problems`, `refused` as in Status. `text`: the policy as JSON, which is YAML too, without what is default.
    """

    at: Instant
    digest: str
    since: Instant | None
    before: str = ""
    differences: tuple[str, ...] = ()
    file: str = ""
    problems: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    text: str = ""


class Checks(Struct, frozen=True):
    """What `rebalancer doctor` says that the service can see by itself. `findings`: what is not well, the worst first.

    `looked_at`: when the cluster's objects were looked through for traps (None: not yet); `unread`: kinds that were
    not; `well`: checks that found nothing.
    """

    at: Instant
    findings: tuple[Finding, ...] = ()
    looked_at: Instant | None = None
    unread: tuple[str, ...] = ()
    well: int = 0


class Explanation(Struct, frozen=True):
    """Why a model has what it has, at `at`. `explanation`: the lines `rebalancer explain` prints."""

    at: Instant
    cycle: int
    model: ModelDecision
    refusals: tuple[Refusal, ...] = ()
    unmet: tuple[Unmet, ...] = ()
    changes: tuple[Change, ...] = ()
    explanation: tuple[str, ...] = ()


class NodeExplanation(Struct, frozen=True):
    """What becomes of a node under notice, at `at`. `explanation`: the lines `rebalancer explain --node` prints.

    `notice`: None where none stands any more; `accounts`: of this notice and of those of the last hour, oldest first.
    """

    at: Instant
    cycle: int
    node: str
    notice: NoticeView | None = None
    accounts: tuple[NoticeAccount, ...] = ()
    drains: tuple[DrainChange, ...] = ()
    explanation: tuple[str, ...] = ()
