"""Somebody else keeps setting what the service sets: it stands down, names them, and says so to Prometheus."""

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
        await until(lambda: service.plan is not None and not service.insight.unready(), "ready")
        await set_replicas(sandbox, "chat", 5)
        await until(lambda: b'foreign_changes_total{model="chat"} 1.0' in service.insight.metrics(), "one seen")
        assert refusals(service) == []
        await set_replicas(sandbox, "chat", 6)
        await until(lambda: refusals(service), "it stands down")
        (refusal,) = refusals(service)
        assert refusal.subject == "chat"
        assert refusal.numbers["manager"] == STRANGER
        assert b'rebalancer_foreign_writer{model="chat"} 1.0' in service.insight.metrics()
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
