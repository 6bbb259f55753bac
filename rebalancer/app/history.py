"""What the service did and refused lately, in memory: 2,000 cycles or 20,000 events (8 MB), whichever is less.

Older ones, and every cycle's inputs, are in the journal.
"""

import asyncio
from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from rebalancer.api.ports.timeline import DecisionRow, Point, TimelineEvent
from rebalancer.app.charts import Charts
from rebalancer.app.timeline import Timeline
from rebalancer.domain.account import NoticeAccount
from rebalancer.domain.memory import Loan
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Decision
from rebalancer.domain.snapshot import Snapshot

MOST_CYCLES = 2_000
MOST_EVENTS = 20_000
MOST_PER_CYCLE = 50
RECENT_SECONDS = 1800.0
MOST_RECENT = 2_000


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
        self._rows: deque[DecisionRow] = deque()
        self._kept = 0

    def cycle(self, snapshot: Snapshot, decision: Decision) -> None:
        """A cycle decided."""
        self.snapshot, self.loans, self.accounts = snapshot, decision.memory.loans, decision.memory.accounts
        self._charts.note(snapshot.at, decision.plan.models)
        self._add(self._timeline.of_cycle(snapshot, decision.plan))

    def wrote(self, outcomes: Iterable[Outcome]) -> None:
        """What became of its changes."""
        self._add(self._timeline.of_outcomes(outcomes))

    def _add(self, events: list[TimelineEvent]) -> None:
        if events:
            self._keep(events)
        self.version += 1
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _keep(self, events: list[TimelineEvent]) -> None:
        cycle = events[-1].cycle
        row = DecisionRow(cycle, events[0].at, ())
        if self._rows and self._rows[-1].cycle == cycle:
            row = self._rows.pop()
        room = MOST_PER_CYCLE - len(row.timeline)
        first, beyond = events[:room], events[room:]
        self._rows.append(replace(row, timeline=(*row.timeline, *first), more=row.more + len(beyond)))
        self._kept += len(first)
        while self._kept > MOST_EVENTS or len(self._rows) > MOST_CYCLES:
            self._kept -= len(self._rows.popleft().timeline)

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

    def chart(self, model: str, now: float) -> tuple[Point, ...]:
        """The last hour of one model."""
        return self._charts.points(model, now)

    async def newer_than(self, after: int) -> int:
        """Wait for something that was heard after version `after`; returns the version it is at."""
        while self.version <= after:
            await self._news.wait()
        return self.version
