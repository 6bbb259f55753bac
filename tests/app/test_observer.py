"""The service without Kafka, in this process: it reads Kubernetes and a Prometheus, decides, and writes nothing."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from rebalancer.app.backfill import Backfilled, stored_past
from rebalancer.app.observer import OFF, Observer
from rebalancer.loop.clock import RealClock
from rebalancer.report.gathering import gather
from rebalancer.report.report import Report, report
from rebalancer.sandbox.api.resources import PODS
from rebalancer.sandbox.sandbox import Sandbox
from rebalancer.settings.service import ServiceSettings
from tests.app.conftest import get, until
from tests.obs.answering import Answering, answering

USER = "observer"

Observing = Callable[..., AbstractAsyncContextManager[Observer]]


class Heard:
    """Implements `app.onlooker.Onlooker`: what it was told, in order."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.past: Backfilled | None = None

    def serves(self, api_port: int) -> None:
        self.words.append(f"serves {api_port > 0}")

    def waits(self, what: str) -> None:
        self.words.append(f"waits for {what}")

    def reads(self, done: int, of: int) -> None:
        self.words.append(f"reads {done} of {of}")

    def knows(self, past: Backfilled) -> None:
        self.past = past
        self.words.append("knows")

    def knows_nothing(self, why: str) -> None:
        self.words.append(f"knows nothing: {why}")


@pytest.fixture
def clock() -> RealClock:
    return RealClock()


@pytest.fixture
async def prometheus(sandbox: Sandbox) -> AsyncIterator[Answering]:
    def pods() -> list[tuple[str, str]]:
        metadata = [each["metadata"] for each in sandbox.kubernetes.store.list(PODS)]
        return [(each["namespace"], each["name"]) for each in metadata]

    async with answering(pods) as made:
        yield made


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def observing(
    sandbox: Sandbox, clock: RealClock, prometheus: Answering, policy_path: Path, tmp_path: Path, heard: Heard
) -> Observing:
    kubeconfig = tmp_path / "kubeconfig"
    sandbox.kubernetes.write_kubeconfig(kubeconfig, USER)

    @asynccontextmanager
    async def start() -> AsyncIterator[Observer]:
        settings = ServiceSettings(
            kafka_enabled=False,
            prometheus_url=prometheus.url,
            kubeconfig=kubeconfig,
            policy_path=policy_path,
            journal_dir=tmp_path / "journal",
            api_auth="none",
            api_port=0,
            probe_port=0,
            backfill_hours=1.0,
        )
        observer = Observer(settings, clock, heard)
        starting = asyncio.ensure_future(observer.start())
        try:
            yield observer
        finally:
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            await observer.stop()

    return start


async def post(port: int, path: str, body: object, **headers: str) -> tuple[int, dict[str, Any]]:
    address = f"http://127.0.0.1:{port}"
    async with (
        aiohttp.ClientSession(headers={"Origin": address, **headers}) as session,
        session.post(f"{address}{path}", json=body) as response,
    ):
        return response.status, msgspec.json.decode(await response.read(), type=dict)


async def test_it_decides_by_arrivals_from_prometheus_alone_and_writes_nothing(
    observing: Observing, sandbox: Sandbox, heard: Heard, tmp_path: Path
) -> None:
    async with observing() as observer:
        await until(lambda: observer.plan is not None and not observer.reporter.unready(), "ready")
        assert (await get(observer.servers.probe_port, "/readyz"))[0] == 200
        works = {load.model: load.work for load in observer.reporter.snapshot().loads}
        assert works["chat"].source == "arrivals"
        assert works["chat"].long is not None, "an hour of the past is known at once"
        status, body = await get(observer.servers.api_port, "/v1/status")
        assert status == 200
        assert body["off"] == dict(OFF)
        assert not [what for what in observer.reporter.unready() if "kafka" in what.what]
    assert heard.words[0] == "serves True", "the address comes first"
    assert heard.words[-1] == "knows"
    assert heard.past is not None
    assert {use.model: use.busy for use in heard.past.use} == {"chat": 0.5, "code": 0.5, "image": 0.5}
    assert (tmp_path / "journal" / "journal-000001.jsonl").stat().st_size > 0
    assert stored_past(tmp_path / "journal") == heard.past._replace(minutes=()), "for a report that needs no waiting"
    requests = [entry for entry in sandbox.kubernetes.audit if entry.user == USER]
    assert requests == [], "the audit trail has its writes"


async def test_it_makes_no_objects_for_people_and_says_why(observing: Observing) -> None:
    async with observing() as observer:
        await until(lambda: observer.plan is not None, "a plan")
        port = observer.servers.api_port
        stop = await post(port, "/v1/writes/stop", {"reason": "to see"}, **{"Idempotency-Key": "k1"})
        assert (stop[0], "only observes" in stop[1]["error"]) == (409, True), stop
        asked = {"kind": "pin", "target": {"model": "chat"}, "value": 3, "reason": "to see", "forSeconds": 600}
        made = await post(port, "/v1/overrides", asked, **{"Idempotency-Key": "k2"})
        assert (made[0], "only observes" in made[1]["error"]) == (409, True), made
        assert (await get(port, "/v1/overrides"))[0] == 200


async def test_a_prometheus_that_is_away_is_told_and_the_service_comes_up_and_learns_from_then_on(
    observing: Observing, prometheus: Answering, heard: Heard
) -> None:
    prometheus.down = True
    async with observing() as observer:
        await until(lambda: observer.plan is not None and not observer.reporter.unready(), "ready")
        assert any(word.startswith("knows nothing: http://") for word in heard.words)
        told = [one for one in observer.reporter.status().unready if one.what == "prometheus"]
        assert told


async def test_a_second_start_goes_on_with_the_cycles_of_the_journal(observing: Observing) -> None:
    async with observing() as observer:
        await until(lambda: observer.plan is not None, "a plan")
        plan = observer.plan
    async with observing() as again:
        await until(lambda: again.plan is not None, "another plan")
        assert plan is not None
        assert again.plan is not None
        assert again.plan.cycle > plan.cycle


async def test_over_a_restart_the_ledger_comes_to_the_report_of_the_journal(
    observing: Observing, tmp_path: Path
) -> None:
    for _ in range(2):
        async with observing() as observer:
            plans: set[int] = set()

            def has_planned(observer: Observer = observer, plans: set[int] = plans) -> bool:
                plans |= set() if observer.plan is None else {observer.plan.cycle}
                return len(plans) > 2

            await until(has_planned, "three cycles")

    def reported(name: str) -> Report:
        alone = tmp_path / f"{name} alone"
        alone.mkdir()
        for path in (tmp_path / "journal").glob(f"{name}-*"):
            shutil.copy(path, alone)
        return replace(report(gather(alone, 3600.0), {}), sources=())

    by_journal, by_ledger = await asyncio.to_thread(reported, "journal"), await asyncio.to_thread(reported, "ledger")
    assert by_ledger == by_journal
    assert by_ledger.cycles >= 5
    assert by_ledger.bill.residual_gpu_microseconds == 0
