"""The first page: what needs a person, the pools, the models, what happened, what people decided."""

from msgspec import Struct, field

from rebalancer.api.pages.badges import Badge
from rebalancer.api.pages.values.tiles import NodeTiles
from rebalancer.api.ports.timeline import TimelineEvent
from rebalancer.domain.instant import Instant
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.sync import Sync


class WayOut(Struct, frozen=True):
    """What a person may do about a need.

    said: what may be done, in a few words.
    command: the command that does it, or the way to find out more.
    kind: kind of the override to look at first; `end`: the override in force on `model` is to be ended; "" where only
        the command helps.
    model: id of the model that the override is about, "" where only the command helps.
    value: replicas of that override, None where it has no number.
    """

    said: str
    command: str
    kind: str = ""
    model: str = ""
    value: int | None = None


class AttentionItem(Struct, frozen=True):
    """One thing a person should look at.

    severity: critical or warning.
    text: sentence that says what is wrong.
    until: when it comes, or ends by itself; None where that is open.
    model: id of the model that it is about, for a link; None where it is about no single model.
    pool: name of the pool that it is about, for a link; None where it is about none.
    node: name of the node that it is about, None where it is about none.
    impact: who notices, and how much; "" where nobody does, or nobody knows.
    since: since when it is so, None where that is not known.
    way_out: what a person may do about it, None where nothing is proposed.
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


class PoolRow(Struct, frozen=True):
    """One pool with its counts and tiles.

    name: name of the pool.
    kind: primary or elastic, "" where the policy has no such pool any more.
    gpus: GPUs of its nodes, None before nodes were listed for the first time.
    counts: GPUs by state, states without GPUs left out. The states are owned, lent, loading, doomed, other (held by
        pods of no model), closed, free and unknown (of nodes that are not Ready).
    nodes: the tiles of its nodes, by name; empty where it has more than 512 nodes.
    nodes_total: number of its nodes.
    """

    name: str
    kind: str
    gpus: int | None
    counts: dict[str, int]
    nodes: tuple[NodeTiles, ...] = ()
    nodes_total: int = 0


class ModelRow(Struct, frozen=True):
    """One line of the models table, in replicas where no unit is named.

    model: id of the model.
    demand: replicas that it needs, None where no vote is usable.
    allocation: replicas that it is to have before guards.
    ready: Ready replicas, without doomed ones.
    loading: replicas that are neither Ready nor doomed.
    doomed: replicas on nodes that are gone, or whose notice has come to its time.
    floor: the policy's minReplicas.
    lent: replicas of others on GPUs that are its own, as loans are booked.
    borrowed: replicas beyond its entitlement, as loans are booked; those on GPUs that nobody owns are included.
    unmet: replicas that it is short of, 0 where it is not short.
    why: the one thing to know about it, as a clause.
    surge: whether it is in a surge.
    next_at: when the thing that it waits for comes by itself; None where it waits for nothing, or nobody knows.
    workload_class: its class in the policy, "" where the policy has no such model any more.
    namespace: namespace of its targets, "" where the policy has no such model any more.
    on_loan: Ready replicas beyond its own GPUs, as the pools' tiles show them.
    headroom: replicas that it would use beyond those it has, though its requests are in time.
    most: the policy's maxReplicas, None where the policy has no such model any more.
    unowned: replicas of `on_loan` on GPUs that nobody owns.
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

    epoch: name of this run of the service; a restart gives another one.
    cluster: name of the cluster for people, "" where the settings name none.
    instance: name of the replica of the service that answers.
    leader: name of the replica of the service that acts; "" where none does, or it is not known yet.
    write_mode: `shadow` (nothing is written) or `act`.
    at: the service's clock when the page was made.
    cycle: number of the cycle that made the last plan, 0 before the first.
    plan_at: instant of the last plan, None before the first.
    sync: whether all sources are listed and fresh.
    writes_stopped: the write stop in force, None where writes are not stopped.
    policy_problems: what is wrong with the policy file as it is, a sentence each; empty where it is good.
    attention: what a person should look at, the soonest first; at most 50, the last of which counts the rest.
    pools: the pools in the policy's order.
    models: the page asked for of the models that match, 100 of them; trouble first where no other order is asked for.
    models_total: number of models that match, on all pages.
    timeline: what happened in the last 30 minutes, oldest first; the newest 500.
    overrides: overrides that have not expired, the soonest to end first, each with what the last cycle said of it.
    policy_refused: entries of the policy file that are not in force as the file has them, each with what is instead.
    badges: the badges of the models that the tiles of `pools` name, by model id.
    plan_every_seconds: the policy's planning period, 0 before there is a policy.
    namespace: namespace of the service's pods, "" where it runs in none.
    leader_known: whether it is known who leads, or that nobody does; false where this replica cannot read the Lease.
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
    plan_every_seconds: float = 0.0
    namespace: str = ""
    leader_known: bool = True


class Beat(Struct, frozen=True):
    """What the stream sends every 5 s as event `beat`: the server's time, and how old what it shows is."""

    at: Instant
    cycle: int
    plan_at: Instant | None
