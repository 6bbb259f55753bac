"""What a stretch of time left behind, by others' records: what the invariants are judged by."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.real.occupancy import Pods
from tests.real.readiness import Readiness
from tests.real.service import Service
from tests.testbed.audit import Write

Json = dict[str, Any]

_LOOK_SECONDS = 0.5
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
    """The process at an instant: resident MiB, open descriptors, seconds of CPU, bytes of log, threads."""

    at: float
    resident_mib: float
    descriptors: int
    cpu_seconds: float
    log_bytes: int
    threads: int = 0


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
    overrides: objects of people, with their status, at the end.
    quiet_since: the instant at which state was as desired; None where that did not come.
    acknowledged: how many samples Kafka took that the service may not forget.
    unaccounted: those of them that no checkpoint has.
    gone: spans whose records the row took away before anybody read them.
    altered: what the row changed on the way: (target, replicas that arrived) -> replicas that were asked for.
    work: what each model said: (when, replicas that its requests keep busy); empty: that it needs all it has.
    ended_by_itself: how often the process ended though nobody ended it.
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

    @property
    def own(self) -> list[Write]:
        """Our writes in the span, Kubernetes Events left out: nothing rests on them."""
        return [write for write in self.writes if write.user == self.ours and write.resource != "events"]


@asynccontextmanager
async def watched(service: Service, vitals: list[Vitals]) -> AsyncIterator[None]:
    """Look at the process all the time until the context ends."""

    async def look() -> None:
        while True:
            with suppress(OSError, ValueError):  # it has just ended, or does not run
                vitals.append(await asyncio.to_thread(_vitals, service))
            await asyncio.sleep(_LOOK_SECONDS)

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


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
    )
