"""Invariant I11: at 500 models the service asks the API server little, and little CPU of its machine when all is away.

Two replicas in processes of their own, so that their CPU time is theirs alone; the API server and the broker are
embedded here. GPUs change hands while it is counted.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from rebalancer.kafka.broker import TOPICS, Broker
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from rebalancer.sandbox.api.faults import ApiFaults, Fault
from rebalancer.sandbox.api.resources import LEASES
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.app.conftest import until
from tests.bench.kubernetes import fill
from tests.bench.latency import serving
from tests.bench.processes import busy_seconds
from tests.bench.scale import PER_REPLICA, REPLICAS, Scale
from tests.bench.voices import CALM, Voice, past_record
from tests.builders import NAMESPACE
from tests.faults.invariants import CALLS_A_SECOND
from tests.testbed.process import Reaper

MODELS = 500
RISING, FALLING = range(10), range(10, 20)  # of them: what the one half gives up, the other half is given
MOST_REPLICAS = 18
REPLICAS_OF_SERVICE = 2
LOOKED_SECONDS = 10.0
LEASE_CALLS = 5.2
"""Of a leader with one standby 5, as tests/leader/test_elector.py counts them, and at the edge of 10 s one of each."""
LISTS = 3.0
"""What is watched is listed again in minutes; what is only looked at now and then is listed then."""
CPU_SHARE = 0.2
RISEN, FALLEN = PER_REPLICA * MOST_REPLICAS, PER_REPLICA * 0.5


class Counting(ApiFaults):
    """Faults that count what they are asked about: every request, by kind; and watches by what they watch."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = Counter[str]()
        self.watches = Counter[str]()

    def take(self, method: str, path: str) -> Fault | None:
        if "watch=" in path:
            self.calls["watch"] += 1
            self.watches[path.partition("?")[0]] += 1
        elif "/leases" in path:
            self.calls["lease"] += 1
        elif method == "GET":
            self.calls["list" if "limit=" in path else "get"] += 1
        else:
            self.calls["event" if "/events" in path else "write"] += 1
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
def embedded() -> Iterator[EmbeddedBroker]:
    names = Broker("")
    broker = EmbeddedBroker({names.topic(name): topic.partitions for name, topic in TOPICS.items()})
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def reaper(tmp_path: Path) -> Iterator[Reaper]:
    reaper = Reaper()
    yield reaper
    reaper.close()


class Traffic:
    """Every model speaks once a second. `running`: requests of those that need another number than they have."""

    def __init__(self, bootstrap: str) -> None:
        self.running: dict[int, float] = {}
        self._voice = Voice(bootstrap)

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        """Until the context ends, and five minutes before it began."""
        for age in range(300, 0, -20):
            self._speak(time.time() - age, 20.0)
        await asyncio.to_thread(self._voice.flush)
        task = asyncio.create_task(self._flow())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _flow(self) -> None:
        while True:
            self._speak(time.time(), 1.0)
            await asyncio.sleep(1.0)

    def _speak(self, at: float, seconds: float) -> None:
        for model in range(MODELS):
            self._voice.say(past_record(model, at, seconds, self.running.get(model, CALM * REPLICAS)))
        self._voice.poll()


@pytest.mark.slow
@pytest.mark.timeout(420)
async def test_i11_with_500_models_calls_are_few_while_gpus_move_and_when_all_is_away_as_is_its_cpu_time(
    kubernetes: EmbeddedKubernetes,
    embedded: EmbeddedBroker,
    reaper: Reaper,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    policy = Scale(MODELS, 1, 80).policy().model_dump(mode="json", by_alias=True, exclude_unset=True)
    policy["models"] = [model | {"maxReplicas": MOST_REPLICAS} for model in policy["models"]]
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    kubernetes.write_kubeconfig(tmp_path / "kubeconfig", "rebalancer")
    traffic = Traffic(embedded.bootstrap)
    settings = {"LEASE_NAME": "rebalancer", "OWN_NAMESPACE": NAMESPACE}
    other = settings | {"INSTANCE": "standby", "JOURNAL_DIR": str(tmp_path / "other")}
    async with (
        traffic.flowing(),
        serving(tmp_path, reaper, embedded.bootstrap, INSTANCE="leader", **settings),
        serving(tmp_path, reaper, embedded.bootstrap, **other) as standby,
    ):
        await until(lambda: _led(kubernetes), "one of the two leads", 60.0)
        traffic.running = dict.fromkeys(RISING, RISEN) | dict.fromkeys(FALLING, FALLEN)
        moving = (await _looked(kubernetes, standby, lambda: all(_moved(kubernetes)))).calls
        lowered, raised = _moved(kubernetes)
        kubernetes.faults.fail_next(1_000_000, 503)
        kubernetes.close_watches()
        embedded.cut()
        failing = await _looked(kubernetes, standby)
        await kubernetes.stop()
        alone = await _looked(kubernetes, standby)
    with capsys.disabled():
        print(f"\n{MODELS} models, {lowered} lowered, {raised} raised; calls a second: {dict(moving)}")
        print(f"where nothing answers well: {failing}; where nobody is there {alone.cpu:.1%} CPU")
    assert moving["write"] > 0
    assert moving.total() <= CALLS_A_SECOND
    assert moving["lease"] <= LEASE_CALLS
    assert moving["list"] <= LISTS
    assert moving["get"] <= 2 * moving["write"], "each number is read before it is written, and no other"
    assert 0 < failing.calls.total() <= REPLICAS_OF_SERVICE * CALLS_A_SECOND
    assert 0 < failing.begun <= REPLICAS_OF_SERVICE, "of each stream"
    assert max(failing.cpu, alone.cpu) <= CPU_SHARE


def _led(kubernetes: EmbeddedKubernetes) -> bool:
    """Whether a replica holds the Lease. Of one newly made nobody is the leader for 8 s, and both look four times."""
    lease = kubernetes.store.get(LEASES, "rebalancer", NAMESPACE)
    return lease is not None and str(lease["spec"].get("holderIdentity", "")).startswith(("leader_", "standby_"))


def _moved(kubernetes: EmbeddedKubernetes) -> tuple[int, int]:
    """How many writes lowered a model's replicas below what it had, and how many raised them."""
    scaled = [entry for entry in kubernetes.audit if entry.target is not None and entry.code == 200]
    numbers = [one.body["spec"]["replicas"] for one in scaled if one.target and one.target.subresource == "scale"]
    return sum(number < REPLICAS for number in numbers), sum(number > REPLICAS for number in numbers)


class Looked(NamedTuple):
    """What was seen: calls a second by kind, and how often a second the busiest watch began anew, of both replicas.

    cpu: how much of a core one of them kept busy.
    """

    calls: Counter[str]
    begun: float
    cpu: float


async def _looked(kubernetes: EmbeddedKubernetes, pid: int, over: Callable[[], bool] = lambda: True) -> Looked:
    """From now until it is over, and ten seconds on."""
    began = time.monotonic()
    counting, busy = kubernetes.faults, busy_seconds(pid)
    assert isinstance(counting, Counting)
    counting.calls.clear()
    counting.watches.clear()
    await until(over, "GPUs are released and granted", 120.0)
    await asyncio.sleep(LOOKED_SECONDS)
    seconds = time.monotonic() - began
    calls = Counter({kind: count / seconds for kind, count in counting.calls.items()})
    begun = max(counting.watches.values(), default=0) / seconds
    return Looked(calls, begun, (busy_seconds(pid) - busy) / seconds)
