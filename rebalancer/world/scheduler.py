"""Where pending pods land: first come, first served, each on the node that it leaves fullest."""

from collections.abc import Collection, Iterable

from rebalancer.world.things import Node, Pod, may_land


def place(pending: Iterable[Pod], nodes: Collection[Node]) -> list[tuple[Pod, Node]]:
    """Nodes for the pods that fit somewhere now; the others wait. Nothing is changed."""
    free = {node.name: node.free for node in nodes}
    placed = []
    for pod in pending:
        node = min(
            (node for node in nodes if free[node.name] >= pod.gpus and _fits(pod, node)),
            key=lambda node: (free[node.name], node.name),
            default=None,
        )
        if node is not None:
            free[node.name] -= pod.gpus
            placed.append((pod, node))
    return placed


def _fits(pod: Pod, node: Node) -> bool:
    return node.ready and node.resource == pod.owner.resource and may_land(pod.owner, node.labels, node.taints)
