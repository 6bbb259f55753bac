"""The service is killed before and after each of its side effects, on the real API server and broker.

Judged by the audit log over all its lives: floors, budget, nothing asked for twice; by `decisions`: each intent has an
outcome; and by what holds in the end.
"""

import asyncio
import gzip
import itertools
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import pytest

from rebalancer.app.effects import EFFECTS
from rebalancer.kafka.broker import Broker
from tests.real.crashing import (
    EXPECTED,
    FLOORS,
    GPUS,
    OF_ANY,
    REPLICAS,
    Busy,
    Point,
    met,
    minima_below_floor,
    taken,
    twice,
)
from tests.real.occupancy import Pods, failed
from tests.real.oracles import below_floor, over_budget
from tests.real.records import untold
from tests.real.service import Service
from tests.real.succession import Pair, epoch_of, second_replica
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog, Write
from tests.testbed.kafka import Kafka
from tests.testbed.kube import Kube
from tests.testbed.stack import Stack

LIFE_SECONDS = 180.0
"""The longest wait for a point: a third deletion needs a start and up to three notices, of which one comes in 27 s."""
MIB = 1 << 20
TAKE_OVER_SECONDS = 12.0
WHEN = ("before", "after")
ONCE = {
    *("kafka/topics", "kafka/decisions/policy", "kafka/state/policy"),
    *("journal/open", "journal/delete", "ledger/open", "ledger/pack", "ledger/delete"),
}
"""At most once in a life, or in a minute of one."""
DRAINS = ("kube/patch/nodes", "kube/create/pods/eviction", "kube/delete/pods")
OF_A_STORM = (*DRAINS, "kube/update/scale", "kube/patch/pods")
OF_A_LEADER = (
    "kube/patch/leases",
    "kube/update/scale",
    "kube/patch/horizontalpodautoscalers",
    "kube/patch/pods",
    "kube/create/events",
    "kafka/decisions/frame",
    "kafka/decisions/cycle",
    "kafka/decisions/intent",
    "kafka/decisions/outcome",
    "kafka/state/memory",
    "journal/append",
)
"""The leader's alone, and its journal: what people ask for and what cannot be read any replica writes."""
KEPT_BY_A_LEADER = (
    "kafka/decisions/policy",
    "kafka/state/policy",
    "kafka/state/rings",
    "kube/patch/overrides/status",
)
"""The leader's alone as well: the rest of what it keeps, and what it tells of overrides."""
ELSEWHERE = {
    "kube/patch/scaledobjects": "the bounds of an HPA pass the same driver, and are here",
    "kube/patch/nodepools": "in virtual time (tests/machine)",
    "kube/create/leases": "once in the life of an installation: not shown",
    "kube/patch/leases": "beside a standby",
    "kube/create/tokenreviews": "nothing is kept",
    "kube/create/subjectaccessreviews": "nothing is kept",
    "kafka/metrics": "rebalancer bridge alone",
    "kafka/readings": "rebalancer aggregate alone, between the two (tests/real/test_aggregate_group.py)",
    "kafka/commit": "same",
    "predictions/append": "rebalancer report alone, after midnight",
    "past/write": "rebalancer observe alone",
    "kafka/notices": "beside a queue of SQS (tests/ingest/test_notice_queue.py)",
    "sqs/receive": "same",
    "sqs/delete": "same",
    **dict.fromkeys(DRAINS, "in the storm"),
}
FEW = [
    Point("kube/update/scale", 2, "after"),
    Point("kafka/decisions/intent", 1, "after"),
    Point("kafka/state/memory", 1, "before"),
]


@pytest.fixture
def target_kinds() -> tuple[str, ...]:
    return ("statefulsets.apps",)


@pytest.fixture
def drained_nodes(ours: dict[str, str]) -> dict[str, str] | None:
    return ours


@pytest.fixture
async def busy(  # what it is made of
    service: Service,
    kafka: Kafka,
    topic_prefix: str,
    kube: Kube,
    traffic: Traffic,
    namespace: str,
    ours: dict[str, str],
    request: pytest.FixtureRequest,
) -> Busy:
    storm = getattr(request, "param", False)
    busy = Busy(kube, traffic, namespace, ours, storm, kafka.bootstrap, topic_prefix, doors=[service])
    service.settings |= {"WRITE_DELETION_COST": "true", "DRAIN_NODES": str(busy.storm).lower(), "JOURNAL_MAX_MIB": "1"}
    service.settings["LEDGER_MAX_MIB"] = "1"
    await service.policy(busy.policy())
    await busy.set_up()
    return busy


@pytest.fixture
async def standby(service: Service, busy: Busy, cluster: Stack, kafka: Kafka, tmp_path: Path) -> AsyncIterator[Service]:
    await asyncio.to_thread((tmp_path / "standby").mkdir)
    async with second_replica(service, cluster, kafka, tmp_path / "standby") as second:
        yield second


async def lives(service: Service, busy: Busy, points: list[Point]) -> list[Point]:
    """One life for each point, while everything happens: the points that were never come to."""
    missed = []
    async with busy.going_on():
        for number, point in enumerate(points, 1):
            if point.effect == "ledger/delete":
                await asyncio.to_thread(an_hour_of_another_year, Path(service.settings["JOURNAL_DIR"]))
            if not await met(service, point, LIFE_SECONDS):
                missed.append(point)
            print(f"{number}/{len(points)} {point}{' missed' if point in missed else ''}", flush=True)
    service.settings.pop("CRASH_AT", None)
    await service.start()
    await busy.calm()
    return missed


