"""Nobody scales: every model keeps what it began with."""

from collections.abc import Sequence

from rebalancer.sim.controller import Seen


class Static:
    """The fixed split that an operator makes by hand."""

    every_seconds = 600

    def decide(self, seen: Seen) -> Sequence[int]:
        """What is asked for already."""
        return seen.desired
