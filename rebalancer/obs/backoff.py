"""How long to wait after a failure, and after the failures that follow it."""

import random

MOST_DOUBLINGS = 30  # a week of failures must not overflow


def doubled(first_seconds: float, cap_seconds: float, failures: int) -> float:
    """The first seconds, twice as many for each of the failures before; the cap at most."""
    return min(cap_seconds, first_seconds * 2.0 ** min(failures, MOST_DOUBLINGS))


class Backoff:
    """Counts failures in a row; each wait is half to the whole of a ceiling that doubles with every one of them.

    The first ceiling is `first_seconds`, the last `cap_seconds`. The half that is left to chance keeps clients that
    failed together from coming back together.
    """

    def __init__(self, rng: random.Random, first_seconds: float, cap_seconds: float) -> None:
        self.failures = 0
        self._rng = rng
        self._first_seconds = first_seconds
        self._cap_seconds = cap_seconds

    def succeeded(self) -> None:
        """Forget the failures."""
        self.failures = 0

    def failed(self) -> float:
        """Count a failure; the seconds to wait before the next try."""
        ceiling_seconds = doubled(self._first_seconds, self._cap_seconds, self.failures)
        self.failures += 1
        return ceiling_seconds * self._rng.uniform(0.5, 1.0)
