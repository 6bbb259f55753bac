"""What /readyz said, when: asked all the time, so that one can say afterwards whether it told the truth."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from tests.real.service import Service

_LOOK_SECONDS = 0.2


@dataclass
class Readiness:
    """`said`: (when, what was unready with its words), oldest first; None where nobody answered."""

    said: list[tuple[float, dict[str, str] | None]] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def of(cls, service: Service) -> AsyncIterator["Readiness"]:
        """Ask until the context ends."""
        readiness = cls()
        task = asyncio.create_task(readiness._ask(service))
        try:
            yield readiness
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def complaints(self, since: float, until: float) -> list[set[str]]:
        """What was unready at each look within [since, until); an empty set is a yes."""
        return [set(what) for at, what in self.said if since <= at < until and what is not None]

    def first(self, what: str, since: float) -> float:
        """How many seconds after `since` it first complained of `what`; inf when it never did."""
        return next((at - since for at, told in self.said if at >= since and what in (told or ())), float("inf"))

    async def _ask(self, service: Service) -> None:
        while True:
            try:
                told: dict[str, str] | None = await service.unready()
            except (aiohttp.ClientError, OSError):
                told = None
            self.said.append((time.time(), told))
            await asyncio.sleep(_LOOK_SECONDS)
