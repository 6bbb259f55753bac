"""Sudden steps that some model of the fleet has taken, as any model may meet them."""

import numpy as np
import pytest

from rebalancer.state.outlook import Learned, Steps, common, learn
from rebalancer.state.outlook.scenarios import paths
from rebalancer.state.outlook.shift import Shift
from tests.state.outlook import plain
from tests.state.outlook.ahead import ahead_of, past_of

COLD, HORIZON, T = 60, 150, 13_000
CALM = Shift(*(np.zeros(2) for _ in range(4)))


def surging(times: float, every: int = 3000) -> np.ndarray:
    work = np.random.default_rng(2).gamma(40.0, 0.1, T)
    for begin in range(1500, T - 1000, every):
        work[begin : begin + 600] *= times
    return work


def test_the_share_of_starts_after_which_twice_the_level_came_is_learnt() -> None:
    work = surging(4.0)
    one = learn(past_of(work[np.newaxis]), COLD, HORIZON)[0]
    levels, came = [], []
    for s in plain.grid(T, HORIZON):
        if s >= 300:
            levels.append(plain.level(work, s, one.beta))
            came.append(float(np.mean(work[s + COLD : s + HORIZON])))
    ratios = [c / n for c, n in zip(came, levels, strict=True) if c >= 2 * n and c >= n + 1]
    assert len(ratios) >= 6
    assert one.steps == pytest.approx(len(ratios) / len(levels), abs=1e-6)
    assert one.step == pytest.approx(np.mean(ratios), abs=1e-5)
    assert one.usual == pytest.approx(np.median(levels), abs=1e-5)


def test_a_model_that_only_wavers_takes_no_steps() -> None:
    assert learn(past_of(surging(1.6)[np.newaxis]), COLD, HORIZON)[0].steps == 0.0


def test_what_one_model_did_is_shared_with_all_that_are_known() -> None:
    learned = [Learned(usual=4.0, steps=0.06, step=4.0), Learned(usual=9.0, steps=0.02, step=2.0), Learned(usual=1.0)]
    assert common([*learned, Learned()]) == Steps(round(0.08 / 3, 6), 3.5)
    assert common([Learned(usual=2.0)]) == Steps()


def test_each_model_is_played_a_step_up_from_its_usual_level() -> None:
    work = np.random.default_rng(1).gamma(40.0, 0.1, (2, 9000))
    learned = [Learned(usual=4.0), Learned(usual=1.0)]
    ahead = ahead_of(past_of(work), 75, 2, learned, Steps(0.04, 3.0))
    found, known = paths(ahead, CALM)
    stepped = np.flatnonzero((found.model == 0) & (found.level == 12.0))
    assert len(stepped) == 8
    assert found.weight[stepped].sum() == pytest.approx(0.04)
    assert found.weight[found.model == 0].sum() == pytest.approx(1.0)
    s = int(known.seconds[4])
    then = plain.level(work[0], s, (0, 0, 0))
    wanted = plain.replay(work[0], 9000, s, 12.0, then, 1.0, 75, 2)
    assert found.work[:, stepped[1]] == pytest.approx(wanted, rel=1e-5)
    # The other one stands at 4 already, above a step up from its usual 1.
    assert (found.model == 1).sum() == 31
