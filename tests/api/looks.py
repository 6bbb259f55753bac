"""What pages are made of, for a service that has decided once; a test moves it on."""

import asyncio
from collections.abc import Callable

from rebalancer.api.look import Look, NotRecorded, Recorded
from rebalancer.api.pages import DecisionRow, Point
from rebalancer.api.view import View
from rebalancer.domain.policy import Policy
from tests.builders import a_policy


class SomeLooks:
    """Looks at `view`; `show` puts something else in its place. `records` are the journal."""

    def __init__(self, view: View | None = None, policy: Policy | None = None, seen: Look | None = None) -> None:
        self._view = view
        self._policy = policy or a_policy()
        self._seen = seen
        self._news = asyncio.Event()
        self.move = 0
        self.made = 0
        self.rows: tuple[DecisionRow, ...] = ()
        self.charts: dict[str, tuple[Point, ...]] = {}
        self.records: Callable[[int | None, float | None], Recorded] | None = None

    def show(self, seen: Look) -> None:
        """A cycle has ended; this is what it left."""
        self._seen = seen
        self.move += 1
        news, self._news = self._news, asyncio.Event()
        news.set()

    def look(self) -> Look:
        self.made += 1
        if self._seen is not None:
            return self._seen
        assert self._view is not None
        return Look("e1", self._view.status(), self._view.snapshot(), self._policy)

    def chart(self, model: str) -> tuple[Point, ...]:
        return self.charts.get(model, ())

    def decisions(self) -> tuple[DecisionRow, ...]:
        return self.rows

    async def recorded(self, *, cycle: int | None = None, at: float | None = None) -> Recorded:
        if self.records is None:
            raise NotRecorded("the journal does not have it")
        return self.records(cycle, at)

    async def moved(self, after: int) -> int:
        while self.move <= after:
            await self._news.wait()
        return self.move
