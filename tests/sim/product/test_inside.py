"""With `actuation: bounds` the product moves the bounds of simulated HPAs, and those move the replicas."""

import pytest

from rebalancer.sim.product import default_policy
from rebalancer.sim.product.run import play_on
from rebalancer.sim.product.stage import Stage
from rebalancer.sim.record import Record
from tests.sim.product.scenarios import GPUS, a_surge

SCENARIO = a_surge(1200)


@pytest.fixture(scope="module")
def stage() -> Stage:
    return Stage(SCENARIO, default_policy(SCENARIO, "bounds"))


@pytest.fixture(scope="module")
def played(stage: Stage) -> Record:
    return play_on(stage, default_policy(SCENARIO, "bounds"))


def test_idle_gpus_reach_the_surge_through_the_hpas(played: Record) -> None:
    assert float(played.ready[0, 600:800].mean()) >= 6
    assert played.gpus.max() <= GPUS
    assert played.floor_breaches == 0


def test_replicas_move_when_an_hpa_looks_and_at_no_other_time(stage: Stage, played: Record) -> None:
    assert played.starts > 0
    moved = [second for second in range(1, 1200) if (stage.desired[:, second] != stage.desired[:, second - 1]).any()]
    assert moved
    assert all(second % 15 == 0 for second in moved)


def test_the_hpas_keep_what_they_were_before_us(stage: Stage, played: Record) -> None:
    assert played.starts > 0
    saved = {name: hpa.annotations.get("rebalancer.io/originals") for (_, name), hpa in stage.world.hpas.items()}
    assert saved["a"] == '{"min":2,"max":12}'
