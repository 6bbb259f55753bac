"""S5 and S6: what their days hold."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rebalancer.sim.suite.cases import cases, data_digest
from rebalancer.sim.suite.elastic import CALM, NOTICE_SECONDS, SPOT_NODES, calm, launch_times, s5, s6, spot_changes
from rebalancer.sim.suite.scenarios import s2
from tests.beside import recorded_traffic


@pytest.fixture
def folder() -> Path:
    return recorded_traffic()


def test_nodes_take_as_long_as_measured_and_one_order_in_twenty_finds_none() -> None:
    took = launch_times(0)
    seconds = [each for each in took if each is not None]

    assert np.median(seconds) == pytest.approx(150, rel=0.03)
    assert np.quantile(seconds, 0.95) == pytest.approx(300, rel=0.05)
    assert len(seconds) / len(took) == pytest.approx(0.95, abs=0.01)
    assert took == launch_times(0) != launch_times(1)


def test_the_demand_of_s5_goes_up_and_comes_back(folder: Path) -> None:
    flat, ramped = s2(folder, 1, 32, 60), s5(folder, 1, 60)
    for before, after in zip(flat.models, ramped.models, strict=True):
        times = after.requests / np.where(before.requests > 0, before.requests, np.nan)
        assert np.nanmax(np.abs(times[: 17 * 3600] - 1)) < 1e-9
        assert np.nanmax(np.abs(times[23 * 3600 :] - 1)) < 1e-9
        assert np.nanmax(times) == pytest.approx(1.6, abs=0.001)
        assert after.work.sum() / after.requests.sum() == pytest.approx(
            before.work.sum() / before.requests.sum(), rel=0.02
        )
    assert ramped.nodes == (32,)
    assert ramped.elastic_usd_per_gpu_hour == pytest.approx(6.88)
    assert not ramped.usd_per_gpu_hour


def test_a_calm_month_takes_back_as_many_machines_as_its_rate_says() -> None:
    days = 2000
    there = calm(0.001, days * 86_400, seed=3)
    taken = int(np.clip(-np.diff(there), 0, None).sum())

    assert taken == pytest.approx(0.001 * 24 * days * SPOT_NODES, rel=0.1)
    assert there.max() == SPOT_NODES
    assert not np.array_equal(there, calm(0.001, days * 86_400, seed=4))


def test_a_machine_that_was_taken_on_a_calm_day_is_back_after_an_hour() -> None:
    there = calm(0.05, 86_400 + NOTICE_SECONDS, seed=1)
    changes = spot_changes(there, 86_400)
    gone = [change.second for change in changes if not change.gpus]
    back = [change.second for change in changes if change.gpus]

    assert gone
    assert set(back) <= {second + 3600 for second in gone}


@pytest.mark.parametrize("zone", ["us-west-2a", "us-west-2c", "us-east-2b", "bamboo"])
def test_machines_go_in_every_storm_and_are_announced(folder: Path, zone: str) -> None:
    scenario = s6(folder, 1, zone, 60)
    gone = [change for change in scenario.changes if not change.gpus and change.second]

    assert len(gone) >= 3
    assert {change.notice_seconds for change in gone} == {NOTICE_SECONDS}
    assert {change.node for change in scenario.changes} <= set(range(1, SPOT_NODES + 1))


def test_spot_costs_what_the_advisor_leaves_of_the_price_on_demand(folder: Path) -> None:
    scenario = s6(folder, 1, CALM, 60)

    assert scenario.usd_per_gpu_hour == pytest.approx(6.88)
    assert scenario.elastic_usd_per_gpu_hour == pytest.approx(6.88 * 0.48)


def test_other_machines_are_other_data(folder: Path) -> None:
    scenario = s5(folder, 1, 60)

    assert data_digest(scenario) != data_digest(replace(scenario, launches=None))
    assert data_digest(scenario) != data_digest(s5(folder, 1, 60, seed=1))


def test_chance_is_played_out_where_it_decides() -> None:
    seeds = {(case.scenario, case.day): len(case.seeds) for case in cases() if case.scenario in {"S5", "S6"}}

    assert seeds == {
        ("S5", "1"): 5,
        ("S5", "0"): 1,
        ("S6", "1-calm"): 5,
        ("S6", "0-us-east-2b"): 1,
        **{("S6", f"1-{zone}"): 1 for zone in ("us-west-2a", "us-west-2c", "us-east-2b", "bamboo")},
    }
