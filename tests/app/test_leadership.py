"""Two replicas in this process, on embedded parts: one acts, the other thinks along and takes over."""

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rebalancer.app import Service
from rebalancer.app.past import reading
from rebalancer.app.standby import Standby
from rebalancer.domain.outcome import Intent
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.outbox import send_once
from rebalancer.kafka.topic_past import TopicPast
from rebalancer.leader.lease import EPOCH
from rebalancer.loop.clock import ScaledClock
from rebalancer.obs import journal
from rebalancer.sandbox.api.resources import LEASES, OVERRIDES
from rebalancer.sandbox.sandbox import Sandbox
from rebalancer.state import checkpoint
from tests.app.conftest import Started, get, until
from tests.app.test_observer import post

OPEN = Intent("c1000-open", 1000, 0.0, "release", "gone", "deployment/serving/gone", 3, 2, "for chat", pool="a100")
"""A write that its leader did not live to tell the end of."""


@pytest.fixture
def clock() -> ScaledClock:
    """Its seconds are those of life: at four a second a loop that hangs for 1.75 s loses the Lease."""
    return ScaledClock(1.0)


def replica(started: Started, name: str, folder: Path, *, loses: bool = False) -> AbstractAsyncContextManager[Service]:
    return started(loses=loses, lease_name="rebalancer", write_mode="act", instance=name, journal_dir=folder / name)


async def acting(service: Service) -> None:
    await until(lambda: service.leadership.leads() and service.plan is not None, "it leads and has a plan")


