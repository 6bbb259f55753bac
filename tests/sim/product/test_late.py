"""Samples that are late, and whose lag moves: GPUs move all the same, once the lag is known."""

import pytest

from rebalancer.sim.product import default_policy
from rebalancer.sim.product.clock import still
from rebalancer.sim.product.notes import Unwritten
from rebalancer.sim.product.run import Product
from rebalancer.sim.product.stage import STARTED_AT, Stage
from tests.sim.product.scenarios import a_surge

SURGE_AT, SURGE_ENDS, SECONDS = 600, 1200, 1800
SCENARIO = a_surge(SECONDS)


def played(lags: dict[int, float]) -> Stage:
    """The world in which samples come so late from each of these seconds on."""
    policy = default_policy(SCENARIO)
    stage = Stage(SCENARIO, policy)

    async def play() -> None:
        product = Product(stage, policy, Unwritten())
        for second in range(SECONDS):
            stage.world.delay_seconds = lags.get(second, stage.world.delay_seconds)
            await product.live(second)
            stage.note(second)
        stage.world.advance(STARTED_AT + SECONDS)

    with still() as runner:
        runner.run(play())
    return stage


@pytest.mark.parametrize(
    ("lags", "by"),
    [({0: 60.0}, 900), ({300: 45.0, 1300: 1.0}, 850), ({590: 45.0}, 950)],
    ids=["always", "since five minutes", "as the surge begins"],
)
def test_a_lag_that_moves_delays_the_answer_to_a_surge_and_prevents_none(lags: dict[int, float], by: int) -> None:
    stage = played(lags)
    record, asked = stage.record("late"), stage.desired[0]
    assert asked[SURGE_AT - 1] == 4
    assert asked[SURGE_AT : SURGE_AT + 40].max() == 4, "nobody can know yet"
    assert asked[by] >= 8, "seven replicas are busy"
    assert asked[SURGE_ENDS - 1] >= 8
    assert record.floor_breaches == 0
