"""An event loop that ends once its connections have: what one test leaves open fails that test, and no other."""

import asyncio
import os
import selectors
import socket

GOODBYE_SECONDS = 5.0


class LeftOpen(Exception):
    """Connections that a test's event loop still had when it ended; the message names their peers."""


class ClosingLoop(asyncio.SelectorEventLoop):
    """A closed TLS connection still waits for its peer's goodbye, which no client's stop waits for under all loads.

    A loop that ends before leaves the socket to the collector, whose warning fails whatever test runs then. This one
    gives what is being closed `goodbye_seconds`, and raises LeftOpen for the rest.
    """

    def __init__(self, goodbye_seconds: float = GOODBYE_SECONDS) -> None:
        self._goodbye_seconds = goodbye_seconds
        self._watched = selectors.DefaultSelector()
        super().__init__(self._watched)
        self._own = len(self._watched.get_map())  # the pipe that wakes it

    def close(self) -> None:
        """Raises LeftOpen, having closed."""
        if self.is_closed():
            return
        self.run_until_complete(self._goodbyes())
        left = [_peer(key.fd) for key in self._watched.get_map().values()] if self._open else []
        super().close()
        if left:
            raise LeftOpen(f"still open when the test's event loop ended: {', '.join(sorted(left))}")

    async def _goodbyes(self) -> None:
        ends_at = self.time() + self._goodbye_seconds
        while self._open and self.time() < ends_at:
            await asyncio.sleep(0.01)

    @property
    def _open(self) -> bool:
        return len(self._watched.get_map()) > self._own


def _peer(descriptor: int) -> str:
    with socket.socket(fileno=os.dup(descriptor)) as one:
        try:
            return f"{one.getsockname()} to {one.getpeername()}"
        except OSError:  # listening, or the loop's own pipe
            return str(one)
