"""Somebody else keeps setting what the service sets: it stands down, names them, and says so to Prometheus."""

from functools import partial

import aiohttp

from rebalancer.app import Service
from rebalancer.domain.plan import Refusal
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_cluster import IDLE_RATES, DemoCluster
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import USER, Started, until

MERGE = "application/merge-patch+json"
STRANGER = "argocd-controller"


def refusals(service: Service) -> list[Refusal]:
    return [one for one in service.plan.refusals if one.guard == "foreign"] if service.plan else []


async def set_replicas(sandbox: Sandbox, model: str, replicas: int) -> None:
    """As another controller does it."""
    url = f"{sandbox.kubernetes.url}/apis/apps/v1/namespaces/serving/deployments/{model}/scale"
    headers = {"Content-Type": MERGE, "User-Agent": f"{STRANGER}/v3"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.patch(url, json={"spec": {"replicas": replicas}}) as reply,
    ):
        assert reply.status == 200, await reply.text()


async def test_after_two_changes_by_somebody_else_it_stands_down_and_says_who(
    started: Started, sandbox: Sandbox, cluster: DemoCluster, clock: ScaledClock
) -> None:
    async with started(write_mode="act") as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        await set_replicas(sandbox, "chat", 5)
        await until(lambda: b'foreign_changes_total{model="chat"} 1.0' in service.reporter.metrics(), "one seen")
        assert refusals(service) == []
        await set_replicas(sandbox, "chat", 6)
        await until(lambda: refusals(service), "it stands down")
        (refusal,) = refusals(service)
        assert refusal.subject == "chat"
        assert refusal.numbers["manager"] == STRANGER
        assert b'rebalancer_foreign_writer{model="chat"} 1.0' in service.reporter.metrics()
        since = len(sandbox.kubernetes.audit)
        cluster.dials["chat"].turn(4 * IDLE_RATES["chat"], clock.now())
        cluster.dials["code"].turn(4 * IDLE_RATES["code"], clock.now())
        cycle = service.plan.cycle if service.plan else 0
        await until(lambda: service.plan is not None and service.plan.cycle >= cycle + 5, "five more plans")
    ours = [entry.path for entry in sandbox.kubernetes.audit[since:] if entry.user == USER and entry.body]
    assert not [path for path in ours if "deployments/chat" in path]
    async with started(write_mode="act") as reborn:
        await until(lambda: refusals(reborn), "a restart has not forgotten it")
        assert refusals(reborn)[0].until == refusal.until


async def test_a_person_ends_the_stand_down_over_http_and_the_service_writes_again(
    started: Started, sandbox: Sandbox, cluster: DemoCluster, clock: ScaledClock
) -> None:
    async with started(write_mode="act", own_namespace="serving") as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        for number, replicas in ((1, 5), (2, 2)):
            await set_replicas(sandbox, "chat", replicas)
            seen = f'foreign_changes_total{{model="chat"}} {number}.0'.encode()
            await until(partial(_told, service, seen), "it is seen")
        await until(lambda: refusals(service), "it stands down")
        cluster.dials["chat"].turn(4 * IDLE_RATES["chat"], clock.now())
        since = len(sandbox.kubernetes.audit)
        asked = {"kind": "standUp", "target": {"model": "chat"}, "reason": "argocd ignores it now"}
        url = f"http://127.0.0.1:{service.servers.api_port}/v1/overrides"
        async with aiohttp.ClientSession() as session, session.post(url, json=asked) as reply:
            assert reply.status == 201, await reply.text()

        def written() -> bool:
            ours = [one for one in sandbox.kubernetes.audit[since:] if one.user == USER and one.body]
            return any("deployments/chat" in one.path and one.code < 300 for one in ours)

        await until(written, "chat is written to again")
        assert refusals(service) == []


def _told(service: Service, seen: bytes) -> bool:
    return seen in service.reporter.metrics()
