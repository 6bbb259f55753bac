"""The command as tests run it: in a thread, since the servers it asks live in the test's event loop."""

import asyncio
import subprocess
import sys

from rebalancer.cli.entry import run

PROGRAM = "import sys; from rebalancer.cli import main; sys.exit(main())"


async def rebalancer(*arguments: str) -> int:
    """Run the command; its exit code."""
    return await asyncio.to_thread(run, list(arguments))


def process(*arguments: str, code: str = PROGRAM, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """The command as a process of its own, with pipes."""
    return subprocess.Popen(  # noqa: S603  our own command
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
