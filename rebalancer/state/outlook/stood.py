"""What a fixed number of replicas would have come to in the last three hours: a queue beside the real one, per count.

A move takes a start, so it saves only what is late later than that after lateness began. Where some division of the
GPUs would have left nothing of that, whoever had stood still would have done as well as anybody could by moving.
"""

from typing import NamedTuple

import numpy as np

from rebalancer.state.outlook.level import MINUTE_SECONDS
from rebalancer.state.outlook.past import F64, I64, ROW_SECONDS, PastPoints, RunningSums, at
from rebalancer.state.outlook.rule import (
    AGAIN_SECONDS,
    LATE_AFTER_SECONDS,
    LEARN_SECONDS,
    LONG_SHARE,
    QUANTUM,
    SEEN_BEFORE_SECONDS,
    STOOD_COUNTS,
    TO_ANSWER_SECONDS,
)

MINUTE_ROWS = MINUTE_SECONDS // ROW_SECONDS
AGAIN_ROWS = AGAIN_SECONDS // ROW_SECONDS


class Stood(NamedTuple):
    """What standing still would have come to.

    enough: the fewest replicas with which next to nothing would have been late for longer than a start; 0: not known.
    peak: offered work of the busiest ten seconds for which they were enough, in replicas.
    minute: that of the busiest such minute.
    """

    enough: int = 0
    peak: float = 0.0
    minute: float = 0.0


def stood(sums: RunningSums, cold_seconds: int) -> list[Stood]:
    """The same of each model of the running sums, over its last three hours as far as they were observed."""
    rows = min(LEARN_SECONDS // ROW_SECONDS, len(sums.work) - 1)
    came = np.diff(at(sums.work, PastPoints(0, 1, rows + 1))[::-1], axis=0)
    grace = (cold_seconds + TO_ANSWER_SECONDS) // ROW_SECONDS
    known = (sums.age >= SEEN_BEFORE_SECONDS) & (came.sum(axis=0) > 0.0)
    return [_of_one(came[:, model], grace) if known[model] else Stood() for model in range(came.shape[1])]


def _of_one(came: F64, grace: int) -> Stood:
    """`came`: replica-seconds of each row; `grace`: rows of a start.

    What is late at the end may be late for long: nobody knows yet whether it was enough for that. So the busiest
    seconds are those before it began.
    """
    work = float(came.sum())
    counts = _counts(work / (ROW_SECONDS * len(came)), float(came.max()) / ROW_SECONDS)
    late = _late(came, counts)
    since = _since(late)
    long = (came[:, np.newaxis] * (late & (since >= grace))).sum(axis=0)
    least = int(np.flatnonzero(long <= LONG_SHARE * work)[0])
    ended = came
    if late[-AGAIN_ROWS - 1 :, least].any():
        ended = came[: len(came) - 1 - since[-1, least]]
    if len(ended) < MINUTE_ROWS:
        return Stood()
    peak = float(ended.max()) / ROW_SECONDS
    minute = float(np.convolve(ended, np.ones(MINUTE_ROWS), "valid").max()) / MINUTE_SECONDS
    return Stood(int(counts[least]), round(peak, QUANTUM), round(minute, QUANTUM))


def _counts(mean: float, most: float) -> I64:
    """Counts from the mean to the busiest ten seconds: all, or `STOOD_COUNTS` of them."""
    least, top = max(1, int(mean)), max(1, int(np.ceil(most)))
    return np.unique(np.linspace(least, max(least, top), STOOD_COUNTS).round().astype(np.int64))


def _late(came: F64, counts: I64) -> np.ndarray:
    """Whether what came in a row was late with each count; (rows, counts)."""
    sums = np.cumsum(came[:, np.newaxis] - ROW_SECONDS * counts, axis=0)
    left = sums - np.minimum(np.minimum.accumulate(sums, axis=0), 0.0)
    before = np.vstack([np.zeros((1, len(counts))), left[:-1]])
    late: np.ndarray = (left + before) / 2.0 > LATE_AFTER_SECONDS * counts
    return late


def _since(late: np.ndarray) -> I64:
    """Rows since lateness began, where it was not over for half a minute in between; (rows, counts)."""
    rows = np.arange(len(late))[:, np.newaxis]
    last = np.maximum.accumulate(np.where(late, rows, -AGAIN_ROWS - 1), axis=0)
    before = np.vstack([np.full((1, late.shape[1]), -AGAIN_ROWS - 1), last[:-1]])
    begun = np.maximum.accumulate(np.where(late & (rows - before > AGAIN_ROWS), rows, 0), axis=0)
    since: I64 = rows - begun
    return since
