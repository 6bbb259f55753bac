"""The whole service over restarts: ordered ones, and kills that leave no checkpoint of the end."""

from datetime import UTC, datetime

from aiokafka import AIOKafkaProducer

from rebalancer.app import Service
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import Started, until
from tests.ingest.wire import NOTICE_TYPE, STRUCTURED, event

AHEAD_SECONDS = 7200.0


def noticed(service: Service) -> list[str]:
    return [view.node for view in service.reporter.snapshot().notices]


def planned(service: Service) -> bool:
    return service.plan is not None and not service.reporter.unready()


async def tell(sandbox: Sandbox, clock: ScaledClock, node: str) -> None:
    """A maintenance in two hours."""
    deadline = datetime.fromtimestamp(clock.now() + AHEAD_SECONDS, UTC).isoformat()
    data = {"kind": "scheduled-change", "node": node, "deadline": deadline}
    async with AIOKafkaProducer(bootstrap_servers=sandbox.bootstrap) as producer:
        record = event(data, type=NOTICE_TYPE, time=None)
        await producer.send_and_wait("rebalancer.notices", record, headers=list(STRUCTURED))


async def test_an_open_notice_survives_a_restart_that_reads_on_behind_it(
    started: Started, sandbox: Sandbox, clock: ScaledClock
) -> None:
    async with started() as service:
        await until(lambda: planned(service), "ready")
        await tell(sandbox, clock, "a100-2")
        await until(lambda: noticed(service) == ["a100-2"], "the notice is known")
    async with started() as reborn:
        await until(lambda: planned(reborn), "ready again")
        assert noticed(reborn) == ["a100-2"]


async def test_a_kill_leaves_an_older_checkpoint_and_the_start_knows_all_that_was_decided_since(
    started: Started,
) -> None:
    async with started() as first:
        await until(lambda: planned(first), "ready")
    async with started(checkpoint_seconds=3600.0) as killed:
        await until(lambda: planned(killed), "ready")
        begun = killed.plan.cycle if killed.plan else 0
        await until(lambda: killed.plan is not None and killed.plan.cycle > begun + 2, "more cycles")
        killed.outbox.trouble = "killed"  # so that its end leaves no checkpoint
        last = killed.plan.cycle if killed.plan else 0
    async with started() as reborn:
        await until(lambda: planned(reborn), "ready again")
        assert reborn.plan is not None
        assert reborn.plan.cycle > last
        assert reborn.cycle_ports is not None
        assert (reborn.cycle_ports.memory.resumed_at, reborn.cycle_ports.memory.unknown_before) == (None, None)


async def test_the_timeline_and_the_last_day_go_on_over_a_restart(
    started: Started, sandbox: Sandbox, clock: ScaledClock
) -> None:
    async with started() as service:
        await until(lambda: planned(service), "ready")
        await tell(sandbox, clock, "a100-2")
        await until(lambda: any(entries(service)), "the notice is told")
        told, minutes = entries(service), known_minutes(service)
    async with started() as reborn:
        await until(lambda: planned(reborn), "ready again")
        await until(lambda: set(told) <= set(entries(reborn)), "what was told before")
        assert minutes <= known_minutes(reborn)


def entries(service: Service) -> list[str]:
    return [each.id for row in service.history.rows() for each in row.timeline if each.kind == "notice"]


def known_minutes(service: Service) -> set[int]:
    return {int(minute) for minute in service.history.day().minutes if minute >= 0}
