"""A second source of readings that fails is told in status and metrics, and is no reason not to be ready."""

from rebalancer.app import Service
from tests.app.conftest import Started, get, until
from tests.testbed.process import free_port


def told(service: Service) -> list[str]:
    return [one.detail for one in service.reporter.status().unready if one.what == "prometheus"]


async def test_a_prometheus_that_is_away_abstains_and_the_service_stays_ready(started: Started) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with started(prometheus_url=url) as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        await until(lambda: any(url in detail for detail in told(service)), "told in status")
        text = service.reporter.metrics()
        assert (await get(service.servers.probe_port, "/readyz"))[0] == 200
    assert b"rebalancer_prometheus_good 0.0" in text
    assert b'rebalancer_prometheus_polls_total{result="failed"} 0.0' not in text


async def test_where_none_is_asked_none_is_missed(started: Started) -> None:
    async with started() as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        assert told(service) == []
        assert b"rebalancer_prometheus_good 0.0" not in service.reporter.metrics()
