"""A terminal: the command as a process on a pseudo-terminal, its screen read and its keys typed."""

import asyncio
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.cli.running import PROGRAM

PATIENCE_SECONDS = 30.0


class Terminal:
    """One command at work. `screen` is all it has written, escape sequences included."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.screen = ""
        self._process = process
        self._master = master
        self._told = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    async def shows(self, text: str) -> None:
        """Wait until `text` is on the screen."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while text not in self.screen:
                self._told.clear()
                await self._told.wait()

    def type(self, keys: str) -> None:
        """Type; chr(3) is Ctrl-C."""
        os.write(self._master, keys.encode())

    async def ends(self) -> int:
        """Wait for its end; the exit code."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            code = await asyncio.to_thread(self._process.wait)
        self._read()
        return code

    def close(self) -> None:
        """Hang up."""
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def _read(self) -> None:
        try:
            self.screen += os.read(self._master, 65_536).decode()
        except OSError:  # the other side has hung up
            asyncio.get_running_loop().remove_reader(self._master)
        self._told.set()


@asynccontextmanager
async def terminal(*arguments: str, **environment: str) -> AsyncIterator[Terminal]:
    """The command on a terminal of 200 columns, in its own session so that Ctrl-C reaches it."""
    master, slave = pty.openpty()
    process = subprocess.Popen(  # noqa: ASYNC220, S603  our own command, started in no time
        [sys.executable, "-c", PROGRAM, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", **environment},
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509  no thread of ours holds a lock that it needs
    )
    os.close(slave)
    shown = Terminal(process, master)
    try:
        yield shown
    finally:
        shown.close()


def _take_terminal() -> None:
    """Make standard input the session's controlling terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
