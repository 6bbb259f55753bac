"""The right to act: asked before each write, and the longest that a write may take."""

import math
from typing import Protocol


class Right(Protocol):
    """Whether this replica may write, and for how long.

    `epoch`: number of the term in which it may, None without a Lease.
    """

    @property
    def epoch(self) -> int | None:
        """Stamped on what is written."""
        ...

    def why_not(self) -> str | None:
        """Why nothing may be written now; None: it may. Costs nothing, and is true at this moment only."""
        ...

    def seconds_left(self) -> float:
        """By when a write that begins now must have ended; not above 0 where `why_not` has an answer."""
        ...


class Alone:
    """The one replica of a laptop, a demo or a simulation: nobody else acts, so it always may."""

    epoch: int | None = None

    def why_not(self) -> str | None:
        """Nothing stands against it."""
        return None

    def seconds_left(self) -> float:
        """Without an end."""
        return math.inf
