"""Every door leads to one kind of object; in a flood of events the stop stops and an override takes effect in time."""

import asyncio
import itertools
import json
import secrets
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rebalancer.api.http.json_codec import from_wire
from rebalancer.api.ports.requests import OverrideRequest
from rebalancer.app.declined import declined
from rebalancer.app.drafts import Misshapen, OverrideDraft, check_shape
from rebalancer.ingest.signed import signed_record
from rebalancer.kube.errors import Invalid
from tests.bench.children import Child, child
from tests.real.occupancy import scaled
from tests.real.people import WHY, People
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import Write
from tests.testbed.kafka import Kafka
from tests.testbed.kube import ApiError, Kube
from tests.testbed.objects import deployment, gpu_node

Json = dict[str, Any]

GPUS = 6
SECRET = b"0123456789abcdef0123456789abcdef"
CLUSTER = "prod-eu"

PACE = 10_000  # metric events per second
OTHERS = [f"m{number:03}" for number in range(200)]  # models that talk all the time and hold nothing
STOPS = 5
CHANGE_OF_MIND_SECONDS = 0.3
STOPPED_WITHIN_SECONDS = 2.0
OVERRIDES = 24
TAKES_EFFECT_WITHIN_SECONDS = 5.0


class Caller:
    """Somebody who asks over HTTP."""

    def __init__(self, service: Service, session: aiohttp.ClientSession) -> None:
        self.namespace = service.settings["OWN_NAMESPACE"]
        self._base = f"http://127.0.0.1:{service.settings['API_PORT']}"
        self._session = session

    async def __call__(self, method: str, path: str, body: object = None, key: str | None = None) -> tuple[int, Json]:
        headers = {"Idempotency-Key": key or secrets.token_hex(8)}
        async with self._session.request(method, self._base + path, json=body, headers=headers) as response:
            return response.status, (json.loads(await response.read() or b"{}"))

    async def pin(self, replicas: int) -> str:
        """Pin chat; the override's name."""
        ask = {"kind": "pin", "target": {"model": "chat"}, "value": replicas, "reason": WHY, "forSeconds": 600}
        status, body = await self("POST", "/v1/overrides", ask)
        assert status == 201, body
        return str(body["override"]["name"])


@pytest.fixture
async def call(service: Service) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession() as session:
        yield Caller(service, session)


