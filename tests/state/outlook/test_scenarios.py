"""What may arrive: replays of the model's own errors, and what stands in before there are any."""

from dataclasses import replace

import numpy as np
import pytest

from rebalancer.state.outlook.chance import normals
from rebalancer.state.outlook.changepoint import LevelShift
from rebalancer.state.outlook.learned import Learned
from rebalancer.state.outlook.past import from_cells
from rebalancer.state.outlook.replays import replays
from rebalancer.state.outlook.scenarios import Paths, paths
from tests.state.outlook import plain
from tests.state.outlook.ahead import ahead_of, bursty, past_of

STEPS, DT = 75, 2
H = STEPS * DT


def calm(models: int = 1) -> LevelShift:
    none = np.zeros(models)
    return LevelShift(none, none, none, none)


def lanes_of(found: Paths, model: int) -> np.ndarray:
    return np.flatnonzero(found.model == model)


def test_a_replay_is_what_came_then_moved_to_the_level_of_now() -> None:
    learned = [Learned(beta=(0.1, 0.2, -0.1), gamma=0.7), Learned(gamma=0.3)]
    work = bursty(9000, models=2)
    ahead = ahead_of(past_of(work), STEPS, DT, learned)
    found, _ = paths(ahead, calm(2))
    for model, one in enumerate(learned):
        lanes = lanes_of(found, model)
        assert len(lanes) == 31
        for k in (0, 17, 30):
            s = 9000 - H - 120 * k
            ratio = plain.dispersion(work[model], 9000, 300) / plain.dispersion(work[model], s, 300)
            scale = min(max(ratio ** (one.gamma / 2), 0.55), 1.8)
            now, then = (plain.level(work[model], at, one.beta) for at in (9000, s))
            wanted = plain.replay(work[model], 9000, s, now, then, scale, STEPS, DT)
            assert found.work[:, lanes[k]] == pytest.approx(wanted, rel=1e-5, abs=1e-5)
            assert found.weight[lanes[k]] / found.weight[lanes[0]] == pytest.approx(np.exp(-120 * k / 3600))
        assert found.weight[lanes].sum() == pytest.approx(1.0)


def test_replays_end_by_now_and_begin_a_minute_into_the_past() -> None:
    known = replays(ahead_of(past_of(bursty(1000)), STEPS))
    assert known.seconds[0] == 1000 - H
    assert known.seconds[-1] == 1000 - H - 120 * 6 >= 60 > known.seconds[-1] - 120
    assert not len(replays(ahead_of(past_of(bursty(60 + H - 1)), STEPS)).seconds)


