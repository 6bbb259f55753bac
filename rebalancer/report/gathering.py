"""One pass over what was recorded: the books, each day played again, and what is remembered for advice.

Memory is a day's. What stays is by the hour: a month of 20 models is some 20 MB, whatever the journal's size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rebalancer.domain.policy import Policy
from rebalancer.domain.readings import Carries
from rebalancer.drawing.bins import F64, Bins, bins
from rebalancer.ledger.books import HOUR, MICRO, Books, micro, patience_seconds
from rebalancer.ledger.inventory import Inventory
from rebalancer.ledger.states import FREE
from rebalancer.obs.journal_lines import NoJournal
from rebalancer.obs.journal_reading import JournalRead
from rebalancer.obs.ledger_reading import RecordedLook
from rebalancer.obs.predictions import DayPrediction
from rebalancer.report.days import Days, RecordedDay
from rebalancer.report.lateness import ModelHour, autoscaler_of, played
from rebalancer.report.predictions import predicted
from rebalancer.report.recorded import RecordedFrom, Recording, recording

POINTS = 360  # of the picture


@dataclass(slots=True)
class TokensCounted:
    """Tokens of one model, read and written together; seconds in which they were counted, and in which it was there."""

    tokens: float = 0.0
    seconds: float = 0.0
    there: float = 0.0


@dataclass(slots=True)
class Gathered:
    """All that a report is made of.

    since: from when on, in epoch seconds.
    until: until the last recorded cycle.
    books: the accounts by the hour.
    fine: the accounts by the piece of the picture; piece 0 begins at the epoch.
    pieces: the pieces of the picture, from `since`.
    late: late requests by piece, of all models whose requests are counted.
    hours: every model's hours, played again; empty where the fluid path is not installed.
    least_free: fewest GPUs that were free at once, by hour and pool.
    tally: what was read.
    policy: the last policy in force.
    named: the same with every model and pool of the time, as the last policy that named it has it.
    carries: by model what the journal's last look knows of a replica's requests.
    autoscaler: which peer stood for the autoscalers that were recorded: keda, hpa, or static where there are none.
    predictions: of the UTC days that have ended, where they were asked for.
    tokens: by model what its counters came to.
    cycles: recorded cycles.
    writes: our writes that were carried out.
    sources: where what was read came from, in time.
    """

    since: float
    until: float
    books: Books
    fine: Books
    pieces: Bins
    late: F64
    policy: Policy
    named: Policy
    tally: JournalRead = field(default_factory=JournalRead)
    hours: list[ModelHour] = field(default_factory=list)
    least_free: dict[tuple[int, str], int] = field(default_factory=dict)
    carries: dict[str, Carries] = field(default_factory=dict)
    autoscaler: str = "static"
    predictions: list[DayPrediction] = field(default_factory=list)
    tokens: dict[str, TokensCounted] = field(default_factory=dict)
    cycles: int = 0
    writes: int = 0
    sources: list[RecordedFrom] = field(default_factory=list)


def gather(
    place: Path, last_seconds: float, heard: Callable[[float], None] = lambda _: None, *, predict: bool = False
) -> Gathered:
    """Read the last `last_seconds` of what `place` has recorded; `heard` is told the share that is done, 0-1.

    `predict`: play every day that has ended as it was predicted, too, which takes minutes a day. Raises NoJournal.
    """
    recorded = recording(place, last_seconds, heard)
    looks = recorded.looks()
    first = next(looks, None)
    if first is None:
        raise NoJournal(f"{place} has no whole cycle: it begins with none of the keyframes that a reader needs")
    gathering = _Gathering(first, recorded, predict=predict)
    for each in looks:
        gathering.see(each)
    return gathering.end()


class _Gathering:
    """The pass under way."""

    def __init__(self, first: RecordedLook, recorded: Recording, *, predict: bool) -> None:
        since, until = first.look.at, recorded.until
        pieces = bins(max(1, int(until) - int(since)), POINTS)
        fine = Books(pieces.width * MICRO)
        self._into = Gathered(
            since,
            until,
            Books(HOUR),
            fine,
            pieces,
            np.zeros(len(pieces.begins)),
            first.policy,
            first.policy,
            recorded.tally,
        )
        self._into.sources = recorded.sources
        self._autoscaler: dict[str, int] = {}
        self._predict = predict
        self._writes = 0  # in the day
        self._days = Days(self._play)
        self._before = first.look
        self.see(first)

    def see(self, recorded: RecordedLook) -> None:
        """The next cycle."""
        into, patience, seen = self._into, patience_seconds(recorded.policy), recorded.look.inventory
        for books in (into.books, into.fine):
            if recorded.after_loss:
                books.lost(recorded.after_loss)
            books.see(seen, patience)
        self._days.see(recorded)
        into.cycles += 1
        self._writes += recorded.look.writes
        into.writes += recorded.look.writes
        self._count_tokens(recorded, patience)
        self._note_free(seen)
        if recorded.policy is not into.policy:
            into.policy, into.named = recorded.policy, _with_those_gone(recorded.policy, into.named)
        into.carries.update(recorded.look.carries)

    def end(self) -> Gathered:
        """No cycle follows, so the last day has not ended."""
        self._predict = False
        self._days.end()
        return self._into

    def _count_tokens(self, recorded: RecordedLook, patience: float) -> None:
        """What each look said lasts until the next one, as who holds which GPUs does."""
        before, self._before = self._before, recorded.look
        seconds = recorded.look.at - before.at
        if recorded.after_loss or not 0.0 < seconds <= patience:
            return
        for each in before.models.values():
            counted = self._into.tokens.setdefault(each.model, TokensCounted())
            counted.there += seconds
            if each.tokens is not None:
                counted.tokens += seconds * each.tokens
                counted.seconds += seconds

    def _note_free(self, seen: Inventory) -> None:
        if seen.unknown:
            return
        free = dict.fromkeys((shelf.pool for shelf in seen.capacity), 0)
        for hold, gpus in seen.held.items():
            if hold.state == FREE:
                free[hold.shelf.pool] += gpus
        hour, least = micro(seen.at) // HOUR, self._into.least_free
        for pool, gpus in free.items():
            least[hour, pool] = min(gpus, least.get((hour, pool), gpus))

    def _play(self, day: RecordedDay) -> None:
        into = self._into

        def add_late(since: int, late: F64) -> None:
            at = (since - int(into.since) + np.arange(len(late))) // into.pieces.width
            np.add.at(into.late, np.clip(at, 0, len(into.late) - 1), late)

        into.hours += played(day, self._autoscaler, add_late)
        if self._predict:
            into.predictions += predicted(day, writes=self._writes)
        self._writes = 0
        into.autoscaler = autoscaler_of(list(day.models.values()))


def _with_those_gone(now: Policy, before: Policy) -> Policy:
    models = {model.id: model for model in (*before.models, *now.models)}
    pools = {pool.name: pool for pool in (*before.pools, *now.pools)}
    return now.model_copy(update={"models": tuple(models.values()), "pools": tuple(pools.values())})


def models_of(hours: Sequence[ModelHour]) -> dict[str, list[ModelHour]]:
    """The hours by model, in time."""
    by_model: dict[str, list[ModelHour]] = {}
    for each in hours:
        by_model.setdefault(each.model, []).append(each)
    return by_model
