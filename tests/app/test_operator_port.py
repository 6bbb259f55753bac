"""Decisions over HTTP become objects: one per key, by its actor, checked before and told after."""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from rebalancer.app import Service
from rebalancer.ingest.instants import epoch
from rebalancer.sandbox.api.resources import OVERRIDES, WRITESTOPS
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import Started, until

Json = dict[str, Any]

NAMESPACE = "serving"
PIN: Json = {"kind": "pin", "target": {"model": "code"}, "value": 4, "reason": "launch day"}


class Caller:
    """One HTTP client of a running service."""

    def __init__(self, service: Service, session: aiohttp.ClientSession) -> None:
        self._base = f"http://127.0.0.1:{service.servers.api_port}"
        self._session = session

    async def __call__(self, method: str, path: str, body: object = None, key: str | None = None) -> tuple[int, Json]:
        headers = {} if key is None else {"Idempotency-Key": key}
        async with self._session.request(method, self._base + path, json=body, headers=headers) as response:
            text = await response.read()
            return response.status, (await response.json() if text else {})


def stored(sandbox: Sandbox) -> list[Json]:
    return [each for each in sandbox.kubernetes.store.list(OVERRIDES) if each["spec"]["reason"] == "launch day"]


@pytest.fixture
async def service(started: Started) -> AsyncIterator[Service]:
    async with started(write_mode="act", own_namespace=NAMESPACE) as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        yield service


@pytest.fixture
async def call(service: Service) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession() as session:
        yield Caller(service, session)


async def test_an_override_is_one_object_however_often_it_is_asked_for(call: Caller, sandbox: Sandbox) -> None:
    status, first = await call("POST", "/v1/overrides", PIN, key="k1")
    assert (status, first["created"]) == (201, True)
    status, again = await call("POST", "/v1/overrides", PIN, key="k1")
    assert (status, again["created"], again["override"]["uid"]) == (200, False, first["override"]["uid"])
    status, other = await call("POST", "/v1/overrides", {**PIN, "value": 5}, key="k1")
    assert (status, other["where"]) == (409, "Idempotency-Key")
    found = stored(sandbox)
    assert len(found) == 1
    assert (found[0]["metadata"]["namespace"], found[0]["spec"]["actor"]) == (NAMESPACE, "local")
    assert found[0]["spec"]["target"] == {"model": "code"}


async def test_without_a_key_each_request_is_its_own(call: Caller, sandbox: Sandbox) -> None:
    assert [(await call("POST", "/v1/overrides", PIN))[0] for _ in range(2)] == [201, 201]
    assert len(stored(sandbox)) == 2


async def test_it_lasts_half_an_hour_unless_it_says_how_long(call: Caller, service: Service) -> None:
    _, short = await call("POST", "/v1/overrides", {**PIN, "forSeconds": 60})
    _, usual = await call("POST", "/v1/overrides", PIN)
    assert short["override"]["expiresAt"] < usual["override"]["expiresAt"]
    status, body = await call("POST", "/v1/overrides", {**PIN, "forSeconds": 90_000})
    assert (status, body["where"]) == (422, "body.forSeconds")


async def test_one_to_stand_up_lasts_as_long_as_what_it_forgets_could_count(call: Caller, sandbox: Sandbox) -> None:
    stand_up = {"kind": "standUp", "target": {"model": "code"}, "reason": "launch day"}
    status, made = await call("POST", "/v1/overrides", stand_up)
    assert status == 201
    (found,) = stored(sandbox)
    assert (found["spec"]["kind"], found["spec"]["actor"]) == ("standUp", "local")
    lasts = epoch(made["override"]["expiresAt"]) - epoch(made["override"]["createdAt"])
    assert lasts == pytest.approx(600.0, abs=2.0)  # the window of guards.foreign
    status, body = await call("POST", "/v1/overrides", {**stand_up, "target": {"node": "a100-1"}})
    assert (status, body["where"]) == (422, "body.target")


async def test_it_is_listed_with_what_it_did_and_taken_back(call: Caller, service: Service) -> None:
    _, made = await call("POST", "/v1/overrides", PIN)
    name = made["override"]["name"]

    def told() -> bool:
        known = service.reporter.snapshot().overrides
        return any(one.name == name and one.phase == "InForce" and "code" in one.message for one in known)

    await until(told, "the status says what it did")
    _, listed = await call("GET", "/v1/overrides")
    assert [one["name"] for one in listed["overrides"]] == [name]
    status, without = await call("GET", f"/v1/overrides/{NAMESPACE}/{name}/preview")
    assert (status, without["name"]) == (200, name)
    assert without["said"][0].startswith("now  ")
    assert (await call("GET", f"/v1/overrides/{NAMESPACE}/another/preview"))[0] == 404
    assert (await call("DELETE", f"/v1/overrides/{NAMESPACE}/{name}"))[0] == 204
    assert (await call("DELETE", f"/v1/overrides/{NAMESPACE}/{name}"))[0] == 404


async def test_a_preview_writes_nothing_and_its_hash_is_what_apply_agrees_to(call: Caller, sandbox: Sandbox) -> None:
    key = secrets.token_hex(4)
    status, seen = await call("POST", "/v1/overrides/preview", PIN, key=key)
    assert status == 200
    assert seen["said"]
    assert stored(sandbox) == []
    status, body = await call("POST", "/v1/overrides", {**PIN, "preview": "another"}, key=key)
    assert (status, body["where"]) == (409, "body.preview")
    assert body["preview"]["name"] == seen["name"]
    status, made = await call("POST", "/v1/overrides", {**PIN, "preview": body["preview"]["preview"]}, key=key)
    assert status == 201
    assert made["override"]["name"] == seen["name"]


