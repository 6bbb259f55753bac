"""How one model serves in the fluid form, compiled: a backlog of work that its Ready replicas wear away.

A second's arrivals see the backlog as it was before that second; they wait max(0, backlog / ready - headroom).
"""

import numpy as np

from rebalancer.sim.compiled import compiled
from rebalancer.sim.demand import F64

LEAST_WORK = 1e-9  # replica-seconds: sums of so many floats differ by less


@compiled
def _lose(work: F64, requests: F64, before: int, gone: float, lost: F64) -> None:
    """Count the requests of so much work as lost: of those that came before that second, and were not, the last."""
    for s in range(before - 1, -1, -1):
        if gone <= LEAST_WORK:
            return
        share = 1.0 - lost[s] / requests[s] if requests[s] > 0.0 else 0.0
        here = min(gone, share * work[s])
        if here > 0.0:
            lost[s] += here / work[s] * requests[s]
            gone -= here


@compiled
def serve(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    work: F64,
    requests: F64,
    begin: int,
    end: int,
    backlog: float,
    ready: int,
    slo: float,
    headroom: float,
    patience: float,
    queue_base: float,
    queue_per_replica: float,
    wait: F64,
    late: F64,
    lost: F64,
    busy: F64,
    left: F64,
) -> float:
    """Serve seconds [begin, end) with that many replicas; fills `wait`, `late`, `lost`, `busy`, `left` there.

    `wait`: seconds the arrivals wait (inf without replicas while there is work); `late`, `lost`: requests; `busy`:
    replica-seconds done; `left`: the backlog at the second's end. Who leaves because nobody serves is `lost` in the
    second in which they came, which is before `begin` at times. Returns the backlog at `end`.
    """
    for t in range(begin, end):
        y = 0.0
        if ready > 0:
            y = max(0.0, backlog / ready - headroom)
        elif backlog > 0.0 or work[t] > 0.0:
            y = np.inf
        wait[t] = y
        one = work[t] / requests[t] if requests[t] > 0.0 else 0.0
        full = one > 0.0 and backlog / one > queue_base + queue_per_replica * ready
        stays = not full and (y <= patience or ready == 0)
        late[t] = requests[t] if (y > slo or full) else 0.0
        lost[t] = 0.0 if stays else requests[t]
        inside = backlog + (work[t] if stays else 0.0)
        done = min(inside, float(ready))
        busy[t] = done
        backlog = inside - done
        if ready == 0:
            # Nobody serves: who came more than `patience` ago has left.
            oldest = t - int(patience)
            if oldest >= 0 and backlog > 0.0:
                bound = 0.0
                for s in range(oldest, t + 1):
                    bound += work[s]
                _lose(work, requests, oldest, backlog - bound, lost)
                backlog = min(backlog, bound)
        left[t] = backlog
    return backlog
