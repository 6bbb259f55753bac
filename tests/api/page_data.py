"""What pages are made of, for a service that has decided once; a test moves it on."""

import asyncio
from collections.abc import Callable

from rebalancer.api.ports.day import NO_DAY, Day
from rebalancer.api.ports.page_data import NotRecorded, PageData, RecordedCycle, TrapLook
from rebalancer.api.ports.status import StatusPort
from rebalancer.api.ports.timeline import DecisionRow, Point
from rebalancer.domain.policy import Policy
from tests.builders import a_policy


class SomePageData:
    """Looks at `status_port`; `show` puts something else in its place. `records` are the journal."""

    def __init__(
        self, status_port: StatusPort | None = None, policy: Policy | None = None, seen: PageData | None = None
    ) -> None:
        self._status_port = status_port
        self._policy = policy or a_policy()
        self._seen = seen
        self._news = asyncio.Event()
        self.version = 0
        self.made = 0
        self.looked = TrapLook()
        self.rows: tuple[DecisionRow, ...] = ()
        self.charts: dict[str, tuple[Point, ...]] = {}
        self.last_day = NO_DAY
        self.records: Callable[[int | None, float | None], RecordedCycle] | None = None

    def show(self, seen: PageData) -> None:
        """A cycle has ended; this is what it left."""
        self._seen = seen
        self.version += 1
        news, self._news = self._news, asyncio.Event()
        news.set()

    def read(self) -> PageData:
        self.made += 1
        if self._seen is not None:
            return self._seen
        assert self._status_port is not None
        return PageData("e1", self._status_port.status(), self._status_port.snapshot(), self._policy)

    def chart(self, model: str) -> tuple[Point, ...]:
        return self.charts.get(model, ())

    def day(self) -> Day:
        return self.last_day

    def traps(self) -> TrapLook:
        return self.looked

    def decisions(self) -> tuple[DecisionRow, ...]:
        return self.rows

    async def recorded(self, *, cycle: int | None = None, at: float | None = None) -> RecordedCycle:
        if self.records is None:
            raise NotRecorded("the journal does not have it")
        return self.records(cycle, at)

    async def newer_than(self, after: int) -> int:
        while self.version <= after:
            await self._news.wait()
        return self.version
