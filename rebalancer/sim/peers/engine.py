"""What a serving engine's own metrics would show of a model, told from the fluid world, which has no batches.

KV use: a request keeps its place in the batch, and its part of the cache, for as long as it is written, so the share in
use is the share of work over the last `STAY_SECONDS`, and a full batch fills the cache. That is generous to those who
look at it: the engines of sim.batching with S2's models hold 62-64 requests a replica (m-small 126) at all the work
they can do, but only 0.50, 0.47 and 0.34 of that at 0.8 of it, since small batches write faster; and 450,000 tokens of
cache would be 14-19 % full. In proportion to work, a target means the same at every load.

Waiting: the backlog behind what replicas have in hand (`ScenarioModel.headroom_seconds`), over the work of one request
of the engine: a recorded one stands for `ScenarioModel.scale` of them.
"""

import numpy as np

from rebalancer.sim.controller import Seen

SCRAPE_SECONDS = 15
STAY_SECONDS = 8  # of a request in its batch at 0.8 of the work: 9.3, 7.9 and 1.7 s for S2's models
SIZE_SECONDS = 300  # over which the work of one request is averaged


def kv_use(seen: Seen, model: int, end: int) -> float | None:
    """KV use of the Ready replicas, 0-1, at the beginning of second `end`; None when nobody served."""
    begin, end = max(0, end - STAY_SECONDS), max(0, end)
    able = float(np.add.reduce(seen.served_by[model, begin:end]))
    return float(np.add.reduce(seen.busy[model, begin:end])) / able if able > 0.0 else None


def waiting(seen: Seen, model: int, end: int) -> float | None:
    """Requests that wait for a place in a batch, over all replicas, at the beginning of second `end`.

    None when nobody serves.
    """
    at = end - 1
    if at < 0 or seen.served_by[model, at] <= 0.0:
        return None
    entry = seen.scenario.models[model]
    behind = float(seen.left[model, at]) - entry.headroom_seconds * float(seen.served_by[model, at])
    if behind <= 0.0:
        return 0.0
    begin = max(0, end - SIZE_SECONDS)
    work = float(np.add.reduce(seen.work[model, begin:end]))
    return behind * entry.scale * float(np.add.reduce(seen.requests[model, begin:end])) / work if work > 0.0 else 0.0


def peak(seen: Seen, model: int, window_seconds: int) -> tuple[float, float] | None:
    """The most that scrapes of the last `window_seconds` showed: (KV use, waiting per replica); None without any."""
    uses, queues = [], []
    now = seen.now - seen.delay_seconds
    for end in range(now, now - window_seconds, -SCRAPE_SECONDS):
        use, queue = kv_use(seen, model, end), waiting(seen, model, end)
        if use is not None and queue is not None:
            uses.append(use)
            queues.append(queue / float(seen.served_by[model, end - 1]))
    return (max(uses), max(queues)) if uses else None
