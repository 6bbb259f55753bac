"""What the service did and refused lately, in memory: 2,000 cycles or 20,000 events (8 MB), whichever is less.

The figures of the last day are in `app.charts`. Older cycles, and every cycle's inputs, are in the journal.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from zlib import crc32

from msgspec.structs import replace

from rebalancer.api.ports.day import Day
from rebalancer.api.ports.past_refusals import PastRefusal, PastRefusals
from rebalancer.api.ports.timeline import DecisionRow, Point, TimelineEvent
from rebalancer.app.charts import Charts
from rebalancer.app.timeline import Timeline
from rebalancer.domain.account import NoticeAccount
from rebalancer.domain.instant import clock
from rebalancer.domain.memory import Loan
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot

MOST_CYCLES = 2_000
MOST_EVENTS = 20_000
MOST_PER_CYCLE = 50
RECENT_SECONDS = 1800.0
MOST_GONE = 200  # overrides whose object is no more
MOST_RECENT = 2_000


def entry_id(event: TimelineEvent) -> str:
    """The name of an entry in links: of what it says, so that a restart, which makes it again, does not change it."""
    text = f"{event.kind} {event.model} {event.pool} {event.text}"
    return f"{event.cycle}-{crc32(text.encode()):08x}"


class History:
    """Hears every cycle. `snapshot`, `loans` and `accounts` are the last one's; `version` counts what was heard."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.loans: tuple[Loan, ...] = ()
        self.accounts: tuple[NoticeAccount, ...] = ()
        self.version = 0
        self._news = asyncio.Event()
        self._charts = Charts()
        self._timeline = Timeline()
        self._refusals = PastRefusals()
        self._rows: deque[DecisionRow] = deque()
        self._events = 0
        self._gone: deque[Override] = deque(maxlen=MOST_GONE)

    def cycle(self, snapshot: Snapshot, decision: Decision, policy: Policy) -> None:
        """A cycle decided, under `policy`."""
        self._gone += _gone(self.snapshot, snapshot)
        self.snapshot, self.loans, self.accounts = snapshot, decision.memory.loans, decision.memory.accounts
        self._charts.note(snapshot, decision.plan, policy)
        self._refusals.hear(decision.plan.at, decision.plan.refusals, decision.plan.unmet)
        self._add(self._timeline.of_cycle(snapshot, decision.plan))

    def wrote(self, outcomes: Iterable[Outcome]) -> None:
        """What became of its changes."""
        self._add(self._timeline.of_outcomes(outcomes))

    def failed(self) -> None:
        """A cycle failed: nothing is decided, and that is news."""
        self._tell()

    def put_before(self, older: "History") -> None:
        """What another one heard before the first cycle that this one heard."""
        self._charts.put_before(older._charts)  # noqa: SLF001  # another of the same class
        self._refusals.put_before(older._refusals)  # noqa: SLF001  # of one class
        self._gone = deque((*older._gone, *self._gone), MOST_GONE)  # noqa: SLF001  # of one class
        first = self._rows[0].cycle if self._rows else None
        for row in reversed([row for row in older._rows if first is None or row.cycle < first]):  # noqa: SLF001  # of one class
            self._rows.appendleft(row)
            self._events += len(row.timeline)
        self._drop()
        self._tell()

    def _add(self, events: list[TimelineEvent]) -> None:
        if events:
            self._keep(events)
        self._tell()

    def _tell(self) -> None:
        self.version += 1
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _keep(self, events: list[TimelineEvent]) -> None:
        events = [replace(each, id=entry_id(each)) for each in events]
        cycle = events[-1].cycle
        row = DecisionRow(cycle, events[0].at, ())
        if self._rows and self._rows[-1].cycle == cycle:
            row = self._rows.pop()
        room = MOST_PER_CYCLE - len(row.timeline)
        first, beyond = events[:room], events[room:]
        self._rows.append(replace(row, timeline=(*row.timeline, *first), more=row.more + len(beyond)))
        self._events += len(first)
        self._drop()

    def _drop(self) -> None:
        while self._events > MOST_EVENTS or len(self._rows) > MOST_CYCLES:
            self._events -= len(self._rows.popleft().timeline)

    def gone(self) -> tuple[Override, ...]:
        """Overrides whose object is no more, in the order in which they went."""
        return tuple(self._gone)

    def rows(self) -> tuple[DecisionRow, ...]:
        """Cycles that did or refused something new, oldest first."""
        return tuple(self._rows)

    def recent(self, now: float) -> tuple[TimelineEvent, ...]:
        """Events of the last 30 minutes, oldest first, the newest 2,000."""
        events: list[TimelineEvent] = []
        for row in reversed(self._rows):
            if now - row.at > RECENT_SECONDS or len(events) >= MOST_RECENT:
                break
            events += reversed(row.timeline)
        events.reverse()
        return tuple(events)

    def refusals(self, now: float) -> tuple[PastRefusal, ...]:
        """Refusals of the last ten minutes, over or not."""
        return self._refusals.recent(now)

    def chart(self, model: str, now: float) -> tuple[Point, ...]:
        """The last hour of one model."""
        return self._charts.points(model, now)

    def day(self) -> Day:
        """The last day of all models and pools."""
        return self._charts.day()

    async def newer_than(self, after: int) -> int:
        """Wait for something that was heard after version `after`; returns the version it is at."""
        while self.version <= after:
            await self._news.wait()
        return self.version


def _gone(before: Snapshot | None, now: Snapshot) -> Iterator[Override]:
    """The overrides that were there before, each with what became of it."""
    there = {one.uid for one in now.overrides}
    for one in () if before is None else before.overrides:
        if one.uid not in there and one.expires_at > now.at:
            yield replace(one, phase="Deleted", message=f"taken back by {clock(now.at)}")
        elif one.uid not in there:
            yield replace(one, phase="Expired")
