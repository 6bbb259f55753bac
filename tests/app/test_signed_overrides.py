"""Signed records become Override objects by the same door, once each, by their key's name."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from rebalancer.app import Service
from rebalancer.app.signed_overrides import read_keys
from rebalancer.ingest.signed import signed_record
from rebalancer.kube.moment import written_as
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.api.resources import OVERRIDES
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import Started, until

SECRET = b"0123456789abcdef0123456789abcdef"
PIN: dict[str, Any] = {"kind": "pin", "target": {"model": "code"}, "value": 4, "reason": "launch day"}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "runbook").write_bytes(SECRET + b"\n")
    return folder


@pytest.fixture
async def service(started: Started, keys: Path) -> AsyncIterator[Service]:
    async with started(write_mode="act", cluster_name="prod-eu", override_keys_dir=keys) as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        yield service


@pytest.fixture
async def producer(sandbox: Sandbox) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=sandbox.bootstrap, acks="all") as opened:
        yield opened


async def send(producer: AIOKafkaProducer, at: float, event_id: str, secret: bytes = SECRET, **data: object) -> None:
    headers, value = signed_record("runbook", secret, "prod-eu", event_id, written_as(at), PIN | data)
    await producer.send_and_wait("rebalancer.overrides", value, headers=headers)


def stored(sandbox: Sandbox) -> list[dict[str, Any]]:
    return [one for one in sandbox.kubernetes.store.list(OVERRIDES) if one["spec"]["reason"] == "launch day"]


async def test_a_signed_record_is_one_object_by_its_key_however_often_it_comes(
    service: Service, producer: AIOKafkaProducer, sandbox: Sandbox, clock: ScaledClock
) -> None:
    at = clock.now()
    for _ in range(3):
        await send(producer, at, "evt-1")
    await send(producer, at, "evt-2", value=3)
    await until(lambda: len(stored(sandbox)) == 2, "both are objects")
    assert {one["spec"]["actor"] for one in stored(sandbox)} == {"kafka:runbook"}
    assert {one["metadata"]["namespace"] for one in stored(sandbox)} == {"serving"}

    def told() -> bool:
        return sum(one.phase in {"InForce", "Superseded"} for one in service.reporter.snapshot().overrides) == 2

    await until(told, "they are in force like any other")


async def test_a_record_waits_for_an_api_server_that_is_away(
    service: Service, producer: AIOKafkaProducer, sandbox: Sandbox, clock: ScaledClock
) -> None:
    sandbox.kubernetes.faults.fail_next(1_000_000, 503, path_part="/overrides")
    await send(producer, clock.now(), "evt-1")

    def tried() -> bool:
        return any(each.verb == "create" and each.code == 503 for each in sandbox.kubernetes.audit)

    await until(tried, "it was tried")
    assert stored(sandbox) == []
    text = service.reporter.metrics().decode()
    assert all(f'reason="override-{why}"}} 0.0' in text for why in ("late", "refused"))
    sandbox.kubernetes.faults.clear()
    await until(lambda: len(stored(sandbox)) == 1, "it is an object")


async def test_a_forged_one_a_late_one_and_one_that_cannot_be_make_nothing(
    service: Service, producer: AIOKafkaProducer, sandbox: Sandbox, clock: ScaledClock
) -> None:
    now = clock.now()
    await send(producer, now, "evt-1", secret=b"another key of at least 32 bytes")
    await send(producer, now - 4000.0, "evt-2")
    await send(producer, now, "evt-3", target={"model": "gpt-9"})
    await send(producer, now, "evt-4", target={"node": "a100-1"}, kind="drain", namespace="serving")

    def rejected() -> bool:
        text = service.reporter.metrics().decode()
        wanted = {"override-signature": 1, "override-late": 1, "override-refused": 2}
        return all(f'reason="{why}"}} {count}.0' in text for why, count in wanted.items())

    await until(rejected, "each is rejected for its reason")
    assert stored(sandbox) == []


def test_keys_are_files_and_what_is_no_key_is_left_out(keys: Path) -> None:
    (keys / "..data").mkdir()
    (keys / "short").write_bytes(b"0123456789")
    (keys / "not a name").write_bytes(SECRET)
    assert read_keys(keys) == {"runbook": SECRET}


def test_a_folder_that_is_not_there_is_an_error_for_who_looks(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        read_keys(tmp_path / "gone")
