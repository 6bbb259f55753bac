"""What allocation is counted in: one replica that gets its place, and the replicas that go for it."""

from dataclasses import dataclass

from rebalancer.domain.snapshot import PodView
from rebalancer.planning.facts.scene import TargetFacts
from rebalancer.planning.guards.release import Purpose


@dataclass(frozen=True, slots=True)
class Victim:
    """One replica that would go.

    target: the target it belongs to.
    pod: the pod; a stand-in where it is no pod yet.
    purpose: why it would go.
    together: how many replicas of its model, on nodes, go with it for one replica of another model.
    for_floor: whether that model is under its floor.
    """

    target: TargetFacts
    pod: PodView
    purpose: Purpose
    together: int = 1
    for_floor: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """One more replica for a target, and where its GPUs come from.

    target: the target that gets it.
    tier: the claim it serves: `floor`, `entitlement` or `demand`.
    source: `free` (it fits now), `soon` (it fits once GPUs are freed), `shift` (its victims make the room), `node` (a
        node grant).
    nodes: names of the nodes that its pods are to run on, one for each; none for a node grant.
    victims: replicas that go for it.
    makes_room: the model for which its own gives a replica elsewhere once it serves, and on which pool; None: for none.
    """

    target: TargetFacts
    tier: str
    source: str
    nodes: tuple[str, ...] = ()
    victims: tuple[Victim, ...] = ()
    makes_room: tuple[str, str] | None = None

    @property
    def places(self) -> list[str]:
        """Names of its nodes, each once."""
        return sorted(set(self.nodes))