async def test_the_second_replica_says_who_leads_and_acts_when_the_first_one_has_ended(
    started: Started, sandbox: Sandbox, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stays, AsyncExitStack() as goes:
        first = await goes.enter_async_context(replica(started, "rb-0", tmp_path))
        await acting(first)
        second = await stays.enter_async_context(replica(started, "rb-1", tmp_path))
        await until(lambda: second.plan is not None and not second.reporter.unready(), "the second one is ready")

        status, ready = await get(second.servers.probe_port, "/readyz")
        assert (status, ready["leader"]) == (200, "rb-0")
        told = second.reporter.status()
        assert (told.instance, told.leader) == ("rb-1", "rb-0")
        assert _lines(tmp_path / "rb-1") == [], "who stands by tells nobody what it thinks"
        period = second.clock.now() + 5.0
        await until(lambda: second.clock.now() > period, "a checkpoint's period, 4 s, has passed")
        assert second.outbox.counts["acknowledged"] == 0, "nor writes it to `state`, or to any topic"
        assert first.outbox.counts["acknowledged"] > 0
        before = second.plan.cycle if second.plan is not None else 0
        assert await first.recorder.intent(OPEN, wait_seconds=5.0)

        await goes.aclose()
        await until(second.leadership.leads, "the second one leads")
        await until(lambda: second.plan is not None and second.plan.cycle > before, "it plans")

        assert second.reporter.status().leader == "rb-1"
        await until(lambda: any('"cycle"' in line for line in _lines(tmp_path / "rb-1")), "its journal tells")
        await until(lambda: _outcome(tmp_path / "rb-1", OPEN.id) == "unknown", "it tells what became of an open write")
        lease = sandbox.kubernetes.store.get(LEASES, "rebalancer", "rebalancer")
        assert lease is not None
        assert int(lease["metadata"]["annotations"][EPOCH]) == second.leadership.epoch


async def test_a_standby_takes_what_people_ask_for_and_the_leader_obeys(
    started: Started, sandbox: Sandbox, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(replica(started, "rb-0", tmp_path))
        await acting(first)
        second = await stack.enter_async_context(replica(started, "rb-1", tmp_path))
        await until(lambda: second.leadership.leader() == "rb-0" and not second.reporter.unready(), "rb-1 stands by")
        port = second.servers.api_port
        pin = {"kind": "pin", "target": {"model": "chat"}, "value": 3, "reason": "to see", "forSeconds": 600}
        assert (await post(port, "/v1/overrides/preview", pin))[0] == 200
        assert (await post(port, "/v1/overrides", pin, **{"Idempotency-Key": "k1"}))[0] == 201
        await until(
            lambda: any(_phase(each) == "InForce" for each in sandbox.kubernetes.store.list(OVERRIDES)), "it says so"
        )
        assert (await post(port, "/v1/writes/stop", {"reason": "to see"}))[0] == 200
        await until(lambda: first.reporter.snapshot().write_stop is not None, "rb-0 sees the stop")
        assert (await post(port, "/v1/writes/resume", {"confirm": "resume"}))[0] == 200
        await until(lambda: first.reporter.snapshot().write_stop is None, "rb-0 goes on")
        assert (first.leadership.leads(), second.leadership.leads()) == (True, False)
        assert second.reporter.status().leader == "rb-0"


def _phase(override: dict[str, Any]) -> str | None:
    """What the leader tells of it."""
    phase: str | None = override.get("status", {}).get("phase")
    return phase


def _outcome(folder: Path, name: str) -> str | None:
    """The status that a journal has for one intent."""
    lines = (journal.decode(line.encode()) for line in _lines(folder) if '"outcome"' in line)
    told = (line.outcome for line in lines if isinstance(line, journal.OutcomeLine))
    return next((outcome.status for outcome in told if outcome.intent.id == name), None)


def _lines(folder: Path) -> list[str]:
    return [line for file in sorted(folder.glob("*")) for line in file.read_text().splitlines()]


async def test_an_ordered_end_leaves_the_last_cycle_s_memory_before_the_lease_is_given_back(
    started: Started, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Else two would write into `state`, and who comes next would make the decisions since the checkpoint again."""
    async with replica(started, "rb-0", tmp_path) as only:
        await acting(only)
        assert only.plan is not None
        made = only.plan.cycle
        broker = Broker(sandbox.bootstrap)
    past = await reading(broker)("state", None)
    left = checkpoint.read(((one.key, one.value) for one in past), (), only.clock.now())
    lease = sandbox.kubernetes.store.get(LEASES, "rebalancer", "rebalancer")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""
    assert left.at is not None
    assert left.cycle >= made
    assert left.at <= datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()


async def test_a_new_leader_leaves_its_memory_as_soon_as_it_has_planned(
    started: Started, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Where one after the other dies before its first period, the next one finds memory without a look at all of it."""
    broker = Broker(sandbox.bootstrap)
    settings = {"lease_name": "rebalancer", "instance": "rb-0", "journal_dir": tmp_path, "checkpoint_seconds": 3600.0}
    async with started(**settings) as only, asyncio.timeout(45):
        await acting(only)
        entries: list[TopicPast] = []
        while all(one.key != checkpoint.MEMORY_KEY for one in entries):
            entries = await reading(broker)("state", None)
        left = checkpoint.read(((one.key, one.value) for one in entries), (), only.clock.now())
        assert only.plan is not None
        assert 0 < left.cycle <= only.plan.cycle + 1
        before = {one.key for one in entries[: [one.key for one in entries].index(checkpoint.MEMORY_KEY)]}
        rings = {checkpoint.RINGS_PREFIX + model.model.encode() for model in only.plan.models}
        assert rings <= before, "memory says up to where events were read: a model without rings would lose them"


async def test_who_stands_by_holds_what_its_leader_wrote_until_it_leads(sandbox: Sandbox, clock: ScaledClock) -> None:
    broker = Broker(sandbox.bootstrap)
    await broker.make_topics()
    async with Standby(broker, clock, checkpoint_seconds=4.0, keyframe_seconds=30.0) as standby:
        await until(lambda: standby.ready, "both topics are read along")
        await send_once(broker, broker.topic("decisions"), b"a line", ())
        held = await standby.read("decisions", clock.now() - 30.0)
        assert [record.value for record in held] == [b"a line"]
    assert not standby.ready