async def _world(kube: Kube, namespace: str, ours: dict[str, str], service: Service, others: list[str]) -> None:
    """Chat and code with 2 replicas each on 6 GPUs; each owns 3."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=GPUS, labels=ours))
    for name in ("chat", "code"):
        await kube.apply(deployment(name, namespace, 2, node_labels=ours))
    await kube.wait_ready(4, namespace)
    models = [model(name, namespace, floor=1, entitlement=3, most=6) for name in ("chat", "code")]
    models += [model(name, namespace, floor=0, entitlement=0, most=6) for name in others]
    await service.policy(policy([pool("gpus", ours, GPUS)], models))


@asynccontextmanager
async def _flood(kafka: Kafka, topic: str) -> AsyncIterator[Child]:
    """10,000 samples a second of 200 models."""
    async with child("steady", kafka.bootstrap, topic, PACE, "chat", "code", *OTHERS) as running:
        yield running


def _writes(found: list[Write]) -> list[Write]:
    """To the cluster: not to our own objects."""
    return [write for write in found if write.group != "rebalancer.io"]


async def test_each_door_makes_one_object_that_says_who_and_is_told_what_it_did(
    service: Service,
    traffic: Traffic,
    people: People,
    kube: Kube,
    namespace: str,
    ours: dict[str, str],
    call: Caller,
    tmp_path: Path,
) -> None:
    keys = tmp_path / "keys"
    await asyncio.to_thread(keys.mkdir)
    await asyncio.to_thread((keys / "runbook").write_bytes, SECRET)
    service.settings |= {"CLUSTER_NAME": CLUSTER, "OVERRIDE_KEYS_DIR": str(keys)}
    await _world(kube, namespace, ours, service, [])
    await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=15))
    await service.start()

    await people.pin("by-kubectl", "chat", 2, seconds=600)
    await _next_second()  # objects are as old as whole seconds say, and the newest counts
    name = await call.pin(3)
    await _next_second()
    at = datetime.now(UTC).isoformat()
    data = {"kind": "pin", "target": {"model": "chat"}, "value": 4, "reason": WHY, "forSeconds": 600}
    headers, value = signed_record("runbook", SECRET, CLUSTER, "evt-1", at, data)
    for _ in range(2):
        await traffic.send("overrides", value, headers=headers)

    async def objects() -> dict[str, Json]:
        found = {each["spec"]["actor"]: each for each in await kube.items("Override", namespace)}
        return found if len(found) == 3 else {}

    by_actor = await kube.wait_for(objects, "three overrides")
    assert set(by_actor) == {"testbed", "local", "kafka:runbook"}
    await people.phase(by_actor["kafka:runbook"]["metadata"]["name"], "InForce")
    await people.phase("by-kubectl", "Superseded")
    await people.phase(name, "Superseded")
    await kube.wait_ready(4, namespace, "app=chat")

    async def said() -> bool:
        newest = await kube.get("Override", by_actor["kafka:runbook"]["metadata"]["name"], namespace)
        return bool("to 4 replicas; in force since" in newest["status"]["message"])

    await kube.wait_for(said, "the status says what it did")
    assert (await call("DELETE", f"/v1/overrides/{namespace}/{name}"))[0] == 204
    listed = (await call("GET", "/v1/overrides"))[1]["overrides"]
    assert {"testbed", "kafka:runbook"} <= {each["actor"] for each in listed}
    assert len(await kube.items("Override", namespace)) == 2, "a replay and a repeat make nothing"


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "push", "target": {"model": "chat"}},
        {"kind": "pin", "target": {"model": "chat"}},
        {"kind": "freeze", "target": {"model": "chat"}, "value": 3},
        {"kind": "pin", "target": {"node": "n"}, "value": 3},
        {"kind": "drain", "target": {"node": "n", "pool": "gpus"}},
        {"kind": "drain", "target": {"node": "n", "model": "chat"}},
        {"kind": "floor", "target": {"model": "chat"}, "value": 3, "allowBelowFloor": True},
    ],
)
async def test_what_the_api_server_refuses_is_refused_over_http_with_its_field(
    kube: Kube, crds: None, namespace: str, spec: Json
) -> None:
    """One rule book: what nobody may write by kubectl, nobody may ask for."""
    ask = from_wire(json.dumps(spec | {"reason": WHY}), OverrideRequest)
    draft = OverrideDraft(
        "ov-1",
        namespace,
        "testbed",
        ask.kind,
        WHY,
        time.time(),
        60.0,
        ask.target.model,
        ask.target.node,
        ask.target.pool,
        ask.value,
        ask.allow_below_floor,
    )
    with pytest.raises(ApiError) as refused:
        await kube.create(draft.manifest())
    assert refused.value.status == 422
    words = declined(Invalid(str(refused.value)))
    with pytest.raises(Misshapen) as misshapen:
        check_shape(draft)
    assert words.where == "body" or misshapen.value.where.startswith(words.where.removeprefix("body."))


@pytest.mark.timeout(240)
async def test_under_ten_thousand_events_a_second_a_stop_ends_all_writes_within_two_seconds(
    service: Service,
    traffic: Traffic,
    kafka: Kafka,
    kube: Kube,
    namespace: str,
    ours: dict[str, str],
    topic_prefix: str,
    call: Caller,
) -> None:
    """Somebody changes their mind about chat all the while, so that there is something to write at every moment."""
    await _world(kube, namespace, ours, service, OTHERS)
    await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=15))
    await service.start()
    last: list[float] = []
    async with _flood(kafka, f"{topic_prefix}metrics") as flood, _undecided(call):
        before = await _events(service)
        for number in range(STOPS):
            await _written(service, kube, time.time())  # there is something to stop
            await asyncio.sleep(0.15 * number)  # at another point between two decisions each time
            pressed_at = time.time()
            assert (await call("POST", "/v1/writes/stop", {"reason": f"{WHY} {number}"}))[0] == 200
            await asyncio.sleep(2 * STOPPED_WITHIN_SECONDS)
            resumed_at = time.time()
            found = _writes(await service.writes(kube, since=pressed_at, until=resumed_at))
            last.append(max((write.answered - pressed_at for write in found), default=0.0))
            assert (await call("POST", "/v1/writes/resume", {"confirm": "resume"}))[0] == 200
        await _tell_pace(service, flood, before)
    print("last write after the stop, s:", [round(seconds, 3) for seconds in last])
    assert max(last) < STOPPED_WITHIN_SECONDS


@pytest.mark.timeout(240)
async def test_under_ten_thousand_events_a_second_an_override_takes_effect_within_five_seconds(
    service: Service,
    traffic: Traffic,
    kafka: Kafka,
    kube: Kube,
    namespace: str,
    ours: dict[str, str],
    topic_prefix: str,
    call: Caller,
    patience: float,
) -> None:
    await _world(kube, namespace, ours, service, OTHERS)
    await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=15))
    await service.start()
    accepted: list[float] = []
    async with _flood(kafka, f"{topic_prefix}metrics") as flood:
        before = await _events(service)
        for _, replicas in zip(range(OVERRIDES), itertools.cycle((3, 2)), strict=False):
            await _next_second()
            await call.pin(replicas)
            accepted.append(time.time())
            await _wait_for(kube, namespace, replicas)
        await _tell_pace(service, flood, before)
    writes = scaled(await service.writes(kube), "chat")
    # The write may be there before the answer to the request is.
    taken = sorted(max(0.0, min(at for at, _ in writes if at >= since - 0.5) - since) for since in accepted)
    print("accepted to first write, s: " + " ".join(f"{each:.2f}" for each in taken))
    print(f"median {statistics.median(taken):.2f} s, p99 {taken[-1]:.2f} s of {len(taken)}")
    assert taken[-1] <= patience * TAKES_EFFECT_WITHIN_SECONDS


async def _wait_for(kube: Kube, namespace: str, replicas: int) -> None:
    async def asked() -> bool:
        found = await kube.get("Deployment", "chat", namespace)
        return bool(found["spec"]["replicas"] == replicas)

    await kube.wait_for(asked, f"chat is asked for {replicas}")


async def _events(service: Service) -> tuple[float, float]:
    """Events that the service took until now, and now."""
    return (await service.metrics())['rebalancer_input_total{result="events"}'], time.time()


async def _tell_pace(service: Service, flood: Child, before: tuple[float, float]) -> None:
    events, now = await _events(service)
    flood.finish()
    print(f"sent {await flood.line()}/s, read {(events - before[0]) / (now - before[1]):.0f}/s")


@asynccontextmanager
async def _undecided(call: Caller) -> AsyncIterator[None]:
    """Somebody pins chat at 3, at 2, at 3... over HTTP, all the while."""

    async def change_minds() -> None:
        for replicas in itertools.cycle((3, 2)):
            name = await call.pin(replicas)
            await asyncio.sleep(CHANGE_OF_MIND_SECONDS)
            assert (await call("DELETE", f"/v1/overrides/{call.namespace}/{name}"))[0] == 204

    changing = asyncio.create_task(change_minds())
    try:
        yield
    finally:
        changing.cancel()
        await asyncio.wait({changing})
    assert changing.cancelled(), changing.exception()


async def _written(service: Service, kube: Kube, since: float) -> None:
    """Wait until the service writes to the cluster."""

    async def written() -> list[Write]:
        return _writes(await service.writes(kube, since=since))

    await kube.wait_for(written, "the service writes")


async def _next_second() -> None:
    await asyncio.sleep(1.05 - time.time() % 1)
