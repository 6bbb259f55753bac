"""A lower bound on late work: a linear program that no controller of the fluid world gets below.

Bounded quantity: `late_work_share`, the work of seconds whose arrivals are late (lost ones are late) over all work,
of every controller that never asks for less than a floor, whatever it knows and whenever it decides.

Why. Take any run of the fluid world; let n be a model's Ready replicas, q = SLO wait + headroom. A second's arrivals
are on time only if backlog <= q n. From the run read off values that satisfy every row below, with the run's own late
work as objective; the program's minimum is therefore not above it:

- x(t) = 1 if second t is on time, else 0 (relaxed to [0, 1]: part of a second's work may be late).
- b(t), the backlog of on-time work alone: b(t + 1) = max(0, b(t) + w(t) x(t) - n(t)). It is never above the real
  backlog (late work only adds), so b(t) <= q n(t) where x(t) = 1. Late work costs no service here.
- N(k), replicas that serve at some second of slot k: n(t) <= N(k) inside the slot; N(k) = N(k - 1) + u(k) - d(k) with
  u, d those that begin and cease to serve. A slot is not longer than a start plus a second, so no GPU serves twice in
  it, and one that begins to serve in slot k was loading, hence held, during all of the floor((start + 1)/slot) - 1
  slots before. GPUs held in a slot: serving or loading throughout, at most the budget. Release takes no time, nodes are
  one pool, replicas are fractions.
- The second that was on time last before t, s: b(t) <= q N(s) + w(s) - sum of n over [s, t), and n >= floor. Hence
  b(t) - q N(t) <= spill(t) (1 - x(t)) + q x (replicas that ceased since s), where spill(t) = max over s of
  w(s) - floor (t - s), and s lies at most (q x most + largest w)/floor seconds back, or b(t) = 0; and, as N never
  leaves [floor, most], b(t) - q N(t) <= (spill(t) + q (most - floor)) (1 - x(t)).
- A window of the day starts with an empty backlog and any replicas: less on-time work is counted into b, and every row
  still holds. So the day's late work is at least the sum of its windows' minima.

It is loose where a fleet is short for long: late work costs no service here, so that a little work given up everywhere
keeps the rest on time (S7 at 16 GPUs: 0.38 %, foresight 8.0; S2 day 0 at 32 GPUs: 0.09, foresight 1.2). Slots of 2 s
instead of 5, or half the window, change that in the third digit. Counting late work in full would need whole seconds
that are on time or not, an integer program.

Floors are kept from the first second (`first` >= `floor`, and placed) to the last: scale-down takes replicas that wait
or load first, so Ready never falls below the smallest number asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from rebalancer.sim.demand import F64
from rebalancer.sim.fluid.fleet import Fleet
from rebalancer.sim.scenario import Scenario, ScenarioModel

WINDOW_SECONDS = 3600
SLOT_SECONDS = 5
TOLERANCE = 1e-6  # of a window's work, taken off: what the solver may be wrong by
LEAST_WORK = 1e-6  # replica-seconds in a second: less is none, the solver stumbles over coefficients of 1e-9 and 1e2

Columns = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bound:
    """The least late work that there can be.

    late_work_share: share of `work` that is late at least, 0 to 1; no controller's is lower.
    late_work: the same in replica-seconds.
    work: all work that arrives, in replica-seconds.
    unsolved: windows that the solver gave up on; they count as nothing late, which is below any truth.
    """

    late_work_share: float
    late_work: float
    work: float
    unsolved: int = 0


def bound(scenario: Scenario, window_seconds: int = WINDOW_SECONDS, slot_seconds: int = SLOT_SECONDS) -> Bound:
    """The program's minimum, window by window; 20 to 30 s of one core for a day of three models.

    Longer windows and shorter slots bring it nearer to the truth, at more work. Raises ValueError where the argument
    above does not hold: a floor of 0, a start below the floor, patience below the SLO.
    """
    _check(scenario)
    slot = min(slot_seconds, min(model.start_seconds for model in scenario.models) + 1)
    least = [
        _window(scenario, begin, min(scenario.seconds, begin + window_seconds), slot)
        for begin in range(0, scenario.seconds, window_seconds)
    ]
    late = sum(window for window in least if window is not None)
    work = sum(float(model.work[: scenario.seconds].sum()) for model in scenario.models)
    return Bound(late / work if work else 0.0, late, work, least.count(None))


def _check(scenario: Scenario) -> None:
    fleet = Fleet(scenario.models, list(scenario.nodes))
    for index, model in enumerate(scenario.models):
        if model.floor < 1:
            raise ValueError(f"no bound: {model.name!r} has floor {model.floor}, a floor of at least 1 is needed")
        if fleet.ready[index] < model.floor:
            raise ValueError(f"no bound: {model.name!r} starts with {fleet.ready[index]} under its floor {model.floor}")
        if model.patience_seconds < model.slo_wait_seconds:
            raise ValueError(f"no bound: {model.name!r} is left before it is late; patience must be at least the SLO")


@dataclass(slots=True)
class _Rows:
    """Rows of `sum of coefficients x columns <= limit`, collected block by block."""

    count: int = 0
    rows: list[Columns] = field(default_factory=list)
    columns: list[Columns] = field(default_factory=list)
    values: list[F64] = field(default_factory=list)
    limits: list[F64] = field(default_factory=list)

    def block(self, length: int, limit: ArrayLike) -> int:
        """That many new rows; the first one's number."""
        first = self.count
        self.count += length
        self.limits.append(np.broadcast_to(np.asarray(limit, np.float64), (length,)))
        return first

    def put(self, rows: Columns, columns: Columns, values: ArrayLike) -> None:
        """One coefficient in each of the rows."""
        self.rows.append(rows)
        self.columns.append(columns)
        self.values.append(np.broadcast_to(np.asarray(values, np.float64), rows.shape))

    def matrix(self, width: int) -> coo_matrix:
        """All rows, sparse."""
        where = np.concatenate(self.rows), np.concatenate(self.columns)
        return coo_matrix((np.concatenate(self.values), where), shape=(self.count, width))


