"""The earlier seconds from which a model's past is replayed, and the work that came after each of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.state.outlook.chance import normals
from rebalancer.state.outlook.learned import Learned
from rebalancer.state.outlook.level import RateBins, base, dispersion, level
from rebalancer.state.outlook.past import F64, I64, NOW, ROW_SECONDS, Past, PastPoints, RunningSums
from rebalancer.state.outlook.rule import (
    ANCHOR_SECONDS,
    DISPERSION_SECONDS,
    PAST_SECONDS,
    SCALE_LEAST,
    SCALE_MOST,
    YOUNGEST_SECONDS,
)

_NOISE = normals(1, 4_096)[0]


@dataclass(frozen=True, slots=True)
class Replays:
    """Earlier seconds from which to replay; (anchors, models) where no shape is named.

    seconds: the seconds, newest first, (anchors,).
    level: the level at each of them, in replicas.
    scale: factor of the fluctuations by dispersion now and then.
    weight: weight of the replay; 0: nothing usable is known of then.
    """

    seconds: I64
    level: F64
    scale: F64
    weight: F64

    @property
    def usable(self) -> I64:
        """Number of usable replays, (models,)."""
        return np.asarray(np.count_nonzero(self.weight, axis=0))


@dataclass(frozen=True, slots=True)
class Ahead:
    """The time from the end of the past to the horizon, and the knowledge of each model for it.

    past: the offered work of all models that is remembered, on one grid of time.
    sums: the past as running sums every 10 s.
    bins: running sums over bins of 10 s, for dispersions.
    learned: figures learnt about each model.
    level: offered work that is expected from now on, in replicas, (models,).
    each: replica-seconds per request, (models,).
    steps: number of steps to the horizon.
    step_seconds: seconds per step.
    interval_seconds: seconds that one sample of the past stands for.
    """

    past: Past
    sums: RunningSums
    bins: RateBins
    learned: Sequence[Learned]
    level: F64
    each: F64
    steps: int
    step_seconds: int
    interval_seconds: int = 1

    @property
    def horizon_seconds(self) -> int:
        """Seconds from now to the horizon."""
        return self.steps * self.step_seconds

    @property
    def beta(self) -> F64:
        """Corrections of the level, (models, 3)."""
        return np.array([one.beta for one in self.learned])

    @property
    def gamma(self) -> F64:
        """How much of a dispersion stays, as an exponent, (models,)."""
        return np.array([one.gamma for one in self.learned])


def replays(ahead: Ahead) -> Replays:
    """Anchors every two minutes of the past hour, as far as their horizon is over by now."""
    past, horizon = ahead.past, ahead.horizon_seconds
    known = int(ahead.sums.age.max()) - horizon - YOUNGEST_SECONDS
    count = min(PAST_SECONDS, known) // ANCHOR_SECONDS + 1
    if known < 0:
        none = np.zeros((0, past.models))
        return Replays(np.zeros(0, dtype=np.int64), none, none, none)
    points = PastPoints(horizon // ROW_SECONDS, ANCHOR_SECONDS // ROW_SECONDS, count)
    then = level(base(ahead.sums, points), ahead.beta)
    spread_then, spread_now = (dispersion(ahead.bins, when, DISPERSION_SECONDS) for when in (points, NOW))
    ratio = np.divide(spread_now, spread_then, out=np.ones(then.shape), where=spread_then > 0.0)
    scale = np.minimum(np.maximum(np.power(ratio, 0.5 * ahead.gamma), SCALE_LEAST), SCALE_MOST)
    seconds, newest = past.until - points.seconds_ago, past.until - horizon
    age = np.exp(-(newest - seconds) / PAST_SECONDS)[:, np.newaxis]
    usable = (seconds[:, np.newaxis] >= past.since + YOUNGEST_SECONDS) & ~np.isnan(then)
    return Replays(seconds, np.where(usable, then, 1.0), scale, np.where(usable, age, 0.0))


def windows(ahead: Ahead, known: Replays) -> tuple[F64, F64 | None]:
    """Work that came after each anchor, and seconds not observed of it (None: none); (models, anchors, steps)."""
    count = len(known.seconds)
    if not count:
        return np.zeros((ahead.past.models, 0, ahead.steps)), None
    apart = ANCHOR_SECONDS // ahead.step_seconds
    cells = (count - 1) * apart + ahead.steps
    work, missing = ahead.past.steps(int(known.seconds[-1]), cells, ahead.step_seconds)
    if ahead.interval_seconds > ahead.step_seconds:
        work = roughened(work, int(known.seconds[-1]), ahead)
    return _slid(work, ahead.steps, apart), None if missing is None else _slid(missing, ahead.steps, apart)


def roughened(work: F64, begin: int, ahead: Ahead) -> F64:
    """The work with the roughness that coarse metrics smooth away: requests come by chance, each with its work.

    `work`: (steps, models) spread evenly over each interval, from `begin` on. The noise is fixed in time, and sums to 0
    over an interval.
    """
    times = begin + ahead.step_seconds * np.arange(len(work), dtype=np.int64)
    z = _NOISE[(times // ahead.step_seconds) % len(_NOISE)]
    starts = np.flatnonzero(np.diff(times // ahead.interval_seconds, prepend=-1))
    counts = np.diff(starts, append=len(z))
    z = z - np.repeat(np.add.reduceat(z, starts) / counts, counts)
    rough: F64 = np.maximum(0.0, work + np.sqrt(np.maximum(work, 0.0) * ahead.each) * z[:, np.newaxis])
    return rough


def _slid(cells: F64, steps: int, apart: int) -> F64:
    """A view: windows of `steps` cells, `apart` cells from one another, newest first."""
    rows = np.ascontiguousarray(cells.T)
    windows = np.lib.stride_tricks.sliding_window_view(rows, steps, axis=1)
    return windows[:, ::apart][:, ::-1]
