"""Which nodes the service drains itself, and when that stands above a disruption budget; for planning and gate."""

from rebalancer.domain.policy import Pool
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.snapshot import NoticeView, PodView

LAST_SECONDS = 20.0  # before the deadline: what a disruption budget protects until then is gone with its node anyway
OVER_SECONDS = 60.0  # after the deadline: who serves by then was not taken, or the deadline is over by our clock alone


def is_drained(pool: Pool, node: NodeView, notice: NoticeView, at: float) -> bool:
    """Whether we drain this node: its pool says so, its notice has come to its time, nobody else acts on it."""
    if not pool.drain or node.node_pool is not None or notice.karpenter or notice.voluntary:
        return False
    return notice.kind != "gone" and cordons(notice, at)


def cordons(notice: NoticeView, at: float) -> bool:
    """Whether a notice is one that nodes are cordoned for: it has come to its time, and is more than possible."""
    return notice.confidence != "possible" and notice.counts(at)


def dated(notice: NoticeView) -> bool:
    """Whether its deadline is one: a person's drain has none, a fault none that is certain."""
    return notice.kind != "drain" and notice.confidence == "certain"


def was_there(notice: NoticeView, pod: PodView) -> bool:
    """Whether the pod was made before what the node is emptied for: another notice of the node may be days older."""
    return pod.created_at < (notice.since if notice.counts_since is None else notice.counts_since)


def outlasts(notice: NoticeView, pod: PodView, at: float) -> bool:
    """Whether a replica serves on though its node's deadline is over: it is ended by who is Ready in its place alone.

    A cloud may be late or think better of it, and a machine's clock may be minutes ahead. What Karpenter drains goes.
    """
    over = dated(notice) and at > notice.deadline + OVER_SECONDS
    return over and pod.phase == "ready" and not notice.karpenter


def in_last_seconds(notice: NoticeView, at: float) -> bool:
    """Whether the node goes within the last seconds, so that a replica is better deleted than lost."""
    return dated(notice) and 0.0 < notice.deadline - at <= LAST_SECONDS
