"""The stored predictions beside the journal, read again each minute for metrics; `rebalancer report` writes them."""

import asyncio
from pathlib import Path
from typing import NoReturn

from rebalancer.obs.clock import Clock
from rebalancer.obs.predictions import NAME, DayPrediction, stored

LOOK_SECONDS = 60.0


class StoredPredictions:
    """What the file in the journal's folder has; `known` stays as it was where it cannot be read."""

    def __init__(self, journal_dir: Path, clock: Clock) -> None:
        self._path = journal_dir / NAME
        self._clock = clock
        self.known: tuple[DayPrediction, ...] = ()

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Read it."""
        try:
            self.known = await asyncio.to_thread(stored, self._path)
        except OSError:
            return
