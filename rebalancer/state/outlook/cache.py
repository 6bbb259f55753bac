"""The outlooks of all models, renewed where what they were made from has changed.

At 1,000 models about a quarter are renewed in a plan, and one in thirty learns: each model on its own turn, so that no
plan has to do all of them. Nothing here needs a checkpoint: what is learnt is what the rings say as of the last turn,
whoever asks and when, and the outlooks of before a start are in what the last cycle saw (`resume`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rebalancer.domain.outlook import Outlook
from rebalancer.state.outlook.changepoint import learnt_usual, shift_of_means, usual_of
from rebalancer.state.outlook.learned import Learned
from rebalancer.state.outlook.learning import learn
from rebalancer.state.outlook.level import LEVEL_MEANS_SECONDS, base_of_means, level
from rebalancer.state.outlook.outlook import ModelTerms, Terms, outlooks
from rebalancer.state.outlook.past import F64, I64, NOW, Past, from_cells, work_of_one
from rebalancer.state.outlook.rule import (
    HOUR_SECONDS,
    LEARN_EVERY_SECONDS,
    LEARN_SECONDS,
    LEAST_LEVEL,
    SHIFT_WINDOWS_SECONDS,
    UNKNOWN_WORK_OF_ONE,
    WORK_OF_ONE_SECONDS,
)
from rebalancer.state.outlook.staleness import Glance, stale
from rebalancer.state.outlook.value import Standing
from rebalancer.state.ring_level import COVERAGE, REQUESTS, WORK
from rebalancer.state.rings import SPAN_SECONDS, Rings

TOGETHER = 64  # models per batch: what they need fits in a core's cache
MARGIN_SECONDS = 300  # of dispersion before the oldest replay
QUICK_MEANS_SECONDS = (30, 60, 300)  # within the rings' first level
SLOW_MEANS_SECONDS = LEVEL_MEANS_SECONDS[2:]
QUICK_OF_LEVEL = slice(1, 3)  # those of the quick means that the level has


class Group(NamedTuple):
    """Models that share the length of a start, the step and the lag.

    columns: their columns in the rings, ascending; the other fields are in that order.
    standing: their replicas and backlogs now.
    service: the policy for each of them.
    terms: start, step and interval that they share.
    until: second at which knowledge of them ends, None where that is the end of the rings.
    """

    columns: I64
    standing: Standing
    service: ModelTerms
    terms: Terms
    until: int | None = None

    def end(self, rings: Rings) -> int:
        """The second at which knowledge of these models ends."""
        head = rings.head or 0
        return head if self.until is None else min(head, self.until)


class OutlookCache:
    """The outlooks of all models and the figures learnt about them, by column; None: nothing was observed."""

    def __init__(self, columns: int) -> None:
        self.learned: list[Learned] = [Learned()] * columns
        self.outlooks: list[Outlook | None] = [None] * columns
        self.renewed = 0  # outlooks made by the last `look`
        self._each: F64 = np.zeros(columns)
        self._beta, self._usual = np.zeros((columns, 3)), np.zeros((len(SHIFT_WINDOWS_SECONDS), columns))
        self._slow: F64 = np.full((len(SLOW_MEANS_SECONDS), columns), np.nan)  # as of each model's last outlook
        whole, real = np.zeros((3, columns), dtype=np.int64), np.zeros((3, columns))
        self._then = Glance(whole[0], whole[1], real[0], real[1], real[2], whole[2])  # at 0: never

    def widen(self, columns: int) -> None:
        """Room for more models; those that are there keep what they have."""
        more = columns - len(self.learned)
        if more <= 0:
            return
        self.learned += [Learned()] * more
        self.outlooks += [None] * more
        self._each = np.concatenate([self._each, np.zeros(more)])
        self._beta = np.concatenate([self._beta, np.zeros((more, self._beta.shape[1]))])
        self._usual = np.concatenate([self._usual, np.zeros((len(self._usual), more))], axis=1)
        self._slow = np.concatenate([self._slow, np.full((len(self._slow), more), np.nan)], axis=1)
        self._then = Glance(*(np.concatenate([of, np.zeros(more, of.dtype)]) for of in self._then))

    def work_of_one(self, columns: I64) -> F64:
        """Replica-seconds per request of these models, as of their last outlooks; 0 where nobody counted requests."""
        each: F64 = self._each[columns]
        return each

    def forget(self, column: int) -> None:
        """Forgets what was learnt of a column's model: it left, or its replicas carry something else now."""
        self.learned[column], self.outlooks[column] = Learned(), None
        self._each[column], self._then.at[column] = 0.0, 0
        self._beta[column], self._usual[:, column] = 0.0, 0.0

    def restore(self, rings: Rings, outlooks: Mapping[int, Outlook]) -> None:
        """Outlooks of before a start, by column; they stand until they are renewed, and `resume` says when that is."""
        for column, one in outlooks.items():
            self.outlooks[column] = one
            counted = not one.by_minute and one.work_of_one != UNKNOWN_WORK_OF_ONE
            alone = np.array([column])
            self._each[column] = one.work_of_one if counted else _work_of_one(rings, alone, self._each[alone])[0]

    def resume(self, rings: Rings, group: Group) -> None:
        """Renew outlooks of before a start when who made them would; `group`: as it stood when last seen."""
        by_second: dict[int, list[int]] = {}
        for place, column in enumerate(group.columns.tolist()):
            one = self.outlooks[column]
            if one is not None:
                by_second.setdefault(int(one.at), []).append(place)
        for second, places in by_second.items():
            mine, stood = group.columns[places], group.standing.of(np.array(places))
            past = remembered(rings, mine, HOUR_SECONDS, self._each[mine], second)
            sums = past.running_sums(HOUR_SECONDS)
            self._slow[:, mine] = [sums.mean(NOW, window)[0] for window in SLOW_MEANS_SECONDS]
            self._usual[:, mine] = usual_of([self.learned[column] for column in mine.tolist()], sums, past.each)
            self._made(mine, stood, second)

    def _made(self, columns: I64, standing: Standing, at: int) -> None:
        """Notes from what the outlooks of `columns` were made at second `at`: until that has changed they stand."""
        levels = [(one.level, one.shift) if one else (0.0, 0.0) for one in (self.outlooks[c] for c in columns.tolist())]
        level, shifts = np.array(levels).reshape(-1, 2).T
        glance = Glance(standing.ready, standing.starting, standing.backlog, level, shifts, np.full(len(columns), at))
        for old, new in zip(self._then, glance, strict=True):
            old[columns] = new

    def look(self, rings: Rings, groups: Sequence[Group], every_seconds: int) -> None:
        """Renew what has to be, once per joint plan. `every_seconds`: between plans."""
        self.renewed = 0
        if rings.head is None:
            return
        for group in groups:
            self._learn(rings, group, every_seconds)
        for group in groups:
            now, then = self._glance(rings, group), self._then
            mine = group.columns
            before = Glance(
                then.ready[mine],
                then.starting[mine],
                then.backlog[mine],
                then.level[mine],
                then.shift[mine],
                then.at[mine],
            )
            wanted = stale(before, now, mine // TOGETHER, every_seconds).nonzero()[0]
            for begin in range(0, len(wanted), TOGETHER):
                self._renew(rings, group, wanted[begin : begin + TOGETHER])
            self._made(mine[wanted], group.standing.of(wanted), border(group.end(rings)))
            self.renewed += len(wanted)

    def _learn(self, rings: Rings, group: Group, every_seconds: int) -> None:
        """Learns about models whose turn has come, as of that turn: a start learns what the last turn would have."""
        plan, turns = border(group.end(rings)) // every_seconds, max(1, LEARN_EVERY_SECONDS // every_seconds)
        passed = (plan + group.columns // TOGETHER) % turns  # plans since its turn
        at = np.array([self.learned[column].at for column in group.columns.tolist()])
        span = LEARN_SECONDS + HOUR_SECONDS + group.terms.horizon_seconds + MARGIN_SECONDS
        for plans in np.unique(passed).tolist():
            turn = border((plan - plans) * every_seconds)
            due = group.columns[(passed == plans) & (at < turn)]
            for begin in range(0, len(due), TOGETHER):
                columns = due[begin : begin + TOGETHER]
                past = remembered(rings, columns, span, self._each[columns], turn)
                learnt = learn(past, group.terms.cold_seconds, group.terms.horizon_seconds)
                for column, one in zip(columns.tolist(), learnt, strict=True):
                    self.learned[column] = one
                self._beta[columns] = [one.beta for one in learnt]
                self._usual[:, columns] = learnt_usual(learnt, self._usual[:, columns])

    def _glance(self, rings: Rings, group: Group) -> Glance:
        """The figures for a curve from now: the last five minutes afresh, the slow means at most a minute old."""
        columns, standing = group.columns, group.standing
        end = group.end(rings)
        at = np.full(len(columns), border(end))
        quick = rings.work(columns, [end] * len(columns), QUICK_MEANS_SECONDS)
        means = np.concatenate([quick[QUICK_OF_LEVEL], self._slow[:, columns]])
        levels = level(base_of_means(means[:, np.newaxis]), self._beta[columns])[0]
        levels = np.where(np.isnan(levels), 0.0, levels)
        learned = [self.learned[column] for column in columns.tolist()]
        rates = quick[: len(SHIFT_WINDOWS_SECONDS)]
        shifts = shift_of_means(rates, np.maximum(levels, LEAST_LEVEL), learned, self._usual[:, columns])
        return Glance(standing.ready, standing.starting, standing.backlog, levels, shifts.p, at)

    def _renew(self, rings: Rings, group: Group, places: I64) -> None:
        columns, terms = group.columns[places], group.terms
        self._each[columns] = _work_of_one(rings, columns, self._each[columns])
        span = terms.past_seconds + MARGIN_SECONDS
        learned = [self.learned[column] for column in columns.tolist()]
        end = group.end(rings)
        past = remembered(rings, columns, max(span, _reach(learned, end)), self._each[columns], end)
        sums = past.running_sums(terms.past_seconds)
        self._slow[:, columns] = [sums.mean(NOW, window)[0] for window in SLOW_MEANS_SECONDS]
        self._usual[:, columns] = usual_of(learned, sums, past.each)
        standing, service = group.standing, group.service
        some = standing.of(places)
        serving, priority = service.serving.of(places), service.priority[places]
        rules = ModelTerms(serving, service.floor[places], service.most[places], priority)
        renewed = outlooks(past, learned, some, rules, terms, sums)
        for column, one in zip(columns.tolist(), renewed, strict=True):
            self.outlooks[column] = one


def _work_of_one(rings: Rings, columns: I64, before: F64) -> F64:
    """Replica-seconds per request of the last 10 minutes, over the cells in which requests were counted; (models,)."""
    edges, (work, requests, coverage) = rings.cells(columns, WORK_OF_ONE_SECONDS, WORK, REQUESTS, COVERAGE)
    counted = (coverage > 0.0) & ~np.isnan(requests)
    rates = np.divide(work, coverage, out=np.zeros_like(work), where=counted)
    came = (rates * np.diff(edges)[:, np.newaxis]).sum(axis=0)
    return work_of_one(came, np.where(counted, requests, 0.0).sum(axis=0), before)


def _reach(learned: Sequence[Learned], end: int) -> int:
    """Seconds of past that the longest period played and the oldest of the worst need, with an hour for its level."""
    longest = max(one.period_seconds for one in learned)
    oldest = min((min(one.rare) for one in learned if one.rare), default=end)
    return max(5 * longest, end - oldest) + HOUR_SECONDS


def border(second: int) -> int:
    """The last border of cells of 2 s at `second` or before; an edge is an instant, and theirs are odd."""
    return second - (second + 1) % 2


def remembered(rings: Rings, columns: I64, seconds: int, each: F64, until: int | None = None) -> Past:
    """The rings' past of some models, from `seconds` before (as far as it reaches) to `until` (None: their head).

    The end is a border of their cells of 2 s: steps of 2 s would else halve every one of them, and bursts with them.
    """
    head = rings.head or 0
    end = border(head if until is None else until)
    edges, (work, coverage) = rings.cells(columns, min(seconds + head - end, SPAN_SECONDS), WORK, COVERAGE)
    last = max(1, int(np.searchsorted(edges, end, side="right")))
    return from_cells(edges[:last], work[: last - 1], coverage[: last - 1], each)
