"""Two replicas on embedded parts while Kafka is away, and the API server with it: who acts, and what each says.

The docstring of `test_both_seen` is a cell of the table in docs/operations.md, as those in test_outages_seen.py are.
"""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rebalancer.app import Service
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.producer import spelled
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import USER, Started, get, until
from tests.app.test_leadership import acting, replica


@pytest.fixture
def clock() -> ScaledClock:
    """As in tests/app/test_leadership.py: at more a second a loop that hangs a little loses the Lease."""
    return ScaledClock(1.0)


def unready(service: Service) -> dict[str, str]:
    return {one.what: one.detail for one in service.reporter.unready()}


async def said(service: Service) -> tuple[int, str, set[str]]:
    """Of `/readyz`: status, leader and what is not ready, which `/v1/status` says too."""
    code, ready = await get(service.servers.probe_port, "/readyz")
    _, status = await get(service.servers.api_port, "/v1/status")
    assert status["leader"] == ready["leader"]
    troubles = {each["what"] for each in ready["unready"]}
    assert troubles <= {each["what"] for each in status["unready"]}
    return code, ready["leader"], troubles


def writes(sandbox: Sandbox, since: float) -> list[tuple[float, str]]:
    """Of the service, but to the Lease."""
    mine = [entry for entry in sandbox.kubernetes.audit if entry.user == USER and entry.at >= since]
    return [(entry.at, entry.path) for entry in mine if "/leases" not in entry.path and entry.code < 300]


def cap(sandbox: Sandbox, clock: ScaledClock) -> None:
    """A person decides that chat is to have two replicas; it has three."""
    spec = {"kind": "cap", "target": {"model": "chat"}, "value": 2, "reason": "a test", "actor": "ann"}
    spec["expiresAt"] = spelled(clock.now() + 1800.0)
    kind = {"apiVersion": "rebalancer.io/v1alpha1", "kind": "Override"}
    sandbox.kubernetes.store.put({**kind, "metadata": {"name": "ov-1", "namespace": "serving"}, "spec": spec})


@pytest.mark.slow  # half a minute, most of it two waits for the Lease and one for its end
@pytest.mark.timeout(180)
async def test_both_seen(started: Started, sandbox: Sandbox, clock: ScaledClock, tmp_path: Path) -> None:
    """As of each alone.

    A replica that came up without Kafka says in `/readyz` that its `start` waits for it, and shows no plan. One that
    stood by takes the Lease, does not act, and says why in `leading`; no leader is named.
    """
    async with AsyncExitStack() as stays, AsyncExitStack() as goes:
        first = await goes.enter_async_context(replica(started, "rb-0", tmp_path, loses=True))
        await acting(first)
        second = await stays.enter_async_context(replica(started, "rb-1", tmp_path))
        await until(lambda: second.plan is not None and not second.reporter.unready(), "the second one is ready")
        sandbox.embedded.cut()
        cut = clock.now()
        sandbox.kubernetes.faults.fail_next(1_000_000, 503)
        sandbox.kubernetes.close_watches()
        assert await asyncio.wait_for(first.failed, 30) == "leading ended: the lease was not renewed in time"
        await goes.aclose()  # as `app.process` does, and its container starts again
        again = await stays.enter_async_context(replica(started, "rb-0", tmp_path))
        await until(lambda: second.leadership.leader() == "", "who stood by names no leader that is gone")
        await until(lambda: {"pods", "kafka-in"} <= unready(second).keys(), "it says what is away")
        assert (await said(second))[:2] == (503, "")
        assert "lease" in {each.what for each in second.reporter.status().unready}

        sandbox.kubernetes.faults.clear()
        cap(sandbox, clock)
        await until(lambda: "cannot be read" in unready(second).get("leading", ""), "it took the Lease, and waits")
        await until(lambda: unready(second).keys() <= {"leading", "kafka-in", "kafka-out"}, "it sees the cluster again")
        code, leader, troubles = await said(second)
        assert (code, leader) == (503, "")
        assert {"leading", "kafka-in"} <= troubles
        assert "holds the Lease" in unready(second)["leading"]
        await until(lambda: "cannot be read" in unready(again).get("start", ""), "who starts waits for Kafka")
        assert (await get(again.servers.probe_port, "/readyz"))[0] == 503
        assert again.plan is None
        assert not second.leadership.leads()
        assert not again.leadership.leads()
        back = clock.now()
        assert writes(sandbox, cut) == []

        sandbox.embedded.heal()
        await until(second.leadership.leads, "it leads")
        assert "leading" not in unready(second)
        assert second.reporter.status().leader == "rb-1"
        await until(lambda: any("chat/scale" in path for _, path in writes(sandbox, cut)), "the cap is obeyed")
        assert all(at >= back for at, _ in writes(sandbox, cut))
        await until(lambda: again.plan is not None, "who waited goes on by itself")
        assert not again.leadership.leads()
