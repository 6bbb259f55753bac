"""What the service does from start to stop, seen from outside: ports, API writes, checkpoints, policy file."""

import asyncio
from pathlib import Path

from rebalancer.app import Service
from rebalancer.domain.policy import Policy
from rebalancer.loop.clock import ScaledClock
from rebalancer.loop.replay import replay
from rebalancer.sandbox.demo_cluster import IDLE_RATES, POLICY_FILE, DemoCluster
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import USER, Started, get, until

SURGE = 4.0


def decided(service: Service) -> bool:
    return service.plan is not None and not service.reporter.unready()


def demand(service: Service, model: str) -> int | None:
    """What the last plan says the model needs."""
    return next(one.demand for one in service.plan.models if one.model == model) if service.plan else None


def history_known(service: Service) -> bool:
    """Every model's slow level, which looks 20 minutes back."""
    loads = service.reporter.snapshot().loads
    return bool(loads) and all(load.work.slow is not None for load in loads)


def writes(sandbox: Sandbox) -> list[str]:
    """What the service wrote to workloads, in order: `deployments/code 3`."""
    return [
        f"{entry.path.split('/namespaces/')[-1]} {(entry.body or {}).get('spec')}"
        for entry in sandbox.kubernetes.audit
        if entry.user == USER and entry.code < 300 and "/events" not in entry.path
    ]


async def test_it_becomes_ready_and_says_before_that_what_it_waits_for(started: Started) -> None:
    async with started() as service:
        await until(lambda: service.servers.probe_port, "the probe port is open")
        code, body = await get(service.servers.probe_port, "/readyz")
        assert code == 503
        assert body["unready"]
        await until(lambda: decided(service), "ready")
        assert (await get(service.servers.probe_port, "/readyz"))[0] == 200
        status, plan = await get(service.servers.api_port, "/v1/plan")
        assert status == 200
        assert {model["model"] for model in plan["models"]} == {"chat", "code", "image"}


async def test_in_shadow_it_decides_and_writes_nothing(
    started: Started, sandbox: Sandbox, cluster: DemoCluster, clock: ScaledClock
) -> None:
    async with started() as service:
        await until(lambda: decided(service), "ready")
        cluster.dials["chat"].turn(SURGE * IDLE_RATES["chat"], clock.now())
        await until(lambda: service.plan is not None and service.plan.changes, "a change is planned")
    assert writes(sandbox) == []


async def test_an_ordered_stop_changes_nothing_and_leaves_a_checkpoint_that_the_next_start_goes_on_from(
    started: Started, sandbox: Sandbox
) -> None:
    async with started(write_mode="act") as service:
        await until(lambda: decided(service) and history_known(service), "ready, with its history")
        before = writes(sandbox)
        last = service.plan.cycle if service.plan else 0
    assert writes(sandbox) == before
    async with started(write_mode="act") as service:
        await until(lambda: service.plan is not None, "a plan again")
        assert service.plan is not None
        assert service.plan.cycle > last
        assert history_known(service)


async def test_a_changed_policy_is_taken_over_and_a_bad_one_keeps_the_last_good_and_says_so(
    started: Started, policy_path: Path
) -> None:
    good = POLICY_FILE.read_text()
    async with started() as service:
        await until(lambda: decided(service), "ready")
        first = service.reporter.status().policy_digest
        await asyncio.to_thread(policy_path.write_text, good.replace("maxReplicas: 7", "maxReplicas: 6"))
        await until(lambda: service.reporter.status().policy_digest != first, "the new policy is in force")
        second = service.reporter.status().policy_digest
        await asyncio.to_thread(policy_path.write_text, "pools: 7\n")
        await until(lambda: service.reporter.status().policy_problems, "the problem is told")
        assert service.reporter.status().policy_digest == second
        assert (await get(service.servers.probe_port, "/readyz"))[0] == 200


async def test_without_its_own_crds_it_does_not_write(started: Started, sandbox: Sandbox) -> None:
    sandbox.kubernetes.faults.fail_next(10_000, 404, path_part="/apis/rebalancer.io/")
    async with started(write_mode="act") as service:
        await until(lambda: service.plan is not None, "a plan")
        await until(lambda: {"overrides", "writestops"} <= {one.what for one in service.reporter.unready()}, "told")
        assert service.plan is not None
        assert service.plan.changes == ()


async def test_every_cycle_in_the_journal_replays_byte_for_byte(
    started: Started, sandbox: Sandbox, cluster: DemoCluster, clock: ScaledClock, tmp_path: Path
) -> None:
    async with started(write_mode="act") as service:
        await until(lambda: decided(service), "ready")
        cluster.dials["chat"].turn(SURGE * IDLE_RATES["chat"], clock.now())
        await until(lambda: any("deployments/chat" in line for line in writes(sandbox)), "chat was granted more")
    lines = await asyncio.to_thread(_journal, tmp_path / "journal")
    found = await asyncio.to_thread(replay, lines)
    assert found.cycles > 3
    assert found.changes > 0
    assert found.differences == []


def _journal(folder: Path) -> list[bytes]:
    return [
        line for path in sorted(folder.glob("journal-*.jsonl")) for line in path.read_bytes().splitlines(keepends=True)
    ]


async def test_metrics_count_what_was_read_and_show_what_was_decided(started: Started) -> None:
    async with started() as service:
        await until(lambda: decided(service) and demand(service, "chat") is not None, "a demand")
        text = service.reporter.metrics().decode()
    assert 'rebalancer_model_replicas{model="chat",state="demand"}' in text
    assert 'rebalancer_pool_gpus{pool="a100",state="budget"} 16.0' in text
    assert "rebalancer_synced 1.0" in text
    assert 'rebalancer_cycles_total{result="ok"}' in text
    assert 'rebalancer_input_total{result="events"}' in text


def test_the_demo_policy_is_what_the_tests_think_it_is(cluster: DemoCluster) -> None:
    assert isinstance(cluster.policy, Policy)
    assert [model.id for model in cluster.policy.models] == ["chat", "code", "image"]
