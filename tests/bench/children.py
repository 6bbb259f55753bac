"""Helper programs in processes of their own, so that they do not share the measured one's core and lock.

Each is a module with a `main`; it ends at the end of its stdin, so none outlives this process, however it ends.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

START_SECONDS = 60.0
END_SECONDS = 10.0


class Child:
    """A running helper; it speaks by lines."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process

    async def line(self, seconds: float = START_SECONDS) -> str:
        """The next line it says. Raises RuntimeError when it ended, TimeoutError when it says nothing."""
        assert self._process.stdout is not None
        async with asyncio.timeout(seconds):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with code {await self._process.wait()}: see its words above")
        return line.decode().strip()

    def tell(self, line: str) -> None:
        """A line for its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    def finish(self) -> None:
        """Tell it that it is no longer needed; it may still have something to say."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def end(self) -> None:
        """Gone, in good order or not."""
        self.finish()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def child(name: str, *arguments: object) -> AsyncIterator[Child]:
    """`python -m tests.bench.NAME ARGUMENTS`, ended when the context ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"tests.bench.{name}",
        *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    running = Child(name, process)
    try:
        yield running
    finally:
        await running.end()


def say(line: str) -> None:
    """From inside a helper to whoever started it."""
    print(line, flush=True)


def until_the_end() -> None:
    """Blocks a helper until whoever started it is done with it."""
    sys.stdin.read()
