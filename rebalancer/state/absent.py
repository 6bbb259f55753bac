"""Nodes that are not listed although pods of models are bound to them: gone, or not seen yet.

A pod is where its node is. Kubernetes deletes the pods of a Node that is gone only after 40 s, at the next round of the
garbage collector, which comes every 20 s; until then they are Ready by their last word, and serve nobody.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from rebalancer.domain.cluster import Node
from rebalancer.domain.instant import Instant
from rebalancer.state.objects import Objects

UNSEEN_SECONDS = 30.0  # the watch of nodes is not that far behind the watch of pods: then a node is gone


class AbsentPast(Struct, frozen=True):
    """An absent node for the checkpoint; `gone`: it was seen, or has been missing for too long."""

    since: Instant
    gone: bool


class Absent:
    """Absent nodes by name. `holds` says whether pods of models are bound to a node.

    One that was seen and went is remembered for others' pods as well: a policy may make their workload a model's before
    the garbage collector comes, and what was seen to go is not to be missed for half a minute first.
    """

    def __init__(self, objects: Objects, holds: Callable[[str], bool]) -> None:
        self._objects = objects
        self._holds = holds
        self._since: dict[str, float] = {}
        self._gone: set[str] = set()

    def __contains__(self, node: str) -> bool:
        """Whether the node is absent, and pods are bound to it."""
        return node in self._since and self._objects.lacks(node) and self._holds(node)

    def lost(self, node: str, at: float) -> None:
        """A Node that was there is gone."""
        if self._has_pods(node):
            self._since[node] = at
            self._gone.add(node)

    def missed(self, node: str, at: float) -> None:
        """A pod of a model is bound to `node`: where no such node is listed it may be on its way, or gone."""
        if self._objects.lacks(node):
            self._since.setdefault(node, at)

    def back(self, node: str) -> None:
        """The Node is there, or nothing hangs on it any more."""
        self._since.pop(node, None)
        self._gone.discard(node)

    def look(self, now: float, certain: Callable[[], bool]) -> None:
        """Nodes missing for too long count as gone, where the lists are `certain`; nodes without pods are dropped."""
        if not self._since or not {"nodes", "pods"} <= self._objects.listed:
            return
        for node in [node for node in self._since if not (self._objects.lacks(node) and self._has_pods(node))]:
            self.back(node)
        late = {node for node, since in self._since.items() if now - since >= UNSEEN_SECONDS} - self._gone
        if late and certain():
            self._gone |= late

    def gone(self) -> Iterator[tuple[str, float]]:
        """Nodes that are gone while pods hang on them, with the instant when they went."""
        return ((node, self._since[node]) for node in sorted(self._gone) if node in self)

    def _has_pods(self, node: str) -> bool:
        return any(True for _ in self._objects.pods_on.get(node))

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds: nodes are absent for as long as before."""
        self._since = {node: since + seconds for node, since in self._since.items()}

    # --- the checkpoint

    def past(self) -> dict[str, AbsentPast]:
        """Every absent node for the checkpoint, by name."""
        return {node: AbsentPast(since, node in self._gone) for node, since in self._since.items()}

    def restore(self, node: str, past: AbsentPast) -> None:
        """Put back what `past` gave of one, unless it is there."""
        if self._objects.one(Node, node) is None:
            self._since[node] = min(past.since, self._since.get(node, past.since))
            if past.gone:
                self._gone.add(node)
