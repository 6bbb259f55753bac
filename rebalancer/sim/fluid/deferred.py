"""What is late of a model whose requests have a deadline: known only once they are finished.

The service wears a backlog away first come, first served. So what came until second t is finished when as much work has
been done as came and stayed until then, whoever had how many replicas meanwhile.
"""

from typing import NamedTuple

import numpy as np

from rebalancer.sim.demand import F64
from rebalancer.sim.scenario import ScenarioModel

LEAST_WORK = 1e-6  # replica-seconds: sums of so many floats differ by less


class Finished(NamedTuple):
    """Seconds until a second's arrivals were finished, inf where that is not seen; `late` requests. (seconds,) each."""

    wait: F64
    late: F64


def finished(model: ScenarioModel, busy: F64, lost: F64) -> Finished:
    """What became of each second's arrivals. `busy`: replica-seconds done by second; `lost`: requests that left.

    Who left is late. What was not finished by the last second is late if it was due before.
    """
    seconds = len(busy)
    came, work = model.requests[:seconds], model.work[:seconds]
    stayed = np.where(lost > 0.0, 0.0, work)
    done, owed = np.cumsum(busy), np.cumsum(stayed)
    ends = np.searchsorted(done, owed - LEAST_WORK)
    waited = (ends - np.arange(seconds)).astype(float)
    overdue = (waited > model.slo_wait_seconds) | (lost > 0.0)
    return Finished(np.where((ends == seconds) | (lost > 0.0), np.inf, waited), np.where(overdue, came, 0.0))


class FirstCome:
    """Counts who is finished and who waits, request by request, second after second; nobody leaves.

    A line of thousands holds more kinds of requests than the last minute's mean tells: counted by that it would seem to
    grow and shrink by hundreds from look to look.
    """

    def __init__(self, model: ScenarioModel, seconds: int) -> None:
        self._came, self._work = (
            np.concatenate(([0.0], np.cumsum(each[:seconds]))) for each in (model.requests, model.work)
        )
        self._done = self._finished = 0.0

    def finish(self, busy: F64) -> F64:
        """Requests finished in each of the next seconds; `busy`: replica-seconds done in them."""
        done = self._done + np.cumsum(busy)
        until = np.interp(done, self._work, self._came)
        each: F64 = np.diff(until, prepend=self._finished)
        self._done, self._finished = float(done[-1]), float(until[-1])
        return each

    def waiting(self, until: int) -> float:
        """Requests that came before second `until` and are not finished."""
        return max(0.0, float(self._came[until]) - self._finished)
