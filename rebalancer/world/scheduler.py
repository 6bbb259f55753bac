"""Where pending pods land: first come, first served, each on the node that it leaves fullest."""

from collections.abc import Collection, Iterable

from rebalancer.world.things import WorldNode, WorldPod, may_land


def place(pending: Iterable[WorldPod], nodes: Collection[WorldNode]) -> list[tuple[WorldPod, WorldNode]]:
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


def _fits(pod: WorldPod, node: WorldNode) -> bool:
    return node.ready and node.resource == pod.owner.resource and may_land(pod.owner, node.labels, node.taints)
