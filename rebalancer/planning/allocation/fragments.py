"""MIG slices that lie idle in other shapes on one node: which re-slicing would help. It is told, and never done."""

from rebalancer.domain.gpu_shapes import slices
from rebalancer.domain.words import counted, listed
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.facts.scene import TargetFacts


def resliced(target: TargetFacts, seating: Seating) -> tuple[str, ...]:
    """The node whose free slices of other shapes are enough for one pod of the target; nothing where none has so many.

    A MIG GPU has 7 compute slices, and the shapes of a node are what its administrator made of them: the whole node is
    re-sliced, once nothing runs there. Which slices share a GPU no label says.
    """
    resource = seating.scene.pools[target.pool].pool.resource
    wanted = slices(resource) * target.pod_gpus
    nodes = [node.name for node in seating.scene.pools[target.pool].view.nodes] if wanted else []
    free = {node: _free(node, resource, seating) for node in nodes}
    enough = {node: shapes for node, shapes in free.items() if _slices(shapes) >= wanted}
    if not enough:
        return ()
    node = min(enough, key=lambda name: (_slices(enough[name]), name))
    shape = resource.rpartition("mig-")[2]
    slices_there = listed([f"{count} {name.rpartition('mig-')[2]}" for name, count in sorted(enough[node].items())])
    together = counted(_slices(enough[node]), "slice")
    why = f"on node {node} {slices_there} are free, {together} together: re-slicing it could make a {shape} of them"
    return (f"{why}, if they are on one GPU",)


def _free(node: str, resource: str, seating: Seating) -> dict[str, int]:
    """Free devices of other MIG shapes on the node, by shape."""
    free = {}
    for name, rooms in seating.rooms.items():
        other = seating.scene.pools[name].pool.resource
        if node in rooms and other != resource and slices(other) and rooms[node].soon > 0:
            free[other] = rooms[node].soon
    return free


def _slices(shapes: dict[str, int]) -> int:
    return sum(slices(name) * count for name, count in shapes.items())
