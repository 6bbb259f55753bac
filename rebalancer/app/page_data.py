"""What the console's pages are made of: implements `api.ports.page_data.PageDataSource` over the running parts."""

from rebalancer.api.ports.day import Day
from rebalancer.api.ports.page_data import PageData, RecordedCycle, TrapLook
from rebalancer.api.ports.timeline import DecisionRow, Point
from rebalancer.app.archive import Archive
from rebalancer.app.followed import FollowedPolicy
from rebalancer.app.history import History
from rebalancer.app.status_reporter import StatusReporter
from rebalancer.app.trap_looks import TrapLooks
from rebalancer.obs.clock import Clock


class ServicePageData:
    """Page data from the status reporter, the policy that is followed, the history and the journal's archive."""

    def __init__(  # noqa: PLR0913  # the parts it reads
        self,
        reporter: StatusReporter,
        clock: Clock,
        policy: FollowedPolicy,
        history: History,
        archive: Archive,
        traps: TrapLooks,
    ) -> None:
        self._reporter = reporter
        self._clock = clock
        self._policy = policy
        self._history = history
        self._archive = archive
        self._traps = traps
        self._epoch = f"{int(clock.now() * 1000):x}"

    @property
    def version(self) -> int:
        """Counts what was heard of the cycles."""
        return self._history.version

    def read(self) -> PageData:
        """Everything at this instant, as the wheel saw it last: what cannot wait turns the wheel at once.

        Where it turns for nothing, whether writes are stopped, and overrides, are as they are now.
        """
        known = self._history.snapshot or self._reporter.snapshot()
        status = self._reporter.status_of(known if self._reporter.planless() is None else self._reporter.snapshot())
        return PageData(
            epoch=self._epoch,
            status=status,
            snapshot=known,
            policy=self._policy.in_force(),
            loans=self._history.loans,
            timeline=self._history.recent(status.at),
            accounts=self._history.accounts,
            policy_change=self._policy.last_change(),
            refusals=self._history.refusals(status.at),
        )

    def chart(self, model: str) -> tuple[Point, ...]:
        """The last hour of one model."""
        return self._history.chart(model, self._clock.now())

    def day(self) -> Day:
        """The last day of all models and pools."""
        return self._history.day()

    def traps(self) -> TrapLook:
        """The last look for traps."""
        return self._traps.last()

    def decisions(self) -> tuple[DecisionRow, ...]:
        """Cycles in memory, oldest first."""
        return self._history.rows()

    async def recorded(self, *, cycle: int | None = None, at: float | None = None) -> RecordedCycle:
        """One cycle from the journal. Raises NotRecorded, RecordsBusy."""
        return await self._archive.recorded(cycle=cycle, at=at)

    async def newer_than(self, after: int) -> int:
        """Wait for something newer."""
        return await self._history.newer_than(after)
