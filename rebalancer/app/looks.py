"""What the pages are made of: implements `api.look.Looks` over the running parts."""

from collections.abc import Callable

from rebalancer.api.look import Look, Recorded
from rebalancer.api.pages import DecisionRow, Point
from rebalancer.app.archive import Archive
from rebalancer.app.history import History
from rebalancer.app.insight import Insight
from rebalancer.domain.policy import Policy
from rebalancer.obs.clock import Clock


class ServiceLooks:
    """`policy` is the one in force."""

    def __init__(
        self, insight: Insight, clock: Clock, policy: Callable[[], Policy], history: History, archive: Archive
    ) -> None:
        self._insight = insight
        self._clock = clock
        self._policy = policy
        self._history = history
        self._archive = archive
        self._epoch = f"{int(clock.now() * 1000):x}"

    @property
    def move(self) -> int:
        """Counts what was heard of the wheel."""
        return self._history.move

    def look(self) -> Look:
        """Everything at this instant, as the wheel saw it last: what cannot wait turns the wheel at once."""
        known = self._history.snapshot or self._insight.snapshot()
        status = self._insight.status_of(known)
        return Look(
            epoch=self._epoch,
            status=status,
            snapshot=known,
            policy=self._policy(),
            loans=self._history.loans,
            happenings=self._history.recent(status.at),
        )

    def chart(self, model: str) -> tuple[Point, ...]:
        """The last hour of one model."""
        return self._history.chart(model, self._clock.now())

    def decisions(self) -> tuple[DecisionRow, ...]:
        """Cycles in memory, oldest first."""
        return self._history.rows()

    async def recorded(self, *, cycle: int | None = None, at: float | None = None) -> Recorded:
        """One cycle from the journal. Raises NotRecorded, RecordsBusy."""
        return await self._archive.recorded(cycle=cycle, at=at)

    async def moved(self, after: int) -> int:
        """Wait for something newer."""
        return await self._history.moved(after)
