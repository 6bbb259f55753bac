"""Two replicas of the service behind one address, as behind a Service of Kubernetes."""

import asyncio
import queue
import sys
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rebalancer.app import Service
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_cluster import build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from rebalancer.settings.service import ServiceSettings
from tests.api.living import POLL_SECONDS, settings
from tests.testbed.place import answers
from tests.testbed.process import Process, Reaper, free_port

START_SECONDS = 120.0  # two starts, where cores are shared
NAMES = ("rb-0", "rb-1")
COMMON: dict[str, Any] = {
    "write_mode": "act",
    "lease_name": "rebalancer",
    "api_auth": "none",
    "cluster_name": "prod-eu",
}


@dataclass
class Replicas:
    """`front`: the address of both, which leads to the first that still answers; `standby`: that of rb-1 alone."""

    front: str = ""
    standby: str = ""
    leader_ends: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


@dataclass
class Replica:
    """One of them: its port, and how it ends."""

    port: int
    end: Callable[[], Any]


Replicated = Callable[[Path, Sandbox, ScaledClock], AbstractAsyncContextManager[Replica]]


@contextmanager
def two_replicas(folder: Path, speed: float) -> Iterator[Replicas]:
    """Both have decided, and rb-0 leads; `leader_ends` ends that one in order. All of it in a thread of its own."""
    with _replicas(folder, speed, _in_this_process) as replicas:
        yield replicas


@contextmanager
def two_processes(folder: Path) -> Iterator[Replicas]:
    """As `two_replicas`, but each is `rebalancer run`, and `leader_ends` is kill -9."""
    with _replicas(folder, 1.0, _as_process) as replicas:
        yield replicas


@contextmanager
def _replicas(folder: Path, speed: float, replicated: Replicated) -> Iterator[Replicas]:
    for name in NAMES:
        (folder / name).mkdir()
    replicas, began = Replicas(), queue.Queue[BaseException | None]()
    living = (folder, speed, replicated, replicas, began)
    thread = threading.Thread(target=lambda: asyncio.run(_live(*living)), name="replicas")
    thread.start()
    try:
        trouble = began.get(timeout=START_SECONDS)
        if trouble is not None:
            raise trouble
        yield replicas
    finally:
        replicas.over.set()
        thread.join(START_SECONDS)


async def _live(
    folder: Path, speed: float, replicated: Replicated, replicas: Replicas, began: "queue.Queue[BaseException | None]"
) -> None:
    clock = ScaledClock(speed)
    try:
        async with AsyncExitStack() as stack:
            sandbox = await stack.enter_async_context(Sandbox(clock, build(demo_policy(), clock.now()).world))
            both = [await stack.enter_async_context(replicated(folder / name, sandbox, clock)) for name in NAMES]
            server = await asyncio.start_server(lambda *ends: _forward(both, *ends), "127.0.0.1", 0)
            await stack.enter_async_context(server)
            replicas.front = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            replicas.standby = f"http://127.0.0.1:{both[1].port}"
            began.put(None)
            await _until(lambda: replicas.leader_ends.is_set() or replicas.over.is_set())
            if not replicas.over.is_set():
                await both.pop(0).end()
            await _until(replicas.over.is_set)
            server.close()
    except BaseException as error:
        began.put(error)
        raise


@asynccontextmanager
async def _in_this_process(folder: Path, sandbox: Sandbox, clock: ScaledClock) -> AsyncIterator[Replica]:
    hung = threading.Event()
    service = Service(settings(folder, sandbox, {**COMMON, "instance": folder.name}), clock, end=hung.set)
    try:
        await service.start()
        await _until(lambda: service.plan is not None and not service.reporter.unready())
        yield Replica(service.servers.api_port, service.stop)
    finally:
        await service.stop()
    assert not hung.is_set(), "the loop hung for longer than the Lease"


@asynccontextmanager
async def _as_process(folder: Path, sandbox: Sandbox, _clock: ScaledClock) -> AsyncIterator[Replica]:
    ports = {"api_port": free_port(), "probe_port": free_port()}
    made = settings(folder, sandbox, {**COMMON, **ports, "instance": folder.name})
    reaper = Reaper()
    process = Process(
        [str(Path(sys.executable).parent / "rebalancer"), "run"],
        log=folder / "service.log",
        healthy=lambda: answers(ports["probe_port"], "/readyz"),
        reaper=reaper,
        environment=_environment(made),
        stop_seconds=20.0,
    )
    try:
        await asyncio.to_thread(process.start)
        yield Replica(ports["api_port"], lambda: asyncio.to_thread(process.kill))
    finally:
        await asyncio.to_thread(process.kill)
        await asyncio.to_thread(reaper.close)


def _environment(made: ServiceSettings) -> dict[str, str]:
    """What was said of the settings, as the process is told it."""
    return {f"REBALANCER_{name.upper()}": str(getattr(made, name)) for name in made.model_fields_set}


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(POLL_SECONDS)


async def _forward(replicas: list[Replica], reader: StreamReader, writer: StreamWriter) -> None:
    """One connection, to the first replica that is there."""
    with suppress(OSError):
        inner = await asyncio.open_connection("127.0.0.1", replicas[0].port)
        await asyncio.gather(_pipe(reader, inner[1]), _pipe(inner[0], writer))
    writer.close()


async def _pipe(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(OSError):
        while some := await reader.read(65_536):
            writer.write(some)
            await writer.drain()
    writer.close()