@dataclass(frozen=True, slots=True)
class _Part:
    """One model in one window: its columns (`serving`, `begins`, `ceases` by slot, `on_time`, `backlog` by second)."""

    model: ScenarioModel
    work: F64
    cost: F64
    most: int
    slot: int
    serving: Columns
    begins: Columns
    ceases: Columns
    on_time: Columns
    backlog: Columns

    @property
    def depth(self) -> float:
        """Backlog per replica up to which arrivals are on time, in seconds."""
        return self.model.slo_wait_seconds + self.model.headroom_seconds


def _parts(scenario: Scenario, begin: int, end: int, slot: int) -> Iterator[_Part]:
    seconds, slots = end - begin, -(-(end - begin) // slot)
    spare = scenario.gpus - sum(model.floor * model.gpus for model in scenario.models)
    at = 0
    for model in scenario.models:
        work = np.where(model.work[begin:end] < LEAST_WORK, 0.0, model.work[begin:end])
        columns = []
        for length in (slots, slots, slots, seconds, seconds):
            columns.append(np.arange(at, at + length))
            at += length
        cost = np.where(model.requests[begin:end] > 0.0, work, 0.0)  # work that no request carries is never late
        yield _Part(model, work, cost, model.floor + spare // model.gpus, slot, *columns)


def _window(scenario: Scenario, begin: int, end: int, slot: int) -> float | None:
    """Least late work of [begin, end), in replica-seconds; None where the solver gives up."""
    parts = list(_parts(scenario, begin, end, slot))
    width = int(parts[-1].backlog[-1]) + 1
    low, high, cost = np.zeros(width), np.full(width, np.inf), np.zeros(width)
    rows, exact = _Rows(), _Rows()
    for part in parts:
        cost[part.on_time] = -part.cost
        low[part.serving], high[part.serving] = part.model.floor, part.most
        high[part.on_time] = 1.0
        high[[part.begins[0], part.ceases[0], part.backlog[0]]] = 0.0
        if begin == 0:
            high[part.serving[0]] = min(part.most, part.model.first)  # nobody starts within the first slot
        _change(exact, part)
        _drain(rows, part)
        _be_on_time(rows, part)
    _fit(rows, parts, scenario.gpus)
    limits = {
        "A_ub": rows.matrix(width).tocsr(),
        "b_ub": np.concatenate(rows.limits),
        "A_eq": exact.matrix(width).tocsr() if exact.count else None,
        "b_eq": np.concatenate(exact.limits) if exact.count else None,
        "bounds": np.column_stack([low, high]),
    }
    solved = linprog(cost, method="highs-ds", **limits)
    if solved.status != 0:
        solved = linprog(cost, method="highs-ipm", **limits)
    if solved.status != 0:
        return None
    total = sum(float(part.cost.sum()) for part in parts)
    return max(0.0, total + float(solved.fun) - TOLERANCE * total)


def _change(exact: _Rows, part: _Part) -> None:
    """serving(k) = serving(k - 1) + begins(k) - ceases(k)."""
    count = len(part.serving) - 1
    if count == 0:
        return
    rows = exact.block(count, 0.0) + np.arange(count)
    exact.put(rows, part.serving[1:], 1.0)
    exact.put(rows, part.serving[:-1], -1.0)
    exact.put(rows, part.begins[1:], -1.0)
    exact.put(rows, part.ceases[1:], 1.0)


def _drain(rows: _Rows, part: _Part) -> None:
    """backlog(t + 1) >= backlog(t) + work(t) on_time(t) - serving."""
    count = len(part.on_time) - 1
    at = rows.block(count, 0.0) + np.arange(count)
    rows.put(at, part.backlog[:-1], 1.0)
    rows.put(at, part.on_time[:-1], part.work[:-1])
    rows.put(at, part.serving[np.arange(count) // part.slot], -1.0)
    rows.put(at, part.backlog[1:], -1.0)


def _be_on_time(rows: _Rows, part: _Part) -> None:
    """The two limits of backlog(t) - depth x serving(t)."""
    count, floor = len(part.on_time), part.model.floor
    second = np.arange(count)
    slot = second // part.slot
    spill = _spill(part.work, floor)
    widest = spill + part.depth * (part.most - floor)
    for excess in (spill, widest):
        at = rows.block(count, excess) + second
        rows.put(at, part.backlog, 1.0)
        rows.put(at, part.serving[slot], -part.depth)
        rows.put(at, part.on_time, excess)
        if excess is spill:
            span = int(np.ceil((part.depth * part.most + part.work.max()) / floor))
            oldest = np.maximum(0, second - span + 1) // part.slot
            for back in range(span // part.slot + 1):
                after = slot - back > oldest
                rows.put(at[after], part.ceases[slot[after] - back], -part.depth)


def _spill(work: F64, floor: int) -> F64:
    """By second t: max over earlier s of work(s) - floor (t - s), at least 0."""
    out = np.zeros(len(work))
    for t in range(1, len(work)):
        out[t] = max(0.0, max(out[t - 1], work[t - 1]) - floor)
    return np.where(out > 0.0, np.maximum(out, LEAST_WORK), 0.0)


def _fit(rows: _Rows, parts: list[_Part], budget: int) -> None:
    """GPUs that serve, or load throughout the slot, are at most the budget."""
    slots = len(parts[0].serving)
    at = rows.block(slots, float(budget)) + np.arange(slots)
    for part in parts:
        rows.put(at, part.serving, part.model.gpus)
        for ahead in range(1, (part.model.start_seconds + 1) // part.slot):
            rows.put(at[:-ahead], part.begins[ahead:], part.model.gpus)
