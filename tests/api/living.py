"""The whole service on embedded parts, alive in a thread of its own: for clients that block."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rebalancer.app import Service
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_cluster import POLICY_FILE, build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from rebalancer.settings.service import ServiceSettings

START_SECONDS = 40.0
POLL_SECONDS = 0.05


@contextmanager
def living_service(folder: Path, speed: float, **changed: Any) -> Iterator[str]:  # noqa: ANN401  settings of any type
    """Its API's address once it has decided. Limits per second are per second of its clock, `speed` times as many."""
    told: queue.Queue[str | BaseException] = queue.Queue()
    end = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_live(folder, speed, changed, told, end)), name="service")
    thread.start()
    try:
        first = told.get(timeout=START_SECONDS)
        if isinstance(first, BaseException):
            raise first
        yield first
    finally:
        end.set()
        thread.join(START_SECONDS)


async def _live(
    folder: Path,
    speed: float,
    changed: dict[str, Any],
    told: "queue.Queue[str | BaseException]",
    end: threading.Event,
) -> None:
    clock = ScaledClock(speed)
    try:
        async with Sandbox(clock, build(demo_policy(), clock.now()).world) as sandbox:
            service = Service(settings(folder, sandbox, changed), clock)
            try:
                await service.start()
                while service.plan is None or service.reporter.unready():
                    await asyncio.sleep(POLL_SECONDS)
                told.put(f"http://127.0.0.1:{service.servers.api_port}")
                while not end.is_set():
                    await asyncio.sleep(POLL_SECONDS)
            finally:
                await service.stop()
    except BaseException as error:
        told.put(error)
        raise


def settings(folder: Path, sandbox: Sandbox, changed: dict[str, Any]) -> ServiceSettings:
    kubeconfig = folder / "kubeconfig"
    sandbox.kubernetes.write_kubeconfig(kubeconfig, "rebalancer")
    policy = folder / "policy.yaml"
    policy.write_text(POLICY_FILE.read_text())
    fields: dict[str, Any] = {
        "kafka_bootstrap": sandbox.bootstrap,
        "kafka_security_protocol": "PLAINTEXT",
        "kubeconfig": kubeconfig,
        "policy_path": policy,
        "journal_dir": folder / "journal",
        "api_port": 0,
        "probe_port": 0,
    }
    return ServiceSettings(**(fields | changed))
