"""Two replicas of the service behind one address, as behind a Service of Kubernetes, in a thread of their own."""

import asyncio
import queue
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rebalancer.app import Service
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_cluster import build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from tests.api.living import POLL_SECONDS, settings

START_SECONDS = 90.0  # two starts, where cores are shared
NAMES = ("rb-0", "rb-1")


@dataclass
class Replicas:
    """`front`: the address of both, which leads to the first that still answers; `standby`: that of rb-1 alone."""

    front: str = ""
    standby: str = ""
    leader_ends: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def two_replicas(folder: Path, speed: float) -> Iterator[Replicas]:
    """Both have decided, and rb-0 leads; `leader_ends` ends that one in order."""
    for name in NAMES:
        (folder / name).mkdir()
    replicas, began = Replicas(), queue.Queue[BaseException | None]()
    thread = threading.Thread(target=lambda: asyncio.run(_live(folder, speed, replicas, began)), name="replicas")
    thread.start()
    try:
        trouble = began.get(timeout=START_SECONDS)
        if trouble is not None:
            raise trouble
        yield replicas
    finally:
        replicas.over.set()
        thread.join(START_SECONDS)


async def _live(folder: Path, speed: float, replicas: Replicas, began: "queue.Queue[BaseException | None]") -> None:
    clock = ScaledClock(speed)
    try:
        async with AsyncExitStack() as stack:
            sandbox = await stack.enter_async_context(Sandbox(clock, build(demo_policy(), clock.now()).world))
            services = [await _started(stack, folder / name, sandbox, clock) for name in NAMES]
            server = await asyncio.start_server(lambda *ends: _forward(services, *ends), "127.0.0.1", 0)
            await stack.enter_async_context(server)
            replicas.front = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            replicas.standby = f"http://127.0.0.1:{services[1].servers.api_port}"
            began.put(None)
            await _until(lambda: replicas.leader_ends.is_set() or replicas.over.is_set())
            if not replicas.over.is_set():
                await services.pop(0).stop()
            await _until(replicas.over.is_set)
            server.close()
    except BaseException as error:
        began.put(error)
        raise


async def _started(stack: AsyncExitStack, folder: Path, sandbox: Sandbox, clock: ScaledClock) -> Service:
    common = {"write_mode": "act", "lease_name": "rebalancer", "api_auth": "none", "cluster_name": "prod-eu"}
    service = Service(settings(folder, sandbox, {**common, "instance": folder.name}), clock)
    stack.push_async_callback(service.stop)
    await service.start()
    await _until(lambda: service.plan is not None and not service.reporter.unready())
    return service


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(POLL_SECONDS)


async def _forward(services: list[Service], reader: StreamReader, writer: StreamWriter) -> None:
    """One connection, to the first replica that is there."""
    with suppress(OSError):
        inner = await asyncio.open_connection("127.0.0.1", services[0].servers.api_port)
        await asyncio.gather(_pipe(reader, inner[1]), _pipe(inner[0], writer))
    writer.close()


async def _pipe(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(OSError):
        while some := await reader.read(65_536):
            writer.write(some)
            await writer.drain()
    writer.close()
