"""What the routes answer, over HTTP on loopback."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from rebalancer.api.auth.authentication import Authentication
from rebalancer.api.auth.authority import Trusting
from rebalancer.api.handlers.event_stream import page_parts
from rebalancer.api.http.json_codec import from_wire
from rebalancer.api.ports.status import Status, Unready
from rebalancer.api.serving.server import Servers
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import Snapshot
from rebalancer.loop.clock import RealClock
from tests.api.decided import SomeStatusPort, some_status_port
from tests.api.page_data import SomePageData
from tests.builders import NOW


@pytest.fixture
def status_port() -> SomeStatusPort:
    return some_status_port()


@pytest.fixture
async def servers(status_port: SomeStatusPort) -> AsyncIterator[Servers]:
    authentication, parts = Authentication(Trusting(), RealClock()), page_parts(SomePageData(status_port))
    servers = Servers(status_port, authentication, ("127.0.0.1", 0), ("127.0.0.1", 0), parts)
    await servers.start()
    yield servers
    await servers.stop()


async def get(port: int, path: str) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
        return response.status, await response.read()


async def test_the_plan_is_answered_as_the_very_value_that_was_decided(
    servers: Servers, status_port: SomeStatusPort
) -> None:
    code, body = await get(servers.api_port, "/v1/plan")
    assert code == 200
    assert from_wire(body, Plan) == status_port.decided


async def test_the_snapshot_and_the_status_are_answered_as_values(
    servers: Servers, status_port: SomeStatusPort
) -> None:
    assert from_wire((await get(servers.api_port, "/v1/snapshot"))[1], Snapshot) == status_port.seen
    assert from_wire((await get(servers.api_port, "/v1/status"))[1], Status) == status_port.status()


async def test_a_model_is_explained_with_its_own_refusals_and_needs_only(servers: Servers) -> None:
    code, body = await get(servers.api_port, "/v1/explain/b")
    assert code == 200
    assert b'"model":"b"' in body
    assert b'"model":"a"' not in body


async def test_an_unknown_model_is_404_and_the_answer_names_those_there_are(servers: Servers) -> None:
    code, body = await get(servers.api_port, "/v1/explain/nobody")
    assert code == 404
    assert b"no model 'nobody' in the policy" in body
    assert b"models: a, b" in body


async def test_before_the_first_decision_plan_and_explain_are_503_and_say_where_to_look(
    servers: Servers, status_port: SomeStatusPort
) -> None:
    status_port.decided = None
    for path in ("/v1/plan", "/v1/explain/a"):
        code, body = await get(servers.api_port, path)
        assert code == 503
        assert b"/readyz" in body


async def test_readiness_says_what_is_missing_and_since_when(servers: Servers, status_port: SomeStatusPort) -> None:
    assert (await get(servers.probe_port, "/readyz"))[0] == 200
    status_port.troubles = (Unready("pods", NOW - 12.0, "not listed yet"),)
    code, body = await get(servers.probe_port, "/readyz")
    assert code == 503
    unready = b'{"what":"pods","since":"2027-01-15T07:59:48Z","detail":"not listed yet"}'
    assert body == b'{"ready":false,"unready":[' + unready + b'],"policyRefused":[],"leader":"rb-0"}'


async def test_refused_entries_of_the_policy_file_are_named_and_leave_it_ready(
    servers: Servers, status_port: SomeStatusPort
) -> None:
    status_port.refused = ("models.a keeps its last good form",)
    code, body = await get(servers.probe_port, "/readyz")
    assert (code, body) == (
        200,
        b'{"ready":true,"unready":[],"policyRefused":["models.a keeps its last good form"],"leader":"rb-0"}',
    )


async def test_liveness_fails_only_when_a_restart_helps(servers: Servers, status_port: SomeStatusPort) -> None:
    status_port.troubles = (Unready("kafka-in", NOW, "away"),)
    assert (await get(servers.probe_port, "/livez"))[0] == 200
    status_port.death = "no cycle ended for 200 s"
    code, body = await get(servers.probe_port, "/livez")
    assert code == 503
    assert b"no cycle ended for 200 s" in body


async def test_metrics_are_on_the_probe_port_and_reads_are_not(servers: Servers) -> None:
    assert (await get(servers.probe_port, "/metrics")) == (200, b"rebalancer_synced 1.0\n")
    assert (await get(servers.probe_port, "/v1/plan"))[0] == 404
    assert (await get(servers.api_port, "/metrics"))[0] == 404
