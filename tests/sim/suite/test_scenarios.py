import os
from pathlib import Path

import numpy as np
import pytest

from rebalancer.sim.demand import Stream
from rebalancer.sim.suite.scenarios import s2
from rebalancer.sim.suite.work import TokenRates
from rebalancer.sim.traces.folder import VARIABLE


@pytest.fixture
def folder() -> Path:
    if VARIABLE not in os.environ:
        pytest.skip(f"{VARIABLE} is not set: no traces")
    return Path(os.environ[VARIABLE])


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
