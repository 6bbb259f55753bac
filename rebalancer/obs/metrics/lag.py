"""How late the event loop wakes whoever waits: everything else in the service is late by as much."""

from typing import NoReturn

from rebalancer.obs.clock import Clock
from rebalancer.obs.metrics.registry import Metrics

LOOK_SECONDS = 1.0


async def watch_lag(clock: Clock, metrics: Metrics) -> NoReturn:
    """Look each second until cancelled."""
    while True:
        began = clock.monotonic()
        await clock.sleep(LOOK_SECONDS)
        metrics.observe("rebalancer_event_loop_lag_seconds", max(0.0, clock.monotonic() - began - LOOK_SECONDS))
