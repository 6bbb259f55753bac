"""All that a plan writes, or, where nothing may be written, a refusal for each of these writes."""

from dataclasses import dataclass

from rebalancer.domain.plan import DrainChange, Refusal
from rebalancer.planning.actions.changes import Changes
from rebalancer.planning.actions.node_plan import NodePlan
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.guards import guards
from rebalancer.planning.shares.share import ModelShare


@dataclass(frozen=True, slots=True)
class PlannedWrites:
    """What a plan writes.

    changes: to targets.
    nodes: to NodePools, with the node grants behind that.
    drains: to nodes, and evictions.
    stop: why nothing at all may be written, None where all that is here may.
    stopped: one refusal for each write that was to be and may not.
    """

    changes: Changes
    nodes: NodePlan
    drains: tuple[DrainChange, ...]
    stop: str | None = None
    stopped: tuple[Refusal, ...] = ()

    @classmethod
    def let_through(
        cls, scene: Scene[ModelShare], changes: Changes, nodes: NodePlan, drains: list[DrainChange]
    ) -> "PlannedWrites":
        """All of them, or none: while people stopped the writes, or not all is known that must be known first."""
        why = guards.stopped(scene)
        if why is None:
            return cls(changes, nodes, tuple(drains))
        guard = guards.stopped_by(scene)
        stopped = (
            *[
                Refusal(guard, change.model, change.replicas_from, change.replicas_to, why)
                for change in (*changes.down, *changes.up)
            ],
            *[Refusal(guard, one.model or f"node/{one.node}", 0, 0, f"{one.kind}: {why}") for one in drains],
            *[Refusal(guard, f"nodepool/{one.name}", 0, 0, f"{one.kind}: {why}") for one in nodes.changes],
        )
        return cls(changes.stopped(scene), nodes.stopped(), (), why, stopped)
