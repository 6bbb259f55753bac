"""How long a Lease holds, and how often it is renewed and looked at."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """All in seconds. Raises ValueError for values under which two replicas could act at once.

    lease_seconds: who stands by waits as long after the last renewal that it saw.
    renew_seconds: a leader may act so long from the beginning of its last renewal that succeeded.
    retry_seconds: from the beginning of one renewal to that of the next.
    look_seconds: between two looks of who stands by.
    """

    lease_seconds: float = 8.0
    renew_seconds: float = 7.0
    retry_seconds: float = 1.0
    look_seconds: float = 0.25

    def __post_init__(self) -> None:
        if not self.lease_seconds > self.renew_seconds > 2 * self.retry_seconds > 0 < self.look_seconds:
            raise ValueError(f"{self}: a lease lasts longer than the right to act, and that longer than two renewals")

    @property
    def call_seconds(self) -> float:
        """Deadline of one call: two that hang leave a third of the time for those that are answered."""
        return self.renew_seconds / 3


TIMING: Final = LeaseTiming()
"""A crash costs at most 8.25 s until another replica takes the Lease.

Clocks of two replicas may run 14 % (8/7) apart. A leader outlives two calls in a row that hang for 2.3 s each, if the
others are answered within 1.1 s; and within 0.4 s where those that hung had been applied.
"""
