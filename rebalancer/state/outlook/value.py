"""The cost of m replicas from now on: late work on every path, for every count in range, in one sweep.

Each path is a queue: a step's arrivals see the backlog as it was before, late ones cost the share of their wait by
which they are late, and those that would wait too long leave. Counts and paths of all models are advanced together, in
float32.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalancer.state.outlook.past import F32, F64, I64
from rebalancer.state.outlook.rule import LEAST_DRAIN, LOST, TERMINAL_CAP_SECONDS
from rebalancer.state.outlook.scenarios import Paths

LANES_TIMES_COUNTS = 24_000  # numbers per sweep: six arrays of them stay in a core's cache of 1 MB
NO_REPLICA = 1e-3  # of capacity, to divide by
MINUTE_SECONDS = 60  # of an objective by the minute


class Serving(NamedTuple):
    """How each model serves, (models,) each.

    A request is turned away where the backlog exceeds `queue_base` + `queue_per_replica` x ready.

    slo_wait_seconds: seconds of wait that the SLO allows.
    headroom_seconds: seconds of backlog that cost no wait, since a batch takes newcomers on.
    patience_seconds: seconds of wait after which clients leave; inf: they do not.
    queue_base: replica-seconds of backlog that the queue takes in any case.
    queue_per_replica: replica-seconds of backlog that each Ready replica adds to that.
    by_minute: whether the objective counts minutes instead of requests.
    deferred: whether only the work left at the horizon counts, since no deadline is before it.
    """

    slo_wait_seconds: F64
    headroom_seconds: F64
    patience_seconds: F64
    queue_base: F64
    queue_per_replica: F64
    by_minute: NDArray[np.bool_]
    deferred: NDArray[np.bool_]

    def of(self, models: I64) -> "Serving":
        """How the models in `models` serve."""
        waits = self.slo_wait_seconds[models], self.headroom_seconds[models], self.patience_seconds[models]
        queue = self.queue_base[models], self.queue_per_replica[models]
        return Serving(*waits, *queue, self.by_minute[models], self.deferred[models])


@dataclass(frozen=True, slots=True)
class Standing:
    """The replicas and the backlog of each model now.

    ready: replicas that serve, (models,).
    due: seconds until each starting replica serves, ascending, inf where there is none; (models, most starting).
    backlog: replica-seconds of work that waits, (models,).
    """

    ready: I64
    due: F64
    backlog: F64

    @property
    def starting(self) -> I64:
        """Replicas that start, (models,)."""
        return np.asarray(np.count_nonzero(np.isfinite(self.due), axis=1))

    @property
    def current(self) -> I64:
        """Replicas that serve or start, (models,)."""
        return self.ready + self.starting

    def of(self, models: I64) -> "Standing":
        """Replicas and backlogs of the models in `models`."""
        return Standing(self.ready[models], self.due[models], self.backlog[models])


def capacities(standing: Standing, counts: I64, steps: int, step_seconds: int, cold_seconds: int) -> F32:
    """Replicas that serve in each step if a model asks for m of `counts` (counts, models); (steps, counts, models).

    New replicas serve after a cold start. A decrease takes starting replicas first, the latest first, and ready ones at
    once.
    """
    ready, current = standing.ready, standing.current
    able = np.empty((steps, *counts.shape), dtype=np.float32)
    able[:] = np.minimum(ready, counts)
    left = counts - ready  # starting ones that are kept
    for number in range(standing.due.shape[1]):
        due = standing.due[:, number]
        for model in np.isfinite(due).nonzero()[0].tolist():
            begin = max(0, -int(-due[model] // step_seconds))
            able[begin:, :, model] += left[:, model] > number
    able[-(-cold_seconds // step_seconds) :] += np.maximum(0, counts - current)
    return able


def costs(paths: Paths, able: F32, backlog: F64, serving: Serving, step_seconds: int) -> F64:
    """Late replica-seconds until the horizon, and the price of the backlog left there, together; (counts, lanes)."""
    late, left = late_and_left(paths, able, backlog, serving, step_seconds)
    return late + left


def late_and_left(paths: Paths, able: F32, backlog: F64, serving: Serving, step_seconds: int) -> tuple[F64, F64]:
    """Late replica-seconds until the horizon, and the price of the backlog left there; (counts, lanes) each.

    `able`: replicas that serve, (steps, counts, models); `backlog`: replica-seconds, (models,). Of a deferred model
    only the work left at the horizon counts.
    """
    counts = able.shape[1]
    lanes = paths.work.shape[1]
    late, left = np.empty((counts, lanes)), np.empty((counts, lanes))
    wide = max(1, LANES_TIMES_COUNTS // counts)
    for begin in range(0, lanes, wide):
        part = slice(begin, min(lanes, begin + wide))
        sweep = _Sweep(paths, part, able, serving, step_seconds)
        late[:, part], left[:, part] = sweep.run(backlog)
    return late, left


class _Sweep:
    """Some paths from now to the horizon, for all counts at once."""

    def __init__(self, paths: Paths, part: slice, able: F32, serving: Serving, step_seconds: int) -> None:
        self._work = paths.work[:, part]
        self._level = paths.level[part]
        model = paths.model[part]
        self._first = int(model[0])
        self._model = model - self._first
        self._able = able[:, :, self._first : int(model[-1]) + 1]
        self._own = serving.of(model)
        self._step = step_seconds
        self._late_after = self._own.headroom_seconds + 2.0 * self._own.slo_wait_seconds

    def run(self, backlog: F64) -> tuple[F64, F64]:
        """Late replica-seconds until the horizon, and the price of the backlog left there; (counts, lanes) each."""
        shape = self._able.shape[1], len(self._model)
        left = np.empty(shape, dtype=np.float32)
        left[:] = backlog[self._first + self._model]
        cost = np.zeros(shape, dtype=np.float32)
        late, after = self._lateness(left, cost), self._after(left)
        if self._own.deferred.any():
            late, after = np.where(self._own.deferred, 0.0, late), np.where(self._own.deferred, left, after)
        return late, after

    def _changes(self) -> list[bool]:
        """Whether some capacity differs from that of the step before."""
        rows = self._able.reshape(len(self._able), -1)
        return [True, *(rows[1:] != rows[:-1]).any(axis=1).tolist()]

    def _capacity(self, step: int) -> tuple[F32, F32]:
        """Capacity, and the backlog above which arrivals leave or are turned away; (counts, lanes) each."""
        able = self._able[step].take(self._model, axis=1)
        longest = (self._own.patience_seconds + self._own.headroom_seconds).astype(np.float32)
        bound = np.maximum(able, np.float32(NO_REPLICA)) * longest
        queue = self._own.queue_base + self._own.queue_per_replica * able
        return able, np.minimum(bound, queue.astype(np.float32))

    def _lateness(self, left: F32, cost: F32) -> F64:
        """Late replica-seconds: arrivals x min(1, wait / (headroom + 2 SLO)), and 10 % more where they leave.

        Where the objective is by the minute, all arrivals of a minute cost once more what its slowest ones do: two
        minutes in which a few wait are worse than one in which as many do.
        """
        served = most = per_second = np.empty(0, dtype=np.float32)
        share, arrives, stay = (np.empty_like(left) for _ in range(3))
        slowest, length, last = np.zeros_like(left), 0, len(self._able) - 1
        a_second = (self._level * self._own.by_minute).astype(np.float32)
        by_minute = bool(self._own.by_minute.any())
        patient = np.empty(left.shape, dtype=np.bool_)
        one, none = np.ones_like(left), np.zeros_like(left)  # whole arrays: numpy is 4 times slower with a scalar
        for step, changes in enumerate(self._changes()):
            arrives[:] = self._work[step]
            if changes:
                able, most = self._capacity(step)
                served = able * np.float32(self._step)
                per_second = (1.0 / (np.maximum(able, np.float32(NO_REPLICA)) * self._late_after)).astype(np.float32)
            np.multiply(left, per_second, out=share)
            np.minimum(share, one, out=share)
            length += self._step
            if by_minute:
                np.maximum(slowest, share, out=slowest)
                if length >= MINUTE_SECONDS or step == last:
                    cost += np.float32(length) * a_second * slowest
                    slowest[:], length = 0, 0
            share *= arrives
            cost += share
            np.less_equal(left, most, out=patient)
            if np.count_nonzero(patient) < patient.size:
                np.copyto(stay, patient)  # 1 or 0: masks are 5 times slower
                stay *= arrives
                left += stay
                arrives -= stay
                arrives *= np.float32(LOST)
                cost += arrives
            else:
                left += arrives
            left -= served
            np.maximum(left, none, out=left)
        return cost.astype(np.float64)

    def _after(self, left: F32) -> F64:
        """Price of the backlog left at the horizon: level x the seconds that its late part takes to wear away.

        Without it a backlog that no count can clear within the horizon would be worth nothing to anybody. Clients leave
        after some seconds of wait, so fewer replicas leave the smaller queue behind: it counts as if nobody had left,
        else the most overloaded model would look best with the fewest.
        """
        able = self._able[-1].take(self._model, axis=1).astype(np.float64)
        excess = left - (self._own.headroom_seconds + self._own.slo_wait_seconds) * able
        excess *= np.maximum(1.0, self._level / np.maximum(able, NO_REPLICA))
        drain = np.maximum(able - self._level, LEAST_DRAIN)
        late: F64 = self._level * np.minimum(np.maximum(excess / drain, 0.0), TERMINAL_CAP_SECONDS)
        return late