def an_hour_of_another_year(folder: Path) -> None:
    """A ledger's file with as much as all of them may have: these lives alone would take days to write that."""
    with gzip.open(folder / "ledger-000000.jsonl.gz", "wb", compresslevel=0) as file:
        file.write(b"\n" * MIB)


async def crossed(service: Service) -> set[str]:
    """The names of the effects that its lives with a crash point have come by."""
    lines = [json.loads(line) for line in (await service.log()).splitlines() if '"event": "effect"' in line]
    names = {str(line["name"]) for line in lines}
    assert names, "they are logged"
    return names


async def judge(service: Service, busy: Busy, audit: AuditLog) -> list[Write]:
    """What the audit log and `decisions` say of all lives together; what was written."""
    writes = await service.writes(busy.kube)
    asked = taken(writes)
    pods = Pods.of(await asyncio.to_thread(audit.writes, namespace=busy.namespace))
    print(f"{len(writes)} writes, {len(asked)} of replicas, {sum(step.lost for step in asked)} replicas released")
    assert below_floor(asked, FLOORS) == []
    assert minima_below_floor(writes) == []
    # In a storm what it asks for is beside what still runs under notice, on nodes that come and go under it: how much
    # there was at an instant is in no write of this namespace.
    if not busy.storm:
        assert over_budget(asked, REPLICAS, pods, GPUS) == []
    assert twice(writes) == []
    assert [each for each in failed(writes) if not each.startswith(EXPECTED)] == []
    assert await crossed(service) <= EFFECTS.keys(), "whatever it writes has a name that the page knows"
    assert await untold(Broker(busy.bootstrap, busy.topic_prefix)) == []
    return writes


async def test_killed_at_a_few_effects_it_breaks_no_promise_and_goes_on(
    service: Service, busy: Busy, audit: AuditLog
) -> None:
    assert await lives(service, busy, FEW) == []
    await judge(service, busy, audit)


@pytest.mark.proof
@pytest.mark.timeout(7200, func_only=True)
@pytest.mark.parametrize("nth", [1, 2, 4])
async def test_killed_before_and_after_every_effect_it_breaks_no_promise(
    service: Service, busy: Busy, audit: AuditLog, nth: int
) -> None:
    names = [name for name in EFFECTS if name not in ELSEWHERE]
    names.sort(key=lambda name: (name != "kafka/topics", name))  # there are none yet in the first lives alone
    missed = await lives(service, busy, points_of(names, nth))
    await judge(service, busy, audit)
    assert missed == []


@pytest.mark.proof
@pytest.mark.timeout(7200, func_only=True)
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("busy", [True], indirect=True, ids=["storm"])
async def test_killed_in_a_storm_of_notices_it_breaks_no_promise(
    service: Service, busy: Busy, audit: AuditLog, nth: int
) -> None:
    missed = await lives(service, busy, points_of(OF_A_STORM, nth))
    await judge(service, busy, audit)
    assert missed == []


async def followed(service: Service, standby: Service, busy: Busy, audit: AuditLog, points: list[Point]) -> None:
    """One leader after the other dies at these points while everything happens, and the one beside it takes over."""
    busy.doors.append(standby)
    pair = Pair(service, standby)
    async with busy.going_on():
        await pair.begin()
        for number, point in enumerate([*points, None]):
            await pair.next_life(point, LIFE_SECONDS)
            print(f"{number}/{len(points)} followed after {pair.told()}; missed: {pair.missed}", flush=True)
    await busy.calm()
    writes = await judge(service, busy, audit)
    epochs = [epoch_of(write) for write in writes if write.succeeded and write.group not in OF_ANY]
    print(f"terms {epochs[0]}-{epochs[-1]}; until another acts: {pair.told()}")
    assert epochs == sorted(epochs)
    assert pair.missed == []
    assert max(pair.seconds) <= TAKE_OVER_SECONDS


def points_of(names: Iterable[str], nth: int) -> list[Point]:
    """Before and after each."""
    return [Point(name, 1 if name in ONCE else nth, when) for name, when in itertools.product(names, WHEN)]


@pytest.mark.proof
@pytest.mark.timeout(7200, func_only=True)
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("effects", [OF_A_LEADER, KEPT_BY_A_LEADER], ids=["acts", "keeps"])
async def test_a_leader_killed_before_and_after_every_effect_is_followed_by_its_standby(
    service: Service, standby: Service, busy: Busy, audit: AuditLog, effects: Sequence[str], nth: int
) -> None:
    await followed(service, standby, busy, audit, points_of(effects, nth))


@pytest.mark.proof
@pytest.mark.timeout(7200, func_only=True)
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("busy", [True], indirect=True, ids=["storm"])
async def test_a_leader_killed_in_a_storm_of_notices_is_followed_by_its_standby(
    service: Service, standby: Service, busy: Busy, audit: AuditLog, nth: int
) -> None:
    await followed(service, standby, busy, audit, points_of(OF_A_STORM, nth))
