"""What several rows do: freeze a process, leave it little CPU, speak as somebody else, run a second replica."""

import asyncio
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.faults.scene import Scene
from tests.real.crashing import Point
from tests.real.service import Service
from tests.real.traffic import cloud_event
from tests.testbed.process import Failed

SAMPLE = "io.rebalancer.metric.sample.v1"
NOTICE = "io.rebalancer.capacity.notice.v1"
_SLICE_SECONDS = 0.1
_LIFE_SECONDS = 60.0


@asynccontextmanager
async def frozen(pid: int | None) -> AsyncIterator[None]:
    """Stopped by SIGSTOP until the context ends."""
    assert pid is not None, "it does not run"
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def to_die_at(scene: Scene, point: Point) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """The service ends as by kill -9, runs anew, and ends at that point: what the context has waits for that.

    When the context ends it runs as before.
    """
    settings = scene.service.settings
    scene.now.kills += 2
    await scene.service.kill()
    settings |= {"DEV": "true", "CRASH_AT": str(point)}

    async def ended() -> bool:
        return scene.service.pid is None

    async def until_then() -> None:
        await scene.until(ended, f"it ends at {point}", _LIFE_SECONDS)

    try:
        with suppress(Failed):  # it may end before it answers
            await scene.service.start(ready=False)
        yield until_then
    finally:
        for name in ("DEV", "CRASH_AT"):
            settings.pop(name)
        await scene.service.kill()
        await scene.service.start()


@asynccontextmanager
async def begun_by(scene: Scene, script: str) -> AsyncIterator[None]:
    """A shell begins the service: `script` has its command as `"$@"`. When the context ends it runs as before."""
    scene.now.kills += 2
    assert await scene.service.stop() == 0
    scene.service.begun_by = ("sh", "-c", script, "sh")
    try:
        await scene.service.start()
        yield
    finally:
        scene.service.begun_by = ()
        assert await scene.service.stop() == 0, "it ends in order, whatever was done to it"
        await scene.service.start()


async def starved(scene: Scene, seconds: float, share: float) -> None:
    """Let the service have such a share of its time only, a slice after the other."""
    pid, scene.now.stopped = scene.service.pid, True
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        async with frozen(pid):
            await asyncio.sleep(_SLICE_SECONDS * (1 - share))
        await asyncio.sleep(_SLICE_SECONDS * share)


@asynccontextmanager
async def few_descriptors(scene: Scene) -> AsyncIterator[None]:
    """The service may open no more files and connections than it has."""
    pid = scene.service.pid
    assert pid is not None
    open_now = len(await asyncio.to_thread(os.listdir, f"/proc/{pid}/fd"))
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now, before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def sample(model: str, at: float, gauges: str = '{"running": 1}', kind: str = SAMPLE) -> bytes:
    """A sample with gauges that are spelled as given, whatever JSON has to say to that."""
    marked = cloud_event(kind, {"model": model, "intervalSeconds": 1.0, "gauges": {"running": 4242}}, at)[1]
    return marked.replace(b'{"running": 4242}', gauges.encode())


async def sent(scene: Scene, *values: bytes, topic: str = "metrics") -> None:
    """These records, acknowledged, in this order."""
    for value in values:
        await scene.traffic.send(topic, value, key=b"chat")


@asynccontextmanager
async def standby(scene: Scene, name: str = "rb-1") -> AsyncIterator[Service]:
    """A second replica by this name; in the end the first one alone runs and leads."""
    folder = scene.service.folder / f"standby-{len(scene.others)}"
    await asyncio.to_thread(folder.mkdir)
    other = await asyncio.to_thread(_second, scene, folder, name)
    scene.others.append(other)
    await other.policy(scene.policy)
    await other.start()
    try:
        yield other
    finally:
        if scene.service.pid is None:  # it lost the lease, and ended itself
            scene.now.kills += 1
            await scene.service.kill()
            await scene.service.start()
        await other.stop()
        await other.close()


def _second(scene: Scene, folder: Path, name: str) -> Service:
    first = scene.service
    other = Service(
        scene.stack, scene.kafka, Path(first.settings["KUBECONFIG"]), first.account, f"{scene.namespace}-", folder
    )
    own = {key: other.settings[key] for key in ("POLICY_PATH", "JOURNAL_DIR", "API_PORT", "PROBE_PORT")}
    other.settings = {**first.settings, **own, "INSTANCE": name}
    return other
