"""A leader and its standby as processes: whoever dies comes up anew beside the other one, to die somewhere else."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.real.crashing import Point
from tests.real.service import Service
from tests.testbed.audit import Write
from tests.testbed.kafka import Kafka
from tests.testbed.process import Failed
from tests.testbed.stack import Stack

LEASE = "rebalancer"
LOOK_SECONDS = 0.05


@asynccontextmanager
async def second_replica(first: Service, stack: Stack, kafka: Kafka, folder: Path) -> AsyncIterator[Service]:
    """Another process of the same installation; from now on they agree by a Lease who acts."""
    kubeconfig, prefix = Path(first.settings["KUBECONFIG"]), first.settings["TOPIC_PREFIX"]
    second = await asyncio.to_thread(Service, stack, kafka, kubeconfig, first.account, prefix, folder)
    ports = {name: second.settings[name] for name in ("API_PORT", "PROBE_PORT", "JOURNAL_DIR")}
    first.settings |= {"LEASE_NAME": LEASE, "INSTANCE": "rb-0"}
    second.settings = {**first.settings, **ports, "INSTANCE": "rb-1"}
    try:
        yield second
    finally:
        print(await asyncio.to_thread(second.log_tail))  # pytest shows it for a failed test
        await second.close()


@dataclass
class Pair:
    """`missed`: points that nobody came to. `seconds`: from each death of a leader alone until the next one acts."""

    leading: Service
    standing: Service
    missed: list[Point] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    _point: Point | None = None  # where the leader is to die; None: it has died there before it led

    async def begin(self) -> None:
        """The first one leads."""
        began = time.time()
        await start(self.leading, None)
        await acts(self.leading, began)

    async def next_life(self, point: Point | None, seconds: float) -> None:
        """Another one comes up, to die at `point` in its turn; the leader dies where it is to, and is followed."""
        await start(self.standing, point)
        until = time.monotonic() + seconds
        while self._point is not None and self.leading.pid is not None and time.monotonic() < until:
            point = await self._alive(point)
            await asyncio.sleep(LOOK_SECONDS)
        point = await self._alive(point)
        if self.leading.pid is not None and self._point is not None:
            self.missed.append(self._point)
        died = time.time()
        await self.leading.kill()
        following = asyncio.create_task(acts(self.standing, died - 2 * LOOK_SECONDS))
        alone = True
        while not following.done():
            alone, point = (alone, point) if self.standing.pid else (False, await self._alive(point))
            await asyncio.sleep(LOOK_SECONDS)
        acts_at = following.result()
        if alone:  # else both had died
            self.seconds.append(acts_at - died)
        self._point = point
        self.leading, self.standing = self.standing, self.leading

    async def _alive(self, point: Point | None) -> Point | None:
        """Who stands by; it may have come to its point as such."""
        if self.standing.pid is not None:
            return point
        await start(self.standing, None)
        return None

    def told(self) -> str:
        """For people: the middle and the longest of `seconds`."""
        ordered = sorted(self.seconds)
        if not ordered:
            return "nobody yet"
        return f"{ordered[len(ordered) // 2]:.1f} s, at most {ordered[-1]:.1f} s, of {len(ordered)}"


async def start(service: Service, point: Point | None) -> None:
    """Let it come up, to end at that point."""
    service.settings |= {"DEV": "true", "CRASH_AT": str(point or "")}
    with suppress(Failed):  # it may end before it answers
        await service.start(ready=False)


async def acts(service: Service, since: float, seconds: float = 40.0) -> float:
    """When it began to act as the leader, by its log."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for line in reversed((await service.log()).splitlines()):
            if '"event": "acts"' in line:
                at = datetime.fromisoformat(json.loads(line)["timestamp"]).timestamp()
                if at >= since:
                    return at
                break
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"{service.settings['INSTANCE']} does not lead within {seconds:g} s")


def epoch_of(write: Write) -> int:
    """The term in which a replica wrote: it names itself and its term to the API server."""
    found = re.search(r"epoch (\d+)", write.agent)
    return int(found[1]) if found is not None else 0
