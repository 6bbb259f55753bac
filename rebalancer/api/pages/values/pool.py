"""One pool's page: its nodes with the pods on them, and its loans."""

from msgspec import Struct, field

from rebalancer.api.pages.badges import Badge
from rebalancer.api.pages.values.tiles import Seated
from rebalancer.api.ports.timeline import TimelineEvent
from rebalancer.domain.instant import Instant
from rebalancer.domain.snapshot import NoticeView


class PodRow(Struct, frozen=True):
    """A replica's part on one node of a pool: one pod, or several of it that stand there.

    name: name of the replica's pod; of several pods the leading one's.
    model: id of the model.
    gpus: GPUs that the replica has on this node.
    state: pending, loading, ready, lost, terminating, or doomed, which stands for any of the others but terminating.
    since: when it became Ready, or its deletion was requested, or else when it was created.
    lender: id of the model whose GPUs it has, or name of the pool where nobody owns them, as on an elastic pool; ""
        where they are its model's own.
    """

    name: str
    model: str
    gpus: int
    state: str
    since: Instant
    lender: str = ""


class NodeRow(Struct, frozen=True):
    """One node of a pool, and who holds its GPUs.

    name: name of the node.
    gpus: one character for each of its GPUs, by device: `?` unknown, `o` held by pods of no model, `x` doomed,
        `/` loading, `+` lent, `#` owned, `-` closed, `.` free.
    ready: whether its Ready condition is True; where it is not, nothing is known of its GPUs.
    schedulable: whether it is neither cordoned nor being deleted.
    foreign_gpus: GPUs held by pods of no model.
    doomed_at: deadline of the notice about the node, None where no notice about it stands.
    pods: the models' pods on it, by model and name.
    refused: why devices that it offers do not count, as the end of a sentence; "" where all do.
    seated: who has its GPUs, by device.
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
    """One replica that a model has beyond its own GPUs.

    borrower: id of the model that has the replica.
    lender: id of the model that does not use these GPUs, or name of the pool where nobody owns them.
    gpus: GPUs of the replica.
    at: since when it is borrowed.
    """

    borrower: str
    lender: str
    gpus: int
    at: Instant


class PoolPage(Struct, frozen=True):
    """One pool of the policy.

    at: the service's clock when the page was made.
    cycle: number of the cycle that made the last plan, 0 before the first.
    name: name of the pool.
    kind: primary (owned by models) or elastic (owned by nobody).
    resource: extended resource that counts as one GPU of the pool.
    capacity_type: how its nodes were bought: on-demand, spot or reserved.
    price_per_gpu_hour: USD for a GPU-hour, 0 where the policy names no price.
    gpu_limit: most GPUs of the pool that may ever be used or asked for.
    node_pools: names of the Karpenter NodePools behind it, empty where there are none.
    gpus: GPUs of its nodes, None before nodes were listed for the first time.
    counts: GPUs by state, states without GPUs left out. The states are owned, lent, loading, doomed, other (held by
        pods of no model), closed, free and unknown (of nodes that are not Ready).
    budget: GPUs that models may have there together, None where that is unknown.
    promised: GPUs that the models' targets ask for there, None before the first plan.
    nodes: the page asked for of its nodes, 64 each, by name.
    nodes_total: number of its nodes, on all pages.
    loans: its GPUs that models have beyond their own.
    notices: notices about its nodes, by node.
    timeline: what happened in it in the last 30 minutes, oldest first; the newest 500.
    badges: the badges of the models that the shown nodes name, by model id.
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