async def test_a_preview_says_first_that_in_shadow_nothing_is_written(started: Started) -> None:
    async with started(write_mode="shadow", own_namespace=NAMESPACE) as service, aiohttp.ClientSession() as session:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        call = Caller(service, session)
        previews = await call("POST", "/v1/overrides/preview", PIN), await call("GET", "/v1/writes/preview")
    for status, seen in previews:
        assert (status, seen["said"][0]) == (200, "shadow: nothing is written")
        assert len(seen["said"]) > 1


async def test_a_repeat_after_it_took_effect_is_no_stale_preview(call: Caller) -> None:
    _, seen = await call("POST", "/v1/overrides/preview", PIN, key="k")
    ask = {**PIN, "preview": seen["preview"]}
    assert (await call("POST", "/v1/overrides", ask, key="k"))[0] == 201
    assert (await call("POST", "/v1/overrides", ask, key="k"))[0] == 200


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"kind": "push"}, "body.kind"),
        ({"value": None}, "body.value"),
        ({"target": {"model": "gpt-9"}}, "body.target.model"),
        ({"target": {"node": "n1"}}, "body.target"),
        ({"namespace": "elsewhere"}, "body.namespace"),
        ({"kind": "floor", "allowBelowFloor": True}, "body.allowBelowFloor"),
        ({"value": 0}, "body"),
        ({"value": 0, "allowBelowFloor": True}, "body.confirm"),
        ({"kind": "drain", "value": None, "target": {"pool": "a100"}}, "body.confirm"),
        ({"kind": "drain", "value": None, "target": {"node": "gone"}}, "body"),
    ],
)
async def test_what_cannot_be_is_said_with_its_field(call: Caller, sandbox: Sandbox, change: Json, where: str) -> None:
    status, body = await call("POST", "/v1/overrides", PIN | change)
    assert (status, body["where"]) == (422, where), body
    assert body["error"]
    assert body["fix"]
    assert stored(sandbox) == []


async def test_a_stop_pressed_twice_is_there_once_and_resume_wants_its_word(
    call: Caller, sandbox: Sandbox, service: Service
) -> None:
    status, said = await call("POST", "/v1/writes/stop", {"reason": "bad rollout"})
    assert (status, said["stopped"]) == (200, True)
    assert (await call("POST", "/v1/writes/stop", {"reason": "again"}))[0] == 200
    _, said = await call("GET", "/v1/writes")
    assert [(each["actor"], each["reason"]) for each in said["stops"]] == [("local", "bad rollout")]
    await until(lambda: service.reporter.snapshot().write_stop is not None, "the stop is seen")
    _, seen = await call("GET", "/v1/writes/preview")
    assert (seen["confirm"], "shadow" in seen["said"][0]) == ("resume", False)
    assert (await call("POST", "/v1/writes/resume", {"confirm": "yes"}))[0] == 422
    status, said = await call("POST", "/v1/writes/resume", {"confirm": "resume"})
    assert (status, said["stopped"]) == (200, False)
    assert sandbox.kubernetes.store.list(WRITESTOPS) == []


async def test_an_api_server_that_stumbles_does_not_keep_the_stop_from_being_made(
    call: Caller, sandbox: Sandbox
) -> None:
    sandbox.kubernetes.faults.fail_next(2, 503, method="POST", path_part="writestops")
    assert (await call("POST", "/v1/writes/stop", {"reason": "bad rollout"}))[0] == 200
    assert len(sandbox.kubernetes.store.list(WRITESTOPS)) == 1


async def test_while_the_api_server_is_away_each_door_refuses_and_says_when_to_try_again(
    call: Caller, sandbox: Sandbox
) -> None:
    """Command line and console come through these; kubectl and signed records have the same API server before them."""
    _, made = await call("POST", "/v1/overrides", PIN)
    mine = f"/v1/overrides/{NAMESPACE}/{made['override']['name']}"
    sandbox.kubernetes.faults.fail_next(1_000_000, 503)
    doors = (
        ("POST", "/v1/overrides", {**PIN, "value": 5}),
        ("DELETE", mine, None),
        ("POST", "/v1/writes/stop", {"reason": "bad rollout"}),
        ("POST", "/v1/writes/resume", {"confirm": "resume"}),
    )
    for method, path, request in doors:
        status, body = await call(method, path, request)
        assert (status, bool(body["fix"])) == (503, True), (path, body)
    assert [each["spec"]["value"] for each in stored(sandbox)] == [4]
    assert sandbox.kubernetes.store.list(WRITESTOPS) == []
    sandbox.kubernetes.faults.clear()
    assert (await call("POST", "/v1/writes/stop", {"reason": "bad rollout"}))[0] == 200
    assert (await call("DELETE", mine))[0] < 300


async def test_writes_are_stopped_before_kafka_is_there(started: Started, sandbox: Sandbox) -> None:
    async with started(write_mode="act", kafka_bootstrap="127.0.0.1:1") as service:
        await until(lambda: service.reporter.waiting, "it waits for Kafka")
        async with aiohttp.ClientSession() as session:
            call = Caller(service, session)
            assert (await call("POST", "/v1/writes/stop", {"reason": "bad rollout"}))[0] == 200
            assert (await call("GET", "/v1/writes"))[1]["stopped"] is True
            status, body = await call("POST", "/v1/overrides/preview", PIN)
            assert (status, body["error"]) == (503, "the cluster is not known yet")
            assert (await call("POST", "/v1/overrides", PIN))[0] == 201
    assert len(sandbox.kubernetes.store.list(WRITESTOPS)) == 1
