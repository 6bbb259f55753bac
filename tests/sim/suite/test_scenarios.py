from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rebalancer.sim.demand import Stream
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.fluid.fleet import Fleet
from rebalancer.sim.peers.static import Static
from rebalancer.sim.scenario import NodeChange
from rebalancer.sim.suite.elastic import s6, spot_changes
from rebalancer.sim.suite.scenarios import s2, s3, s4, s7, s7_code
from rebalancer.sim.suite.surges import Surges
from rebalancer.sim.suite.work import TokenRates
from tests.beside import recorded_traffic


@pytest.fixture
def folder() -> Path:
    return recorded_traffic()


def test_work_is_scaled_and_prompts_and_generated_tokens_both_count() -> None:
    stream = Stream("m", np.array([1.0]), prompt_tokens=np.array([1000.0]), generated_tokens=np.array([320.0]))
    rates = TokenRates(prefill_per_second=500, seconds_per_token=0.1, batch=64, scale=3)

    assert rates.work(stream)[0] == pytest.approx(3 * (1000 / 500 + 320 * 0.1 / 64))


@pytest.mark.parametrize(("day", "mean_work"), [(0, 20.6), (1, 17.5)])
def test_the_language_models_of_s2_keep_as_many_replicas_busy_as_published(
    folder: Path, day: int, mean_work: float
) -> None:
    scenario = s2(folder, day, gpus=32, start_seconds=60)

    assert sum(model.work.mean() for model in scenario.models) == pytest.approx(mean_work, abs=0.05)
    assert [(model.first, model.floor, model.start_seconds) for model in scenario.models] == [(10, 2, 60)] * 3
    assert scenario.gpus == 32


def test_requests_of_s2_are_those_of_the_trace(folder: Path) -> None:
    requests = sum(model.requests.sum() for model in s2(folder, day=0, gpus=32, start_seconds=60).models)

    assert requests == pytest.approx(4.65e6, rel=0.01)


def test_surges_take_turns_and_reach_four_times_the_demand_within_a_minute() -> None:
    level = Surges().level()

    first, second = Surges().starts[:2]
    assert level[0, first - 1] == 3.2
    assert level[0, first + 59] == pytest.approx(4 * 3.2)
    assert level[0, first + 599] == pytest.approx(4 * 3.2)
    assert level[0, first + 700] == level[1, first + 300] == 3.2
    assert level[1, second + 300] == pytest.approx(4 * 3.2)
    assert len(Surges().starts) == 12


def test_drawn_surges_follow_their_level() -> None:
    scenario = s7(gpus=24, start_seconds=60)
    work = np.stack([model.work for model in scenario.models])

    assert work.mean() == pytest.approx(Surges().level().mean(), rel=0.01)
    assert not np.array_equal(work, np.stack([model.work for model in s7(24, 60, seed=1).models]))


@pytest.mark.parametrize("gpus", [64, 96])
def test_the_first_replicas_of_s3_fit_on_their_nodes(folder: Path, gpus: int) -> None:
    scenario = s3(folder, gpus)

    fleet = Fleet(scenario.models, list(scenario.nodes))

    assert fleet.waiting == [0] * 5
    assert fleet.used == gpus
    assert sum(model.gpus * model.work.mean() for model in scenario.models) == pytest.approx(0.6 * gpus)


@pytest.mark.parametrize("gpus", [24, 48])
def test_s4_needs_six_tenths_of_its_budget_and_lets_the_rare_ones_go_to_nothing(folder: Path, gpus: int) -> None:
    scenario = s4(folder, 9, gpus, 30)

    assert sum(model.work.mean() for model in scenario.models) == pytest.approx(0.6 * gpus)
    assert len(scenario.models) == 18
    assert sum(model.first for model in scenario.models) == gpus
    assert all((model.floor == 1) == (model.work.mean() >= 0.1) for model in scenario.models)


def test_azures_code_service_plays_twelve_times_half_a_recording_apart(folder: Path) -> None:
    scenario = s7_code(folder, gpus=16, start_seconds=60)
    a, b = (model.work for model in scenario.models)

    assert a.mean() == b.mean() == pytest.approx(3.2)
    assert np.array_equal(a[:3436], a[3436 : 2 * 3436])
    assert np.array_equal(np.roll(a, 1718), b)


def test_a_spot_machine_is_announced_before_it_goes_and_the_last_goes_first() -> None:
    there = np.full(1000 + 120, 8)
    there[500:700] = 6
    there[800:810] = 9  # more than are wanted

    changes = spot_changes(np.minimum(there, 8), 1000)

    assert [change.notice_seconds for change in changes] == [120, 120, 0, 0]
    assert [(c.second, c.node, c.gpus) for c in changes] == [
        (500, 7, 0),
        (500, 8, 0),
        (700, 7, 1),
        (700, 8, 1),
    ]


def test_a_machine_that_comes_for_less_than_a_notice_is_not_used() -> None:
    there = np.full(1000 + 120, 7)
    there[500:600] = 8

    assert [(c.second, c.node, c.gpus) for c in spot_changes(there, 1000)] == [(0, 8, 0)]


def test_pods_of_a_machine_that_goes_wait_until_it_is_back() -> None:
    quiet = replace(s7(gpus=4, start_seconds=60), seconds=1000, surges=())
    scenario = replace(quiet, nodes=(3, 1), changes=(NodeChange(300, 1, 0), NodeChange(600, 1, 1)))

    record = play(scenario, Static(), "static")

    ready = record.ready.sum(axis=0)
    assert (ready[299], ready[300], ready[659], ready[660]) == (4, 3, 3, 4)
    assert record.gpus[299] == 4
    assert record.gpus[400] == 3
    assert record.gpus[600] == 4  # it loads


def test_s6_starts_within_what_is_there(folder: Path) -> None:
    scenario = s6(folder, 1, "us-west-2a", 60)

    assert scenario.gpus == 32
    assert sum(model.first for model in scenario.models) == 24
    assert any(change.gpus == 0 for change in scenario.changes)
    assert [change.second for change in scenario.changes] == sorted(change.second for change in scenario.changes)
