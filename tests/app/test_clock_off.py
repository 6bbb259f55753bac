"""The machine's clock is minutes away from the API server's: nothing is taken, and everybody is told."""

from collections.abc import AsyncIterator

import pytest

from rebalancer.cli.render.status import render_status
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_cluster import DemoCluster
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import SPEED, Started, until
from tests.app.test_clock_set import SettableClock


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(SPEED)


@pytest.fixture
async def sandbox(cluster: DemoCluster) -> AsyncIterator[Sandbox]:
    """The API server's clock is its own."""
    async with Sandbox(ScaledClock(SPEED), cluster.world) as sandbox:
        yield sandbox


@pytest.mark.parametrize(("step", "how"), [(700.0, "ahead of"), (-700.0, "behind")])
async def test_a_service_whose_clock_is_off_is_ready_takes_nothing_and_says_so_until_it_is_right(
    started: Started, clock: SettableClock, step: float, how: str
) -> None:
    async with started() as service:
        reporter = service.reporter
        await until(lambda: service.plan is not None and not reporter.unready(), "readiness")
        clock.set_by = step
        await until(lambda: reporter.status().sync.clock_is_off, "word that the clock is off")
        assert reporter.unready() == ()
        assert "differ by a minute or more. Nothing is taken" in render_status(reporter.status())
        (row,) = [one for one in reporter.status().unready if one.what == "clock"]
        assert row.detail.startswith("ours is ")
        assert row.detail.endswith(f" s {how} the API server's")
        lines = reporter.metrics().decode().splitlines()
        assert 'rebalancer_source_good{source="clock"} 0' in "\n".join(lines)
        (offset,) = [float(one.split()[1]) for one in lines if one.startswith("rebalancer_clock_offset_seconds")]
        assert offset == pytest.approx(-step, abs=5.0)
        await until(lambda: service.plan is not None and service.plan.at > clock.now() - 5.0, "a plan by that clock")
        clock.set_by = 0.0
        await until(lambda: not reporter.status().sync.clock_is_off, "word that it is right")


@pytest.mark.parametrize(("step", "how"), [(700.0, "ahead of"), (-700.0, "behind")])
async def test_a_start_under_a_wrong_clock_knows_it_by_the_first_replies_of_the_api_server(
    started: Started, clock: SettableClock, step: float, how: str
) -> None:
    clock.set_by = step
    async with started() as service:
        await until(lambda: service.plan is not None, "the first plan")
        await until(lambda: service.reporter.status().sync.clock_is_off, "word that the clock is off")
        (row,) = [one for one in service.reporter.status().unready if one.what == "clock"]
        assert row.detail.endswith(f" s {how} the API server's")
