"""Somebody sets the machine's clock while the service runs."""

import pytest

from rebalancer.loop.clock import ScaledClock
from tests.app.conftest import SPEED, Started, until

HALF_AN_HOUR = 1800.0


class SettableClock(ScaledClock):
    """The demo's clock, whose UTC somebody may set."""

    set_by = 0.0

    def now(self) -> float:
        return super().now() + self.set_by


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(SPEED)


@pytest.mark.parametrize("step", [HALF_AN_HOUR, -HALF_AN_HOUR])
async def test_a_service_whose_clock_is_set_stays_ready_and_alive_and_says_by_how_much(
    started: Started, clock: SettableClock, step: float
) -> None:
    async with started() as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "readiness")
        clock.set_by = step
        assert service.reporter.unready() == ()
        assert service.reporter.dead() is None
        (line,) = [
            one for one in service.reporter.metrics().decode().splitlines() if one.startswith("rebalancer_clock_step")
        ]
        assert float(line.split()[1]) == pytest.approx(step, abs=1.0)
