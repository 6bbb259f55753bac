"""What the service did and refused lately, in memory: 2,000 cycles or 20,000 happenings (8 MB), whichever is less.

Older ones, and every cycle's inputs, are in the journal.
"""

import asyncio
from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from rebalancer.api.pages import DecisionRow, Happening, Point
from rebalancer.app.charts import Charts
from rebalancer.app.happenings import Happenings
from rebalancer.domain.memory import Loan
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Decision
from rebalancer.domain.snapshot import Snapshot

MOST_CYCLES = 2_000
MOST_HAPPENINGS = 20_000
MOST_PER_CYCLE = 50
RECENT_SECONDS = 1800.0
MOST_RECENT = 2_000


class History:
    """Hears every cycle. `snapshot` and `loans` are the last one's; `move` counts what was heard."""

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.loans: tuple[Loan, ...] = ()
        self.move = 0
        self._news = asyncio.Event()
        self._charts = Charts()
        self._happenings = Happenings()
        self._rows: deque[DecisionRow] = deque()
        self._kept = 0

    def cycle(self, snapshot: Snapshot, decision: Decision) -> None:
        """A cycle decided."""
        self.snapshot, self.loans = snapshot, decision.memory.loans
        self._charts.note(snapshot.at, decision.plan.models)
        self._add(self._happenings.of_cycle(snapshot, decision.plan))

    def wrote(self, outcomes: Iterable[Outcome]) -> None:
        """What became of its changes."""
        self._add(self._happenings.of_outcomes(outcomes))

    def _add(self, found: list[Happening]) -> None:
        if found:
            self._keep(found)
        self.move += 1
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _keep(self, found: list[Happening]) -> None:
        cycle = found[-1].cycle
        row = DecisionRow(cycle, found[0].at, ())
        if self._rows and self._rows[-1].cycle == cycle:
            row = self._rows.pop()
        room = MOST_PER_CYCLE - len(row.happenings)
        kept, beyond = found[:room], found[room:]
        self._rows.append(replace(row, happenings=(*row.happenings, *kept), more=row.more + len(beyond)))
        self._kept += len(kept)
        while self._kept > MOST_HAPPENINGS or len(self._rows) > MOST_CYCLES:
            self._kept -= len(self._rows.popleft().happenings)

    def rows(self) -> tuple[DecisionRow, ...]:
        """Cycles that did or refused something new, oldest first."""
        return tuple(self._rows)

    def recent(self, now: float) -> tuple[Happening, ...]:
        """Happenings of the last 30 minutes, oldest first, the newest 2,000."""
        found: list[Happening] = []
        for row in reversed(self._rows):
            if now - row.at > RECENT_SECONDS or len(found) >= MOST_RECENT:
                break
            found += reversed(row.happenings)
        found.reverse()
        return tuple(found)

    def chart(self, model: str, now: float) -> tuple[Point, ...]:
        """The last hour of one model."""
        return self._charts.points(model, now)

    async def moved(self, after: int) -> int:
        """Wait for something that was heard after move `after`; returns the move it is at."""
        while self.move <= after:
            await self._news.wait()
        return self.move
