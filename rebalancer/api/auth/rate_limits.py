"""How much one caller may ask: requests by a bucket that refills, streams by a count.

The people of a team log in to one account, each with a token of their own: so each token is a caller.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from rebalancer.api.http.responses import ApiError
from rebalancer.obs.clock import Clock

PER_SECOND: Final = 20.0
BURST: Final = 40.0  # the console asks for a dozen files and answers at once when it opens
URGENT_PER_SECOND: Final = 5.0  # a press with a token not known yet; each costs the API server a review
URGENT_BURST: Final = 10.0
STREAMS: Final = 8  # a browser opens six connections to one server
CALLERS: Final = 10_000
REQUEST_SECONDS: Final = 10.0
STREAM_SECONDS: Final = 300.0  # then the browser connects again, and shows its right anew
HEADER_BYTES: Final = 16 * 1024


class ApiCaller(NamedTuple):
    """A login to the API, or the address of somebody unknown.

    name: account or address, as people are told.
    login: a number of the token that was shown, of this process alone; 0 for an address.
    """

    name: str
    login: int = 0


class Buckets:
    """A bucket per caller, full when first seen. The one least lately used is forgotten beyond `most`."""

    def __init__(self, clock: Clock, per_second: float = PER_SECOND, burst: float = BURST, most: int = CALLERS) -> None:
        self._clock = clock
        self._per_second = per_second
        self._burst = burst
        self._most = most
        self._left: OrderedDict[ApiCaller, tuple[float, float]] = OrderedDict()

    def take(self, caller: ApiCaller) -> None:
        """Count one request. Raises ApiError 429 with the wait, and then does not count it."""
        now = self._clock.monotonic()
        before, at = self._left.get(caller, (self._burst, now))
        left = min(self._burst, before + (now - at) * self._per_second)
        if left < 1:
            wait = math.ceil((1 - left) / self._per_second)
            raise ApiError(
                429,
                f"{caller.name} asks more than {self._per_second:g} times a second",
                "ask less often; /v1/stream tells what changes",
                retry_after_seconds=wait,
            )
        self._left[caller] = left - 1, now
        self._left.move_to_end(caller)
        if len(self._left) > self._most:
            self._left.popitem(last=False)


class Streams:
    """Open streams per caller."""

    def __init__(self, most: int = STREAMS) -> None:
        self._most = most
        self._open: Counter[ApiCaller] = Counter()

    @contextmanager
    def opened(self, caller: ApiCaller) -> Iterator[None]:
        """Count one stream while it is open. Raises ApiError 429."""
        if self._open[caller] >= self._most:
            raise ApiError(
                429,
                f"{caller.name} has {self._most} streams open",
                "close a page of the console",
                retry_after_seconds=5,
            )
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]
