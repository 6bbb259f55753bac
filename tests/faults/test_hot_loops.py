"""Invariant I11: at 500 models the service asks the API server little, and less when nothing answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rebalancer.app import Service
from rebalancer.kafka.broker import TOPICS, Broker
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from rebalancer.sandbox.api.faults import ApiFaults, Fault
from rebalancer.sandbox.broker import EmbeddedBroker
from rebalancer.settings.service import ServiceSettings
from tests.app.conftest import until
from tests.bench.kubernetes import fill
from tests.bench.scale import Scale
from tests.faults.invariants import CALLS_A_SECOND

MODELS = 500
LOOKED_SECONDS = 10.0
LEASE_CALLS = 5.0
"""Of a leader with one standby, as tests/leader/test_elector.py counts them: here is no Lease, since its watchdog would
end this whole process when building 5,000 pods keeps the loop for longer than the Lease lasts.
"""


class Counting(ApiFaults):
    """Faults that count what they are asked about: every request."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def take(self, method: str, path: str) -> Fault | None:
        self.calls += 1
        return super().take(method, path)


@pytest.fixture
async def kubernetes(may_block: None) -> AsyncIterator[EmbeddedKubernetes]:
    clock = RealClock()
    store = Store(clock)
    fill(store, MODELS, 10)
    async with EmbeddedKubernetes(clock, store) as api:
        api.faults = Counting()
        yield api


@pytest.fixture
def embedded() -> EmbeddedBroker:
    names = Broker("")
    return EmbeddedBroker({names.topic(name): topic.partitions for name, topic in TOPICS.items()})


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_i11_with_500_models_the_api_server_is_asked_20_times_a_second_at_most_also_when_nothing_answers(
    kubernetes: EmbeddedKubernetes, embedded: EmbeddedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    embedded.start()
    policy = Scale(MODELS, 1, 80).policy().model_dump(mode="json", by_alias=True, exclude_unset=True)
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    kubernetes.write_kubeconfig(tmp_path / "kubeconfig", "rebalancer")
    settings = ServiceSettings(
        kafka_bootstrap=embedded.bootstrap,
        kafka_security_protocol="PLAINTEXT",
        kubeconfig=tmp_path / "kubeconfig",
        policy_path=tmp_path / "policy.yaml",
        journal_dir=tmp_path / "journal",
        write_mode="act",
        api_auth="none",
        api_port=0,
        probe_port=0,
    )
    service = Service(settings, RealClock())
    try:
        await service.start()
        await until(lambda: service.plan is not None, "it plans", 90.0)
        calm = await _calls_a_second(kubernetes)
        kubernetes.faults.fail_next(1_000_000, 503)
        kubernetes.close_watches()
        embedded.cut()
        failing = await _calls_a_second(kubernetes)
    finally:
        kubernetes.faults.clear()
        await service.stop()
        embedded.stop()
    with capsys.disabled():
        print(f"\n{MODELS} models: {calm:.1f} calls a second, {failing:.1f} when nothing answers")
    assert 0 < calm <= CALLS_A_SECOND - LEASE_CALLS
    assert 0 < failing <= CALLS_A_SECOND - LEASE_CALLS


async def _calls_a_second(kubernetes: EmbeddedKubernetes) -> float:
    counting = kubernetes.faults
    assert isinstance(counting, Counting)
    before = counting.calls
    await asyncio.sleep(LOOKED_SECONDS)
    return (counting.calls - before) / LOOKED_SECONDS
