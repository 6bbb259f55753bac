"""What a stretch of time left behind, by others' records: what the invariants are judged by."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from tests.real.occupancy import Pods
from tests.real.readiness import Readiness
from tests.real.service import Service
from tests.testbed.audit import Write

Json = dict[str, Any]

TASKS = "tasks"
_LOOK_SECONDS = 0.5
_ASK_SECONDS = 2.0
_LAG = "rebalancer_event_loop_lag_seconds"
_LATE_SECONDS = (0.2, 0.5, 1.0, 5.0)  # the metric's own bounds
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True)
class Rules:
    """What the policy of the scene promises; `replicas` is what each model asked for at the beginning."""

    floors: Mapping[str, int]
    entitlements: Mapping[str, int]
    gpus: int
    share: float
    window_seconds: float
    replicas: Mapping[str, int]


class Span(NamedTuple):
    """From when until when, in epoch seconds."""

    since: float
    until: float


class Vitals(NamedTuple):
    """The process at an instant: resident MiB, open descriptors, seconds of CPU, bytes of log, threads.

    tasks: of asyncio, where it was started so that it counts them (`counted.py`), else 0.
    """

    at: float
    resident_mib: float
    descriptors: int
    cpu_seconds: float
    log_bytes: int
    threads: int = 0
    tasks: int = 0


class Lag(NamedTuple):
    """What a process says of its event loop: how many looks since its start were late by more than each bound (s).

    waited_seconds: that its main thread waited for a CPU since then.
    """

    pid: int
    waited_seconds: float
    late: Mapping[float, int]


class Notice(NamedTuple):
    """A notice about a node on which something is to be done, and when the service was sent it."""

    at: float
    node: str


@dataclass
class Evidence:
    """`ours` is the account that is judged; `writes` are everybody's in the namespace and on nodes, by the audit log.

    pods: who held GPUs when, those who came before the row included.
    calls: requests of the service to the API server, as the link saw them: (when, method, path).
    connections: when it opened a connection to the broker.
    journal: lines of its journal, restarts included.
    kills: how often it was killed, or may have ended itself.
    blind: spans in which a model's readings were all stale: its name, from when, until when.
    blamed: what /readyz had to complain of, since when.
    overrides: objects of people, with their status, at the end or when the row took them away.
    quiet_since: the instant at which state was as desired; None where that did not come.
    acknowledged: how many samples Kafka took that the service may not forget.
    unaccounted: those of them that no checkpoint has.
    gone: spans whose records the row took away before anybody read them.
    altered: what the row changed on the way: (target, replicas that arrived) -> replicas that were asked for.
    work: what each model said: (when, replicas that its requests keep busy); empty: that it needs all it has.
    ended_by_itself: how often the process ended though nobody ended it.
    lags: what each of its processes said of its event loop, oldest first.
    stopped: whether the row itself stopped the process for a while, and its event loop with it.
    """

    ours: str
    namespace: str
    rules: Rules
    span: Span
    writes: list[Write] = field(default_factory=list)
    pods: Pods = field(default_factory=Pods)
    leases: list[Write] = field(default_factory=list)
    calls: list[tuple[float, str, str]] = field(default_factory=list)
    connections: list[float] = field(default_factory=list)
    journal: list[Json] = field(default_factory=list)
    kills: int = 0
    blind: list[tuple[str, Span]] = field(default_factory=list)
    blamed: list[tuple[str, float]] = field(default_factory=list)
    overrides: list[Json] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    vitals: list[Vitals] = field(default_factory=list)
    readiness: Readiness = field(default_factory=Readiness)
    quiet_since: float | None = None
    acknowledged: int = 0
    unaccounted: list[str] = field(default_factory=list)
    gone: list[Span] = field(default_factory=list)
    altered: dict[tuple[str, int], int] = field(default_factory=dict)
    work: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    ended_by_itself: int = 0
    lags: list[Lag] = field(default_factory=list)
    stopped: bool = False

    @property
    def own(self) -> list[Write]:
        """Our writes in the span, Kubernetes Events left out: nothing rests on them."""
        return [write for write in self.writes if write.user == self.ours and write.resource != "events"]


@asynccontextmanager
async def watched(service: Service, evidence: Evidence) -> AsyncIterator[None]:
    """Look at the process, and ask it for its event loop's lag, all the time until the context ends."""

    async def look() -> None:
        while True:
            with suppress(OSError, ValueError):  # it has just ended, or does not run
                evidence.vitals.append(await asyncio.to_thread(_vitals, service))
            await asyncio.sleep(_LOOK_SECONDS)

    async def ask() -> None:
        while True:
            with suppress(aiohttp.ClientError, OSError):
                evidence.lags.append(await _lag(service))
            await asyncio.sleep(_ASK_SECONDS)

    tasks = asyncio.create_task(look()), asyncio.create_task(ask())
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _lag(service: Service) -> Lag:
    """By the process' own metric. Raises OSError where it does not run, or was another one when it answered."""
    if (pid := service.pid) is None:
        raise ProcessLookupError("it does not run")
    series = await service.metrics()
    waited = await asyncio.to_thread(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text)
    late = {bound: int(series[f"{_LAG}_count"] - series[f'{_LAG}_bucket{{le="{bound}"}}']) for bound in _LATE_SECONDS}
    if service.pid != pid:
        raise ProcessLookupError(f"{pid} has ended")
    return Lag(pid, int(waited.split()[1]) / 1e9, late)


def _vitals(service: Service) -> Vitals:
    process = Path(f"/proc/{service.pid}")
    pages = int((process / "statm").read_text().split()[1])
    times = (process / "stat").read_text().rpartition(")")[2].split()
    ticks = int(times[11]) + int(times[12])
    return Vitals(
        time.time(),
        pages * _PAGE_MIB,
        sum(1 for _ in (process / "fd").iterdir()),
        ticks / os.sysconf("SC_CLK_TCK"),
        (service.folder / "service.log").stat().st_size,
        int(times[17]),
        int(tasks.read_text()) if (tasks := service.folder / TASKS).exists() else 0,
    )