def test_a_model_younger_than_its_neighbours_replays_only_what_it_has_seen() -> None:
    work = bursty(4000, models=2).T
    seen = np.ones_like(work)
    seen[:3000, 1] = 0.0
    past = from_cells(np.arange(4001), work * seen, seen, np.full(2, 0.5))
    known = replays(ahead_of(past, STEPS))
    assert known.usable.tolist() == [31, 1 + (1000 - H - 60) // 120]


def test_of_a_model_with_too_few_replays_a_shift_is_played_by_the_paths_that_stand_in() -> None:
    ahead = ahead_of(past_of(bursty(400)), STEPS)
    level = ahead.level
    moved = LevelShift(np.array([0.75]), 3.0 * level, np.zeros(1), np.zeros(1))
    found, known = paths(ahead, moved)
    still, _ = paths(ahead, calm())
    assert known.usable[0] == 2
    assert len(found.model) == len(still.model) + 6
    again = found.level == 3.0 * level[0]
    assert found.weight[again].sum() == pytest.approx(0.75)
    mean = (found.work[:, again].mean(axis=0) * found.weight[again]).sum() / found.weight[again].sum()
    assert mean == pytest.approx(3.0 * level[0] * DT, rel=0.05)


@pytest.mark.parametrize(
    ("seconds", "replayed", "each"), [(205, 0, 0.5), (400, 2, 0.5), (1000, 7, 2.5 / 7), (2050, 16, 0.0)]
)
def test_in_the_first_half_hour_six_paths_stand_in(seconds: int, replayed: int, each: float) -> None:
    ahead = ahead_of(past_of(bursty(seconds)), STEPS)
    found, known = paths(ahead, calm())
    assert known.usable[0] == replayed
    assert len(found.model) == replayed + (6 if each else 0)
    if each and replayed:
        assert found.weight[-1] / found.weight[0] == pytest.approx(each)
    if each:
        z = normals(6, STEPS)[4]
        spread = np.sqrt(4 * ahead.level[0] * DT * 0.5)
        wanted = np.maximum(0.0, ahead.level[0] * DT + spread * z)
        assert found.work[:, -2] == pytest.approx(wanted, rel=1e-5)


def test_the_fixed_numbers_are_normal_in_pairs_and_never_change() -> None:
    z = normals(40, 500)
    assert z.std() == pytest.approx(1.0, abs=0.02)
    assert (z[::2] == -z[1::2]).all()
    assert abs(np.corrcoef(z[0], z[2])[0, 1]) < 0.15
    assert (np.abs(z) > 1.96).mean() == pytest.approx(0.05, abs=0.01)
    assert z[0, :3] == pytest.approx(normals(2, 500)[0, :3])


def test_whole_periods_back_are_played_by_how_far_the_period_is_trusted() -> None:
    work = bursty(9000)
    ahead = ahead_of(past_of(work), STEPS, DT, [Learned(period_seconds=1800, rho=0.6)])
    found, _ = paths(ahead, calm())
    assert len(found.model) == 31 + 12
    assert found.weight[31:].sum() == pytest.approx(0.6)
    for lane, s in ((31, 9000 - 1820), (32, 9000 - 1800), (33, 9000 - 1780), (42, 9000 - 7180)):
        now, then = (plain.level(work[0], at, (0, 0, 0)) for at in (9000, s))
        assert found.work[:, lane] == pytest.approx(
            plain.replay(work[0], 9000, s, now, then, 1.0, STEPS, DT), rel=1e-5, abs=1e-5
        )


def test_the_worst_of_what_is_no_longer_replayed_is_played_as_a_replay_of_its_age() -> None:
    work = bursty(12_000)
    worst = (3000, 6000, 20)  # the last is younger than a level
    found, _ = paths(ahead_of(past_of(work), STEPS, DT, [Learned(rare=worst)]), calm())
    assert len(found.model) == 31 + 2
    for lane, s in ((31, 3000), (32, 6000)):
        now, then = (plain.level(work[0], at, (0, 0, 0)) for at in (12_000, s))
        wanted = plain.replay(work[0], 12_000, s, now, then, 1.0, STEPS, DT)
        assert found.work[:, lane] == pytest.approx(wanted, rel=1e-5, abs=1e-5)
        assert found.weight[lane] / found.weight[0] == pytest.approx(np.exp(-(12_000 - H - s) / 3600))


def test_a_period_longer_than_the_past_adds_nothing() -> None:
    ahead = ahead_of(past_of(bursty(4000)), STEPS, DT, [Learned(period_seconds=3600, rho=0.6)])
    found, _ = paths(ahead, calm())
    assert found.weight.sum() == pytest.approx(1.0)
    assert (lanes_of(found, 0) >= 0).all()


def test_a_shift_plays_every_replay_again_at_the_level_it_went_to() -> None:
    work = bursty(9000, models=2)
    ahead = ahead_of(past_of(work), STEPS)
    up = LevelShift(np.array([0.0, 0.25]), np.array([0.0, 11.0]), np.zeros(2), np.zeros(2))
    found, _ = paths(ahead, up)
    assert (len(lanes_of(found, 0)), len(lanes_of(found, 1))) == (31, 62)
    moved = np.flatnonzero((found.model == 1) & (found.level == 11.0))
    assert found.weight[moved].sum() == pytest.approx(0.25)
    s = 9000 - H - 120 * 5
    then = plain.level(work[1], s, (0, 0, 0))
    wanted = plain.replay(work[1], 9000, s, 11.0, then, 1.0, STEPS, DT)
    brought_down = np.array(wanted) * 11.0 * DT / np.mean(wanted)  # so much was never seen: no more than the level
    assert found.work[:, moved[5]] == pytest.approx(brought_down, rel=1e-5, abs=1e-5)
    for model in range(2):
        assert found.weight[lanes_of(found, model)].sum() == pytest.approx(1.0)


def test_no_replay_brings_more_than_the_highest_minute_of_the_hour_or_the_busiest_five_minutes_before() -> None:
    work = np.full(9000, 1.0)
    work[-600:] = 3.0  # risen for ten minutes: from its level of now the rise would be played to four and more
    work[-300:-240] = 3.5
    for busiest, most in ((0.0, 3.5), (5.0, 5.0)):
        ahead = ahead_of(past_of(work[np.newaxis]), STEPS, DT, [Learned(busiest=busiest)])
        means = paths(ahead, calm())[0].work.mean(axis=0) / DT
        assert means.max() == pytest.approx(most, rel=1e-5)
        assert means.max() > ahead.level[0]


def test_a_tide_goes_on_to_rise_as_it_has_just_done_and_a_step_is_over() -> None:
    seconds = np.arange(9000)
    rising, risen = 3.0 + seconds / 3000.0, np.where(seconds < 8700, 3.0, 6.0)
    tide, step = (
        paths(ahead_of(past_of(work[np.newaxis]), STEPS, DT), calm())[0].work.mean(axis=0).max() / DT
        for work in (rising, risen)
    )
    highest = rising[-60:].mean()
    assert 1.005 * highest < tide <= highest * highest / rising[-240:-180].mean() + 1e-6
    assert step == pytest.approx(6.0)


def test_seconds_nobody_observed_are_replayed_as_the_level_says() -> None:
    work = bursty(6000).T
    seen = np.ones_like(work)
    seen[5000:5200] = 0.0
    ahead = ahead_of(from_cells(np.arange(6001), work * seen, seen, np.full(1, 0.5)), STEPS)
    found, known = paths(ahead, calm())
    inside = int(np.flatnonzero((known.seconds >= 5000) & (known.seconds + 20 <= 5200))[0])
    assert found.work[:10, inside] == pytest.approx([ahead.level[0] * DT] * 10, rel=1e-5)


def test_lanes_of_one_model_do_not_depend_on_its_neighbours() -> None:
    work = bursty(9000, models=3)
    learned = [Learned(), Learned(period_seconds=1800, rho=0.3), Learned()]
    shifted = LevelShift(np.array([0.1, 0.0, 0.3]), np.array([9.0, 0.0, 1.0]), np.zeros(3), np.zeros(3))
    together, _ = paths(ahead_of(past_of(work), STEPS, DT, learned), shifted)
    for model in range(3):
        own = LevelShift(*(of[model : model + 1] for of in shifted))
        alone, _ = paths(ahead_of(past_of(work[model : model + 1]), STEPS, DT, learned[model : model + 1]), own)
        lanes = lanes_of(together, model)
        assert (together.work[:, lanes] == alone.work).all()
        assert together.weight[lanes] == pytest.approx(alone.weight)


def test_metrics_of_several_seconds_get_back_the_chance_that_they_smooth_away() -> None:
    past = past_of(np.full((1, 9000), 6.0))
    smooth = ahead_of(past, STEPS)
    rough = replace(smooth, interval_seconds=10)
    even, _ = paths(smooth, calm())
    found, known = paths(rough, calm())
    assert found.work.std() == pytest.approx(np.sqrt(6.0 * DT * 0.5 * 0.8), rel=0.05)  # 5 steps lose one to their mean
    first = int(-known.seconds[3] % 10) // DT
    sums = found.work[first : first + 70, 3].reshape(-1, 5).sum(axis=1)
    assert sums == pytest.approx(even.work[first : first + 70, 3].reshape(-1, 5).sum(axis=1), rel=1e-4)
    assert (found.work == paths(rough, calm())[0].work).all()
