"""The past of several models as running sums, at whatever resolution it was kept.

Between two edges work is taken to arrive evenly. Seconds that nobody observed count for no mean; where a replay runs
through them, they hold what the level says.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

ROW_SECONDS = 10  # between rows of running sums; all windows are multiples of it


class PastPoints(NamedTuple):
    """Points in the past, newest first: `back` rows before the end, and `number` - 1 more, each `apart` earlier."""

    back: int
    apart: int
    number: int

    def earlier(self, seconds: int) -> "PastPoints":
        """Each so many seconds (a multiple of 10) earlier; later if negative."""
        return PastPoints(self.back + seconds // ROW_SECONDS, self.apart, self.number)

    @property
    def seconds_ago(self) -> I64:
        """Seconds from each point to the end, (number,)."""
        return ROW_SECONDS * (self.back + self.apart * np.arange(self.number, dtype=np.int64))


NOW = PastPoints(0, 1, 1)


@dataclass(frozen=True, slots=True)
class RunningSums:
    """Running sums every 10 s, the last row being the end. `work`: (rows, models); `seen`: seconds observed.

    `seen` has one column where all models are alike. `age`: (models,) seconds since a model was first observed.
    """

    work: F64
    seen: F64
    age: I64

    def mean(self, ends: PastPoints, window_seconds: int) -> F64:
        """Replicas kept busy by what arrived in the window before each end, over the seconds observed of it.

        Returns (points, models), NaN where nothing was observed.
        """
        begins = ends.earlier(window_seconds)
        work = at(self.work, ends) - at(self.work, begins)
        return _over(work, at(self.seen, ends) - at(self.seen, begins))


def at(sums: F64, points: PastPoints) -> F64:
    """The rows of a running sum at those points; (points, models)."""
    first = len(sums) - 1 - points.back
    last = first - points.apart * (points.number - 1)
    if last < 0 or first >= len(sums):
        raise ValueError(f"{points} are not within {len(sums)} rows of running sums")
    return sums[last : first + 1 : points.apart][::-1]


@dataclass(frozen=True, slots=True)
class Past:
    """Offered work of several models in the past, as running sums; models are columns.

    edges: seconds between cells, ascending, (cells + 1,); the last is where the past ends.
    work: running sum of replica-seconds, with any offset, (cells + 1, models).
    since: first observed second, (models,).
    each: replica-seconds per request of the last 10 minutes with requests, (models,); 0: unknown.
    seen: running sum of seconds observed, as `work`; None where every second was.
    """

    edges: I64
    work: F64
    since: I64
    each: F64
    seen: F64 | None = None

    @property
    def until(self) -> int:
        """The second at which the past ends: it has not happened yet."""
        return int(self.edges[-1])

    @property
    def models(self) -> int:
        """Number of models."""
        return int(self.work.shape[1])

    def of(self, columns: I64) -> "Past":
        """The past of the models in `columns`."""
        seen = None if self.seen is None else self.seen[:, columns]
        return Past(self.edges, self.work[:, columns], self.since[columns], self.each[columns], seen)

    def running_sums(self, seconds: int) -> "RunningSums":
        """Running sums every 10 s, from `seconds` ago (or more) to the end."""
        rows = -(-seconds // ROW_SECONDS) + 1
        begin = self.until - ROW_SECONDS * (rows - 1)
        age = self.until - self.since
        if self.seen is not None:
            seen = self._evenly(self.seen, begin, rows, ROW_SECONDS)
        else:
            times = begin + ROW_SECONDS * np.arange(rows, dtype=np.int64)
            seen = np.maximum(times, self.edges[0]).astype(np.float64)[:, np.newaxis]
        return RunningSums(self._evenly(self.work, begin, rows, ROW_SECONDS), seen, age)

    def mean_of(self, columns: I64, ends: I64, window_seconds: int) -> F64:
        """Mean over the window before each end for lanes of one model and one end each; (lanes,), NaN: unobserved."""
        times = np.array([ends - window_seconds, ends])
        work = _steps(self._each(self.work, times, columns))[0]
        if self.seen is None:
            inside = np.minimum(np.maximum(times, self.edges[0]), self.edges[-1])
            return _over(work, (inside[1] - inside[0]).astype(np.float64))
        return _over(work, _steps(self._each(self.seen, times, columns))[0])

    def steps(self, begin: int, count: int, step_seconds: int) -> tuple[F64, F64 | None]:
        """Work that arrived per step from `begin` on, and the seconds not observed (None: none); (count, models)."""
        work = _steps(self._evenly(self.work, begin, count + 1, step_seconds))
        if self.seen is None:
            return work, None
        missing = step_seconds - _steps(self._evenly(self.seen, begin, count + 1, step_seconds))
        return work, missing if missing.any() else None

    def steps_of(self, columns: I64, begins: I64, count: int, step_seconds: int) -> tuple[F64, F64 | None]:
        """The same for lanes of one model and one beginning each; (count, lanes)."""
        times = begins + step_seconds * np.arange(count + 1, dtype=np.int64)[:, np.newaxis]
        work = _steps(self._each(self.work, times, columns))
        if self.seen is None:
            return work, None
        return work, step_seconds - _steps(self._each(self.seen, times, columns))

    def _evenly(self, sums: F64, begin: int, count: int, step: int) -> F64:
        """A running sum at `begin`, `begin` + step, ...; (count, models)."""
        first = begin - int(self.edges[0])
        if first >= 0 and self._by_second and begin + step * (count - 1) <= self.until:
            return sums[first : first + step * (count - 1) + 1 : step]
        return self._at(sums, begin + step * np.arange(count, dtype=np.int64))

    @property
    def _by_second(self) -> bool:
        return self.until - int(self.edges[0]) == len(self.edges) - 1

    def _at(self, sums: F64, times: I64) -> F64:
        """A running sum at `times`, (points, models)."""
        cell, share = self._place(times)
        low = sums.take(cell, axis=0)
        if not share.any():
            return low
        return low + (sums.take(np.minimum(cell + 1, len(sums) - 1), axis=0) - low) * share[:, np.newaxis]

    def _each(self, sums: F64, times: I64, columns: I64) -> F64:
        cell, share = self._place(times.ravel())
        cell, share = cell.reshape(times.shape), share.reshape(times.shape)
        low = sums[cell, columns]
        return low + (sums[np.minimum(cell + 1, len(sums) - 1), columns] - low) * share

    def _place(self, times: I64) -> tuple[I64, F64]:
        """The cell that each time falls into, and how much of it lies before."""
        edges = self.edges
        inside = np.minimum(np.maximum(times, edges[0]), edges[-1])
        if self._by_second:
            return inside - edges[0], np.zeros(len(times))
        cell = np.searchsorted(edges, inside, side="right") - 1
        after = inside - edges[cell]
        if not after.any():
            return cell, np.zeros(len(cell))
        width = edges[np.minimum(cell + 1, len(edges) - 1)] - edges[cell]
        return cell, after / np.maximum(width, 1)


def per_second(work: F64, each: F64, begin: int = 0) -> Past:
    """From work of shape (models, seconds) that leaves nothing out, the first second being `begin`."""
    models, seconds = work.shape
    edges = np.arange(begin, begin + seconds + 1, dtype=np.int64)
    return Past(edges, running(work.T), np.full(models, begin, dtype=np.int64), each)


def from_cells(edges: I64, work: F32 | F64, coverage: F32 | F64, each: F64) -> Past:
    """From cells of shape (cells, models): sums of partial looks, and how much of the model was looked at.

    Work over coverage is what the whole model does; a cell without coverage was not observed. `each`: as in `Past`.
    """
    looked = coverage > 0.0
    width = (edges[1:] - edges[:-1]).astype(np.float64)[:, np.newaxis]
    if looked.all():
        return Past(edges, running(work / coverage * width), np.full(work.shape[1], edges[0], dtype=np.int64), each)
    come = np.divide(work, coverage, out=np.zeros(work.shape), where=looked) * width
    first = np.where(looked.any(axis=0), edges[np.argmax(looked, axis=0)], edges[-1])
    return Past(edges, running(come), first.astype(np.int64), each, running(looked * width))


def work_of_one(work: F64, requests: F64, before: F64) -> F64:
    """Replica-seconds per request from the sums of both over the last 10 minutes; `before` where nobody asked in them.

    All (models,). One request more or less decides nothing, a start with none does: 0 stays unknown.
    """
    any_came = requests > 0.0
    each: F64 = np.where(any_came, np.divide(work, requests, out=np.zeros(work.shape), where=any_came), before)
    return each


def running(of: F64) -> F64:
    """Running sums of rows, with a row of zeros before the first."""
    sums = np.zeros((len(of) + 1, of.shape[1]))
    np.cumsum(of, axis=0, out=sums[1:])
    return sums


def _steps(sums: F64) -> F64:
    """From one row of a running sum to the next: `np.diff` without the 5 us that it thinks about its axis."""
    return sums[1:] - sums[:-1]


def _over(work: F64, seconds: F64) -> F64:
    mean: F64 = np.divide(work, seconds, out=np.full(work.shape, np.nan), where=seconds > 0.0)
    return mean
