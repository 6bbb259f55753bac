"""Faults of leadership: nobody acts, two act, or another one does."""

import asyncio
import os
import signal

from rebalancer.app import Service
from tests.runbooks.stage import Stage, ready
from tests.testbed.process import Process, free_port


async def leases_refused(stage: Stage) -> None:
    """The right to the Lease was forgotten in an upgrade to two replicas."""
    stage.sandbox.kubernetes.faults.fail_next(1_000_000, 403, path_part="/leases")
    await stage.restart(lease_name="rebalancer", instance="rebalancer-0")


async def second_beside_the_first(stage: Stage) -> None:
    """Somebody runs a second one by hand, without the Lease."""
    changed = {"instance": "by-hand", "api_port": free_port(), "probe_port": free_port()}
    stage.second = stage.another(stage.settings.model_copy(update={**changed, "journal_dir": stage.folder / "by-hand"}))
    await stage.second.start()
    ports = (stage.settings.probe_port, stage.second.settings.probe_port)
    await asyncio.to_thread(stage.prometheus.scrape, "rebalancer", *(f"127.0.0.1:{port}" for port in ports))


async def leader_ends(stage: Stage) -> None:
    """The leader of two ends in order, and the other one takes over."""
    await _two(stage)
    await the_second_ended(stage)
    await stage.until(lambda: _leads(stage.service), "the other one leads")


async def leader_ends_while_kafka_is_away(stage: Stage) -> None:
    """A node is drained while Kafka is away: the other replica takes the Lease and knows not what the first one did."""
    await _two(stage)
    stage.sandbox.embedded.cut()
    await the_second_ended(stage)


async def leader_is_killed(stage: Stage) -> None:
    """A node dies with the leader of two."""
    process = await _led_by_a_process(stage)
    await asyncio.to_thread(process.kill)
    await stage.until(lambda: _leads(stage.service), "the other one leads")


async def leader_hangs_and_nobody_can_follow(stage: Stage) -> None:
    """The leader is frozen, and whoever stands by has the right to read the Lease, not the one to write it."""
    process = await _led_by_a_process(stage)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    stage.sandbox.kubernetes.faults.fail_next(1_000_000, 403, method="PATCH", path_part="/leases")

    async def nobody() -> bool:
        return not stage.service.leadership.leader()

    await stage.until(nobody, "the Lease has lapsed")  # which a minute of the alert's is enough for


async def _led_by_a_process(stage: Stage) -> Process:
    """As `_two`, but who leads can be killed or frozen."""
    await stage.service.stop()
    leading = stage.settings.model_copy(update={"lease_name": "rebalancer", "instance": "rebalancer-0"})
    stage.process = process = stage.as_process(leading)
    await asyncio.to_thread(process.start)
    changed = {"instance": "rebalancer-1", "api_port": free_port(), "probe_port": free_port()}
    stage.settings = leading.model_copy(update={**changed, "journal_dir": stage.folder / "second"})
    stage.service = stage.another(stage.settings)
    await stage.service.start()
    await _seen(stage, leading.probe_port)
    await stage.until(lambda: _follows(stage.service), "the other one knows who leads")
    return process


async def _two(stage: Stage) -> None:
    """Two that know everything: the second of the stage is seen to lead, and the page's commands ask the other one."""
    await stage.restart(lease_name="rebalancer", instance="rebalancer-0")
    first = stage.service
    await stage.until(lambda: _leads(first), "the first one leads")
    changed = {"instance": "rebalancer-1", "api_port": free_port(), "probe_port": free_port()}
    leading = stage.settings.probe_port
    stage.settings = stage.settings.model_copy(update={**changed, "journal_dir": stage.folder / "second"})
    stage.second, stage.service = first, stage.another(stage.settings)
    await stage.service.start()
    await _seen(stage, leading)


async def _seen(stage: Stage, leading: int) -> None:
    """Prometheus has seen that the one at this port leads, and the other one knows everything."""
    ports = (leading, stage.settings.probe_port)
    await asyncio.to_thread(stage.prometheus.scrape, "rebalancer", *(f"127.0.0.1:{port}" for port in ports))
    await stage.until(lambda: _is_seen_to_lead(stage, leading), "one is seen to lead")
    await stage.until(lambda: ready(stage.service), "the other one knows everything")


async def _leads(service: Service) -> bool:
    return service.leadership.leads()


async def _follows(service: Service) -> bool:
    return service.leadership.leader() not in {"", service.leadership.instance}


async def _is_seen_to_lead(stage: Stage, port: int) -> bool:
    series = f'rebalancer_leading{{instance="127.0.0.1:{port}"}}'
    return await asyncio.to_thread(stage.prometheus.value, series) == 1.0


async def the_second_ended(stage: Stage) -> None:
    if stage.second is not None:
        await stage.second.stop()
    stage.second = None
