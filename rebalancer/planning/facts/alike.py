"""Where capacity is likely to go next: nodes of the type and zone for which the cloud recommends to rebalance."""

from collections.abc import Collection, Iterable

from rebalancer.domain.arithmetic import node_receives
from rebalancer.domain.placement import place_of
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.snapshot import NoticeView

Kind = tuple[str, str]


def kind_of(node: NodeView) -> Kind | None:
    """Instance type and zone of a node; None where its labels name neither."""
    kind = place_of(node.labels)
    return kind if any(kind) else None


def risky(view: PoolView, notices: Iterable[NoticeView]) -> frozenset[Kind]:
    """Types and zones of the nodes whose replicas are replaced because they may go."""
    prepared = {notice.node for notice in notices if notice.prepared}
    kinds = (kind_of(node) for node in view.nodes if node.name in prepared) if prepared else ()
    return frozenset(kind for kind in kinds if kind is not None)


def alike(view: PoolView, notices: Iterable[NoticeView], noticed: Collection[str]) -> frozenset[str]:
    """Nodes of such a type and zone, as long as the pool has others that receive: these are better than none."""
    kinds = risky(view, notices)
    if not kinds:
        return frozenset()
    names = frozenset(node.name for node in view.nodes if kind_of(node) in kinds)
    others = any(node_receives(node, noticed) for node in view.nodes if node.name not in names)
    return names if others else frozenset()
