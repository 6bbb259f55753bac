"""What people see of an outage: the third column of the table "An outage, hour by hour" in docs/operations.md.

Each test's docstring is its cell; `tests/docs/test_outages.py` holds both together. When alerts fire on what is read
here is in `tests/alerts`; for how long each outage lasts and what is decided in it see `tests/outages`.
"""

import re

from rebalancer.app import Service
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import Started, get, until


def figure(service: Service, series: str) -> float | None:
    """The value of a series on /metrics; None where it is not there."""
    line = re.search(rf"^{re.escape(series)} (\S+)$", service.reporter.metrics().decode(), re.MULTILINE)
    return float(line[1]) if line else None


def blind(service: Service) -> dict[str, float | None]:
    return {model: figure(service, f'rebalancer_model_blind{{model="{model}"}}') for model in ("chat", "code", "image")}


def unready(service: Service) -> dict[str, str]:
    return {one.what: one.detail for one in service.reporter.unready()}


async def test_kafka_seen(started: Started, sandbox: Sandbox) -> None:
    """`/readyz` answers 503 with `kafka-in`, and why; who acts says `kafka-out`, too.

    `status` and the console tell the same. Alerts: `RebalancerConsumerStuck`, `RebalancerBlind` of every model,
    `RebalancerCheckpointOld`.
    """
    async with started(write_mode="act") as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        await until(lambda: blind(service) == {"chat": 0.0, "code": 0.0, "image": 0.0}, "every model is seen")
        sandbox.embedded.cut()
        await until(lambda: {"kafka-in", "kafka-out"} <= unready(service).keys(), "told")
        await until(lambda: blind(service) == {"chat": 1.0, "code": 1.0, "image": 1.0}, "every model is blind")
        code, body = await get(service.servers.probe_port, "/readyz")
        assert code == 503
        assert {"kafka-in", "kafka-out"} <= {each["what"] for each in body["unready"]}
        _, status = await get(service.servers.api_port, "/v1/status")
        assert {"kafka-in", "kafka-out"} <= {each["what"] for each in status["unready"]}
        stuck, age = 'rebalancer_consumer_stuck_seconds{topic="metrics"}', "rebalancer_checkpoint_age_seconds"
        await until(
            lambda: min(figure(service, stuck) or 0.0, figure(service, age) or 0.0) > 20.0, "alerts come nearer"
        )
        sandbox.embedded.heal()
        await until(lambda: not service.reporter.unready(), "ready again")


async def test_api_server_seen(started: Started, sandbox: Sandbox) -> None:
    """`/readyz` answers 503, names every source that is silent or not listed, and no leader.

    A replica that came up meanwhile counts no replica of any model, instead of 0: no floor is told to be at risk.
    Alerts: `RebalancerNotLeading`, `RebalancerNotSynced`.
    """
    sandbox.kubernetes.faults.fail_next(1_000_000, 503)
    async with started(write_mode="act", lease_name="rebalancer", instance="rb-0") as service:
        await until(lambda: service.plan is not None, "it decides, blind")
        await until(lambda: {"nodes", "pods", "deployments", "writestops"} <= unready(service).keys(), "told")
        code, body = await get(service.servers.probe_port, "/readyz")
        assert (code, body["leader"]) == (503, "")
        assert (figure(service, "rebalancer_leading"), figure(service, "rebalancer_synced")) == (0.0, 0.0)
        ready = 'rebalancer_model_replicas{model="chat",state="ready"}'
        assert figure(service, ready) is None
        sandbox.kubernetes.faults.clear()
        await until(lambda: figure(service, ready) == 3.0, "replicas are counted once they are seen")
