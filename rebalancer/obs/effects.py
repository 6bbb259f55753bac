"""Side effects by name: whatever the service changes outside of its memory passes `effect`, where a test may end it.

The doors are few: `kube.calls` for the API server, `kafka.outbox`, `kafka.broker` and `kafka.group` for Kafka,
`aws.queue` for a queue, `obs.journal_files`, `obs.predictions` and `app.backfill` for the disk; each says beside itself
which names it has (`EFFECTS`). Where nobody watches, an effect costs a look-up.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Literal, Self

import structlog

When = Literal["before", "after"]
Watch = Callable[[str, str, When], None]
"""Told of each effect's name, what it is done to, and whether it is about to happen or has just happened."""

WATCH: Final[ContextVar[Watch | None]] = ContextVar("effects", default=None)
"""Who watches the effects of tasks that begin from here on; one process has one, tests have one for each they play."""

log = structlog.get_logger()


@contextmanager
def effect(name: str, key: str) -> Iterator[None]:
    """The block does one thing outside of this process: `name`, to `key`. If it raises, it may not have been done."""
    watch = WATCH.get()
    if watch is not None:
        watch(name, key, "before")
    yield
    if watch is not None:
        watch(name, key, "after")


def kill_this_process() -> None:
    """Ends this process as the kernel does when memory runs out: no handler runs, and one line says so."""
    os.write(2, b"ended at an effect, as REBALANCER_CRASH_AT says\n")
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(slots=True)
class CrashAt:
    """Ends the process at the `nth` time that an effect is to happen, or has happened. A `Watch`.

    name: name of the effect.
    nth: which of its times in this process, from 1 on.
    when: just before it, or just after it.
    end: what ends the process.
    _times: how often each effect has come to `when` in this process, by name.
    """

    name: str
    nth: int
    when: When
    end: Callable[[], None] = kill_this_process
    _times: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, text: str) -> Self:
        """What `NAME:NTH:before` or `NAME:NTH:after` says, whose shape the settings have checked."""
        name, nth, when = text.split(":")
        return cls(name, int(nth), "before" if when == "before" else "after")

    def __call__(self, name: str, key: str, when: When) -> None:
        """Log the effect, so that one reads what came before the end, and end where it is time."""
        log.info("effect", name=name, key=key, when=when)
        if when == self.when:
            self._times[name] += 1
            if name == self.name and self._times[name] == self.nth:
                self.end()
