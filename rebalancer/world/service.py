"""What serves one model: the seam between the cluster, which says who is Ready, and how requests fare there.

A service model plugs in with two methods. `World.add_service` takes it; the world calls `flow` once a step and
`looks` once a scrape, in the order in which models were added, and makes metric samples of what `looks` shows.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rebalancer.domain.events import Counters, Gauges
from rebalancer.world.things import WorldPod


class Look(NamedTuple):
    """What one producer of metrics shows: of the model as a whole (`pod` None), or of one Ready pod (its UID)."""

    pod: str | None
    gauges: Gauges
    counters: Counters | None


class ServedModel(Protocol):
    """One model's arrivals, its requests under way, and what became of them. It brings its own arrivals."""

    def flow(self, since: float, until: float, pods: Sequence[WorldPod]) -> None:
        """Live through [since, until), UTC epoch seconds; steps follow each other without a gap.

        `pods`: those that are Ready at `until`, each since its `ready_at`, which may lie within the step. A pod that
        served before and is missing now has been deleted: its `deleted_at` says when, what it had in hand is the
        model's to lose or to finish.
        """
        ...

    def looks(self, pods: Sequence[WorldPod]) -> Sequence[Look]:
        """What a scrape shows now, right after a `flow` with the same pods."""
        ...
