"""Ends a process whose right to act has ended: from a thread, for the event loop may be what hangs."""

import os
import sys
import threading
from collections.abc import Callable
from typing import Final

LOOK_SECONDS: Final = 0.1
GRACE_SECONDS: Final = 2.0
"""To go down in order. Nothing is written in it: the gate asks for the right itself."""

EXIT_CODE: Final = 1


class Watchdog:
    """A daemon thread from `start()` to `stop()`. `ended_seconds`: how long ago the right ended; asked in the thread.

    A process that was frozen finds it so at its first look, and has had its grace.
    """

    def __init__(self, ended_seconds: Callable[[], float], end: Callable[[], None]) -> None:
        self._ended_seconds = ended_seconds
        self._end = end
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            if self._ended_seconds() >= GRACE_SECONDS:
                self._end()
                return


def end_process() -> None:
    """At once: no handler, no buffer that may hang."""
    sys.stderr.write("the right to act has ended and the process did not end by itself: it is ended\n")
    os._exit(EXIT_CODE)
