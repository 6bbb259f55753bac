"""What a serving engine's own metrics would show of a replica, told from the fluid world, which has no batches.

Two proxies. KV use: a batch's share in use is the share of the capacity at work (Little's law with a time per token
that does not depend on the batch), smoothed over the time that a request stays in a batch; a full batch uses `full`
of the cache. Waiting requests: the backlog beyond what a batch holds (`headroom_seconds`), over the work of one.
"""

from dataclasses import dataclass

import numpy as np

from rebalancer.sim.controller import Seen

SCRAPE_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Engine:
    """`stay_seconds`: how long a request stays in a batch (170 tokens at 50 ms); `full`: KV use of a full batch."""

    stay_seconds: int = 10
    full: float = 1.0

    def kv_use(self, seen: Seen, model: int, ago_seconds: int = 0) -> float | None:
        """KV use per Ready replica, 0-1, as it was `ago_seconds` before the last known second; None when unknown."""
        end = seen.now - seen.delay_seconds - ago_seconds
        begin = max(0, end - self.stay_seconds)
        able = float(np.add.reduce(seen.served_by[model, begin : max(0, end)]))
        if able <= 0.0:
            return None
        return self.full * float(np.add.reduce(seen.busy[model, begin:end])) / able

    def waiting(self, seen: Seen, model: int, ago_seconds: int = 0) -> float | None:
        """Requests that wait per Ready replica, at the same second; None when unknown."""
        at = seen.now - seen.delay_seconds - ago_seconds - 1
        if at < 0 or seen.served_by[model, at] <= 0:
            return None
        excess = float(seen.left[model, at]) / float(seen.served_by[model, at])
        excess -= seen.scenario.models[model].headroom_seconds
        if excess <= 0.0:
            return 0.0
        one = _work_of_one(seen, model, at + 1)
        return excess / one if one > 0.0 else 0.0

    def peak(self, seen: Seen, model: int, window_seconds: int) -> tuple[float, float] | None:
        """The most that scrapes of the last `window_seconds` showed: (KV use, waiting); None when none did."""
        found = [
            (kv, waiting)
            for ago in range(0, window_seconds, SCRAPE_SECONDS)
            if (kv := self.kv_use(seen, model, ago)) is not None
            and (waiting := self.waiting(seen, model, ago)) is not None
        ]
        if not found:
            return None
        return max(kv for kv, _ in found), max(waiting for _, waiting in found)


def _work_of_one(seen: Seen, model: int, end: int) -> float:
    """Replica-seconds of one request, over the last 600 s; 0 when none came."""
    begin = max(0, end - 600)
    requests = float(np.add.reduce(seen.requests[model, begin:end]))
    return float(np.add.reduce(seen.work[model, begin:end])) / requests if requests > 0.0 else 0.0
