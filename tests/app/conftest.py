"""The whole service, in this process, on embedded parts and a simulated cluster that run four times as fast as life."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from rebalancer.app import Service
from rebalancer.app.effects import EFFECTS
from rebalancer.loop.clock import ScaledClock
from rebalancer.obs.effects import WATCH
from rebalancer.sandbox.demo_cluster import POLICY_FILE, DemoCluster, build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from rebalancer.settings.service import ServiceSettings

SPEED = 4.0
USER = "rebalancer"
POLL_SECONDS = 0.05

Started = Callable[..., AbstractAsyncContextManager[Service]]


@pytest.fixture(autouse=True)
def login_may_block(may_block: None) -> None:
    """The client library's login runs in a thread with a loop of its own, where it may read files."""


@pytest.fixture
def clock() -> ScaledClock:
    return ScaledClock(SPEED)


@pytest.fixture
def cluster(clock: ScaledClock) -> DemoCluster:
    return build(demo_policy(), clock.now())


@pytest.fixture
async def sandbox(clock: ScaledClock, cluster: DemoCluster) -> AsyncIterator[Sandbox]:
    async with Sandbox(clock, cluster.world) as sandbox:
        yield sandbox


@pytest.fixture
def policy_path(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY_FILE.read_text())
    return path


@pytest.fixture
def started(sandbox: Sandbox, clock: ScaledClock, policy_path: Path, tmp_path: Path) -> Started:
    """Enter what it makes: a service that runs, and is stopped in order. Arguments are settings.

    `loses`: it is to lose its Lease, after which a thread would end its process. Whatever it does outside of itself has
    a name that the page of side effects knows.
    """
    kubeconfig = tmp_path / "kubeconfig"
    sandbox.kubernetes.write_kubeconfig(kubeconfig, USER)

    @asynccontextmanager
    async def start(*, loses: bool = False, **changed: object) -> AsyncIterator[Service]:
        fields: dict[str, Any] = {
            "kafka_bootstrap": sandbox.bootstrap,
            "kafka_security_protocol": "PLAINTEXT",
            "kubeconfig": kubeconfig,
            "policy_path": policy_path,
            "journal_dir": tmp_path / "journal",
            "api_auth": "none",
            "api_port": 0,
            "probe_port": 0,
            "checkpoint_seconds": 4.0,
        }
        settings = ServiceSettings(**(fields | changed))
        ended = threading.Event()
        effects: set[str] = set()
        WATCH.set(lambda name, _key, _when: effects.add(name))
        service = Service(settings, clock, end=ended.set)  # the other end is that of pytest, without a word
        starting = asyncio.ensure_future(service.start())
        try:
            yield service
        finally:
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            await service.stop()
        assert effects <= EFFECTS.keys()
        assert loses or not ended.is_set(), (
            "the loop hung for longer than the Lease, whose seconds are a quarter of one here"
        )

    return start


async def get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON body of a route."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
        return response.status, msgspec.json.decode(await response.read(), type=dict)


async def until(condition: Callable[[], object], what: str, seconds: float = 45.0) -> None:
    """Wait until `condition()` is true; fail saying `what` did not come."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        pytest.fail(f"within {seconds:.0f} s: {what}")
