"""The service as a process: signals in, one reason out when it could not go on."""

import asyncio
import gc
import logging
import signal
from typing import Any

from rebalancer.app.effects import EFFECTS
from rebalancer.app.followed import NoPolicy
from rebalancer.app.observer import Observer
from rebalancer.app.onlooker import Onlooker
from rebalancer.app.service import Service
from rebalancer.kube.errors import KubeError
from rebalancer.loop.clock import RealClock
from rebalancer.obs.effects import WATCH, CrashAt
from rebalancer.settings.service import ServiceSettings

YOUNG_OBJECTS = 50_000  # a snapshot of 1,000 models makes about as many; the default of 700 collects 70 times in it


def quiet_collector() -> None:
    """Few and short pauses of the collector: what is there now is not looked at again."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 100)


def _quiet() -> None:
    """No long pauses; no client's own complaints, which ours say in one line."""
    quiet_collector()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


async def serve(settings: ServiceSettings, onlooker: Onlooker | None = None) -> str | None:
    """Run until SIGTERM or SIGINT (then None), or until a part ends that must not (then why).

    Without Kafka the service observes; `onlooker` hears how that comes up.
    """
    _quiet()
    if settings.crash_at:
        crash_at = CrashAt.of(settings.crash_at)
        if crash_at.name not in EFFECTS:
            return f"REBALANCER_CRASH_AT={settings.crash_at}: no such effect; docs/reference/effects.md has their names"
        WATCH.set(crash_at)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    clock = RealClock()
    service = Service(settings, clock) if settings.kafka_enabled else Observer(settings, clock, onlooker)
    starting = asyncio.ensure_future(service.start())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return None
        starting.result()
        ends: list[asyncio.Future[Any]] = [stopping, service.failed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return service.failed.result() if service.failed.done() else None
    except (NoPolicy, KubeError, OSError) as error:
        return str(error)
    finally:
        stopping.cancel()
        await service.stop()
