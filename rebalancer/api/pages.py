"""What the console shows, as values: one overview, one model, one pool. Counted here, once, for every reader.

Times are instants (UTC epoch seconds in memory, RFC 3339 on the wire); unknown is None, never zero.
"""

from msgspec import Struct

from rebalancer.domain.cluster import Override, WriteStop
from rebalancer.domain.instant import Instant
from rebalancer.domain.plan import ModelDecision, Refusal, Unmet
from rebalancer.domain.snapshot import Sync

# One character per GPU on the wire, first match: 10,000 GPUs are 10 KB.
UNKNOWN, OTHER, DOOMED, LOADING, LENT, OWNED, FREE = "?ox/+#."


class Need(Struct, frozen=True):
    """One thing a person should look at. `severity`: critical or warning; `until`: when it comes or ends (None: open).

    `model`, `pool`, `node`: what it is about, for links.
    """

    severity: str
    said: str
    until: Instant | None = None
    model: str | None = None
    pool: str | None = None
    node: str | None = None


class NodeTiles(Struct, frozen=True):
    """A node's GPUs by device, one character each (see the constants above)."""

    name: str
    gpus: str
    ready: bool = True
    doomed_at: Instant | None = None


class PoolRow(Struct, frozen=True):
    """A pool's counts and tiles. `counts`: state word -> GPUs, zeros omitted. `nodes` empty above 512 nodes."""

    name: str
    kind: str
    gpus: int | None
    counts: dict[str, int]
    nodes: tuple[NodeTiles, ...] = ()


class ModelRow(Struct, frozen=True):
    """One line of the models table; `next_at`: when the thing it waits for comes by itself."""

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


class Happening(Struct, frozen=True):
    """One mark of the timeline. `kind`: release, grant, notice, refusal, override, stop, node."""

    at: Instant
    kind: str
    said: str
    cycle: int
    model: str | None = None
    pool: str | None = None


class Overview(Struct, frozen=True):
    """Everything the first page needs, at one instant. The stream sends the same value; its id is `epoch-cycle`.

    `models`: the page asked for, trouble first; `models_total`: how many match. `happenings`: 30 minutes, oldest first.
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
    needs: tuple[Need, ...] = ()
    pools: tuple[PoolRow, ...] = ()
    models: tuple[ModelRow, ...] = ()
    models_total: int = 0
    happenings: tuple[Happening, ...] = ()
    overrides: tuple[Override, ...] = ()


class SignalRow(Struct, frozen=True):
    """One signal of a model: its reading in words, its vote in replicas, the age in seconds; None = it has none."""

    signal: str
    reading: str | None
    vote: int | None
    age_seconds: float | None
    why: str = ""


class ReplicaRow(Struct, frozen=True):
    """One pod. `state`: pending, loading, ready, doomed, terminating; `lender`: who lent its GPUs, "" when its own."""

    name: str
    node: str | None
    pool: str
    state: str
    since: Instant
    lender: str = ""


class Point(Struct, frozen=True):
    """One step of the chart; None = unknown then."""

    at: Instant
    demand: int | None
    allocation: int | None
    ready: int | None


class ModelPage(Struct, frozen=True):
    """One model. `explanation`: the lines `rebalancer explain` prints. `chart`: at most 120 points of 60 minutes."""

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
    happenings: tuple[Happening, ...] = ()
    overrides: tuple[Override, ...] = ()
