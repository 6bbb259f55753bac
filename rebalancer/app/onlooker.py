"""The port that hears how an observing service comes up: a person's terminal, or the log."""

from typing import Protocol

import structlog

from rebalancer.app.backfill import Backfilled

log = structlog.get_logger()


class Onlooker(Protocol):
    """Hears of a start, in this order."""

    def serves(self, api_port: int) -> None:
        """Console and API answer."""
        ...

    def waits(self, what: str) -> None:
        """The start waits for `what`, told again while it does."""
        ...

    def reads(self, done: int, of: int) -> None:
        """Tells that `done` of `of` pieces of the past are read."""
        ...

    def knows(self, past: Backfilled) -> None:
        """The past is read."""
        ...

    def knows_nothing(self, why: str) -> None:
        """The past cannot be had; the service goes on without."""
        ...


class LoggedOnlooker:
    """Implements `Onlooker` by log lines."""

    def serves(self, api_port: int) -> None:
        """Console and API answer."""
        log.info("observes", api_port=api_port)

    def waits(self, what: str) -> None:
        """The start waits for `what`."""
        log.info("waits", what=what)

    def reads(self, done: int, of: int) -> None:
        """One line for each piece."""
        log.info("reads the past", pieces=done, of=of)

    def knows(self, past: Backfilled) -> None:
        """One line for each model."""
        for use in past.use:
            log.info("past", model=use.model, hours=use.hours, gpus=use.gpus, busy=use.busy, idle=use.idle_gpu_hours)
        for why in past.missing:
            log.warning("a part of the past is missing", why=why)

    def knows_nothing(self, why: str) -> None:
        """One warning."""
        log.warning("no past", why=why)
