"""Whether a drain interrupts anybody: until when the replicas on its nodes serve, and if the cloud took them. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from rebalancer.app.foresight import Foresight, Known
from rebalancer.domain.memory import Replaced
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Change
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.snapshot import ModelView, PodView
from rebalancer.domain.words import counted, listed, replicas

WITH_NODE = frozenset({"node", "node-image"})  # kinds of starts that waited for a node to come
WITHIN_TWO = "nothing replaces {} within two plans"


class Drained(NamedTuple):
    """The Ready replicas of one model on drained nodes.

    model: the model with all its replicas.
    pods: those on the drained nodes.
    nodes: the drained nodes that they are on, by name.
    changes: what the next two plans write for the model.
    """

    model: ModelView
    pods: tuple[PodView, ...]
    nodes: tuple[str, ...]
    changes: tuple[Change, ...]

    @property
    def replacing(self) -> tuple[Change, ...]:
        """Changes that ask for replacements of some of them."""
        uids = {pod.uid for pod in self.pods}
        return tuple(each for each in self.changes if each.kind == "replace" and uids & Replaced.pods(each.replaces))

    @property
    def replaced(self) -> int:
        """How many of them are replaced."""
        return sum(pod.uid in self._replaced for pod in self.pods)

    @property
    def ended(self) -> int:
        """How many of them the next two plans end without one that replaces them."""
        gone = {uid for change in self.changes for uid in change.victims} - self._replaced
        return sum(pod.uid in gone for pod in self.pods)

    @property
    def staying(self) -> int:
        """How many of them serve on, since the next two plans neither replace nor end them."""
        return len(self.pods) - self.replaced - self.ended

    @property
    def _replaced(self) -> set[str]:
        return {uid for change in self.replacing for uid in Replaced.pods(change.replaces)}


def interruptions(known: Known, override: Override, seen: Foresight) -> Iterator[str]:
    """For each model with Ready replicas there `keep ...`, `ends ...`; of spot nodes `spot ...`, too.

    Nothing for an override that drains nothing.
    """
    spot = {pool.name for pool in known.policy.pools if pool.capacity_type == "spot"}
    nodes = _nodes(known, override)
    of_spot = {node.name for view in known.snapshot.pools if view.name in spot for node in view.nodes}
    served = _served(known, nodes, seen)
    for each in served:
        yield from _by_drain(each)
    for each in served:
        if of_spot.issuperset(each.nodes):
            yield f"spot if the cloud takes {listed(each.nodes)} instead: {_taken(known, each, nodes)}"


def staying(known: Known, override: Override, seen: Foresight) -> dict[str, int]:
    """By model how many Ready replicas on nodes that the override drains serve on: it takes none of them."""
    return {each.model.id: each.staying for each in _served(known, _nodes(known, override), seen)}


def start_seconds(known: Known, model: ModelView, change: Change) -> float | None:
    """How long what `change` asks for takes to be Ready, by the starts that were timed; None: unknown.

    Where no node has to come that is as measured, else as the policy says.
    """
    if change.grant is not None:
        timed = [each for each in model.starts if each.pool == change.target.pool and each.kind in WITH_NODE]
        return max((each.median_seconds for each in timed), default=None)
    if model.load_seconds is not None:
        return model.load_seconds
    return next(each.load_seconds for each in known.policy.models if each.id == model.id)


def _nodes(known: Known, override: Override) -> dict[str, NodeView]:
    """The nodes that the override drains, by name."""
    return {
        node.name: node
        for view in known.snapshot.pools
        for node in view.nodes
        if override.kind == "drain"
        and override.subject == (view.name if override.subject_kind == "pool" else node.name)
    }


def _served(known: Known, nodes: dict[str, NodeView], seen: Foresight) -> list[Drained]:
    return [each for model in known.snapshot.models if (each := _drained_of(model, nodes, seen)).pods]


def _drained_of(model: ModelView, nodes: dict[str, NodeView], seen: Foresight) -> Drained:
    pods = tuple(pod for target in model.targets for pod in target.pods if pod.phase == "ready" and pod.on(nodes))
    on = tuple(sorted({node for pod in pods for node in pod.nodes if node in nodes}))
    changes = (*seen.course.now.changes, *seen.course.then.changes)
    return Drained(model, pods, on, tuple(each for each in changes if each.model == model.id))


def _by_drain(each: Drained) -> Iterator[str]:
    """What the drain does to them: nothing goes before its replacement serves, unless nothing replaces it."""
    name, on = each.model.id, listed(each.nodes)
    if each.replaced:
        them = "it is" if each.replaced == 1 else "them is"
        serves = f"{name}: {_serve(each.replaced)} on {on} until what replaces {them} Ready"
        yield f"keep {serves}, so nobody is interrupted"
    if each.ended:
        them = "it" if each.ended == 1 else "them"
        yield f"ends {name}: {replicas(each.ended)} on {on} at once; {WITHIN_TWO.format(them)}"
    if each.staying:
        them = "it" if each.staying == 1 else "them"
        yield f"keep {name}: {_serve(each.staying)} on; {WITHIN_TWO.format(them)}"


def _serve(count: int) -> str:
    return f"{counted(count, 'replica')} {'serves' if count == 1 else 'serve'}"


def _taken(known: Known, each: Drained, nodes: dict[str, NodeView]) -> str:
    """What a spot notice does to them: Karpenter evicts at once, elsewhere they serve until their grace is left."""
    name, count = each.model.id, len(each.pods)
    them = "it" if count == 1 else "them"
    ready = sum(pod.phase == "ready" for target in each.model.targets for pod in target.pods)
    evicted = any(nodes[node].node_pool for node in each.nodes)
    if evicted:
        goes = f"Karpenter evicts {replicas(count)} of {name} within seconds of its notice"
    else:
        grace = max(target.grace_seconds for target in each.model.targets)
        goes = f"{replicas(count)} of {name} {'serves' if count == 1 else 'serve'} until {grace} s before it goes"
    starts = [start_seconds(known, each.model, change) for change in each.replacing]
    if not starts:
        return f"{goes}, and {WITHIN_TWO.format(them)}"
    known_starts = [seconds for seconds in starts if seconds is not None]
    if len(known_starts) < len(starts):
        return f"{goes}; what replaces {them} is asked for at the notice, and nobody has timed such a start yet"
    serves = f"{goes}; what replaces {them} is Ready about {max(known_starts):.0f} s after the notice"
    return f"{serves}, and until then {name} has {ready - count} of {ready} Ready replicas" if evicted else serves
