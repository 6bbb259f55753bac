"""Child processes of the testbed: free ports, start, health, kill, and nothing left behind."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

# Below the range from which the kernel takes ports for outgoing connections (32768 and up on Linux),
# so that nobody takes a port while the process that owns it is down.
_PORTS = range(20_000, 32_000)
_POLL_SECONDS = 0.05

_handed_out: set[int] = set()


class Failed(Exception):
    """A process did not start, died, or did not become healthy in time; the message ends with its log."""


def free_port() -> int:
    """A loopback port that nobody listens on, and that this run hands out only once."""
    while True:
        port = random.choice(_PORTS)
        if port in _handed_out:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _handed_out.add(port)
        return port


def wait_until(condition: Callable[[], bool], what: str, seconds: float) -> None:
    """Poll `condition` until it holds; raises `Failed(what)` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds:g} s: {what}")
        time.sleep(_POLL_SECONDS)


class Reaper:
    """Kills the process groups it was told of when this process ends, however it ends (kill -9 included).

    Then it removes the folder `scrap`, if one is given. It is a process of its own that reads from a
    pipe: the end of the pipe is the end of its parent. (The kernel's parent-death signal would do, were
    it not bound to the *thread* that started the child.)
    """

    _SCRIPT = """
import os, shutil, signal, sys, time
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
for scrap in sys.argv[1:]:
    for attempt in range(50):  # a dying process may still be making files
        shutil.rmtree(scrap, ignore_errors=True)
        if not os.path.exists(scrap):
            break
        time.sleep(0.1)
"""

    def __init__(self, scrap: Path | None = None) -> None:
        command = [sys.executable, "-I", "-S", "-c", self._SCRIPT, *([str(scrap)] if scrap else [])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def watch(self, group: int) -> None:
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Kill what is still watched, clean up, and end."""
        self._pipe.close()
        self._process.wait()

    @property
    def _pipe(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _tell(self, line: str) -> None:
        self._pipe.write(line)
        self._pipe.flush()


class Process:
    """One program of the testbed: its command, log and health check.

    It keeps port and data over `kill()` and `start()`. The methods block: from an async test call
    them as `await asyncio.to_thread(stack.kafka.kill)`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        healthy: Callable[[], bool],
        reaper: Reaper,
        environment: Mapping[str, str] | None = None,
        start_seconds: float = 60.0,
        stop_seconds: float = 3.0,
    ) -> None:
        self.name = log.stem
        self.command = list(command)
        self.log = log
        self.returncode: int | None = None  # of its last run, once that was ended from here
        self._healthy = healthy
        self._reaper = reaper
        self._environment = {**os.environ, **(environment or {})}
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_offset = 0

    @property
    def pid(self) -> int | None:
        """Its process id while it runs, else None."""
        return self._popen.pid if self._popen is not None and self._popen.poll() is None else None

    def start(self, *extra: str) -> None:
        """Start it (a no-op when it runs) and wait until it is healthy; raises `Failed` with its log.

        `extra` arguments hold for this start only; for Go programs a repeated flag's last value wins.
        """
        if self.pid is None:
            self.launch(*extra)
        self.wait_healthy()

    def launch(self, *extra: str) -> None:
        """Start it without waiting; `wait_healthy` waits."""
        self._log_offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [*self.command, *extra],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self.log.parent,
                start_new_session=True,
            )
        self._reaper.watch(self._popen.pid)

    def wait_healthy(self) -> None:
        try:
            wait_until(self._healthy_or_dead, f"{self.name} healthy", self._start_seconds)
        except Failed as error:
            raise Failed(f"{error}\n{self.log_tail()}") from None
        if self.pid is None:
            raise Failed(f"{self.name} ended by itself\n{self.log_tail()}")

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end (SIGTERM); after `stop_seconds` it is killed: an API server waits for open watches."""
        self._end(signal.SIGTERM)

    def restart(self, *extra: str) -> None:
        """Stop and start on the same port and data, with `extra` arguments for this run."""
        self.stop()
        self.start(*extra)

    def log_since_start(self) -> str:
        """What it has logged since it was last started."""
        with self.log.open("rb") as log:
            log.seek(self._log_offset)
            return log.read().decode(errors="replace")

    def log_tail(self, lines: int = 40, width: int = 240) -> str:
        """The last lines, each cut to `width` characters: a controller may log a whole object in one."""
        tail = [line[:width] for line in self.log_since_start().splitlines()[-lines:]]
        return "\n".join([f"--- the end of {self.log}", *tail, "---"])

    def _healthy_or_dead(self) -> bool:
        return self.pid is None or self._healthy()

    def _end(self, signal_number: signal.Signals) -> None:
        if self._popen is None:
            return
        group = self._popen.pid
        if self._popen.poll() is None:
            os.killpg(group, signal_number)
            try:
                self._popen.wait(self._stop_seconds)
            except subprocess.TimeoutExpired:
                os.killpg(group, signal.SIGKILL)
                self._popen.wait()
        self._reaper.forget(group)
        self.returncode = self._popen.returncode
        self._popen = None


def start_together(processes: Sequence[Process]) -> None:
    """Start those that do not run, side by side, and wait for all."""
    for process in processes:
        if process.pid is None:
            process.launch()
    for process in processes:
        process.wait_healthy()
