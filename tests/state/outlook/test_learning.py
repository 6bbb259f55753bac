"""What is learnt about a model from its last three hours."""

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.domain import codec
from rebalancer.state.outlook.learned import Learned
from rebalancer.state.outlook.learning import learn
from rebalancer.state.outlook.period import periods
from tests.state.outlook import plain
from tests.state.outlook.ahead import bursty, past_of

COLD, HORIZON = 60, 150


def test_from_less_than_twenty_minutes_only_what_would_have_been_enough_is_learnt() -> None:
    (young,) = learn(past_of(bursty(60 + HORIZON + 19 * 60)), COLD, HORIZON)
    assert young.enough > 0
    assert replace(young, enough=0, peak=0.0, minute=0.0) == Learned(at=60 + HORIZON + 19 * 60)


def test_the_correction_is_the_ridge_regression_of_what_came() -> None:
    work = bursty(7000, models=2, seed=3)
    found = learn(past_of(work), COLD, HORIZON)
    for one, of in zip(found, work, strict=True):
        worse = one.error is not None and one.plain_error is not None and one.error > one.plain_error
        assert any(one.beta) == (not worse)
        if any(one.beta):
            assert one.beta == pytest.approx(plain.beta(of, 7000, COLD, HORIZON), abs=2e-6)
    assert any(any(one.beta) for one in found)


def test_models_learn_on_their_own() -> None:
    work = bursty(9000, models=3)
    together = learn(past_of(work), COLD, HORIZON)
    assert together == tuple(learn(past_of(one[np.newaxis]), COLD, HORIZON)[0] for one in work)


def test_how_much_of_a_dispersion_stays_is_the_slope_of_its_logarithm() -> None:
    chance = np.random.default_rng(2)
    wild = np.repeat(chance.random(12) < 0.5, 1000)
    work = np.where(wild, chance.gamma(0.05, 80.0, 12_000), chance.gamma(50.0, 0.08, 12_000))
    one = learn(past_of(work[np.newaxis]), COLD, HORIZON)[0]
    assert one.gamma == pytest.approx(plain.gamma(work, 12_000, HORIZON), abs=2e-6)
    assert one.gamma > 0.1


def test_a_correction_that_was_worse_than_none_is_not_used() -> None:
    # For two hours the hour's mean tells that work comes back; in the last hour it never does.
    waves = np.where(np.arange(14_000) // 1800 % 2 == 0, 8.0, 2.0)
    work = np.where(np.arange(14_000) < 9000, waves, np.linspace(8.0, 0.5, 14_000))
    one = learn(past_of(work[np.newaxis]), COLD, HORIZON)[0]
    assert one.error is not None
    assert one.plain_error is not None
    assert one.error > one.plain_error
    assert one.beta == (0.0, 0.0, 0.0)


def test_the_errors_are_those_of_the_last_hour() -> None:
    work = np.full((1, 14_000), 5.0)
    one = learn(past_of(work), COLD, HORIZON)[0]
    assert one.error == pytest.approx(0.0, abs=1e-6)
    assert one.plain_error == pytest.approx(0.0, abs=1e-6)
    assert learn(past_of(work[:, :4000]), COLD, HORIZON)[0].plain_error is None


def test_a_batch_job_every_half_hour_is_found_and_noise_has_no_period() -> None:
    t = np.arange(14_000)
    job = np.where(t % 1800 < 300, 20.0, 2.0)
    found = learn(past_of(np.stack([job, bursty(14_000)[0]])), COLD, HORIZON)
    assert found[0].period_seconds % 1800 == 0
    assert found[0].period_seconds > 0
    assert found[0].rho > 0.5
    steady = learn(past_of(np.random.default_rng(0).gamma(2.0, 2.0, (1, 14_000))), COLD, HORIZON)[0]
    assert (steady.period_seconds, steady.rho) == (0, 0.0)


def test_the_period_is_that_of_pearsons_largest_correlation() -> None:
    chance = np.random.default_rng(4)
    off = chance.normal(size=(180, 3)) + np.sin(2 * np.pi * np.arange(180) / 23)[:, np.newaxis] * [0.0, 2.0, 4.0]
    points = np.array([180, 150, 180])
    off[150:, 1] = 0.0
    lags, rho = periods(off, points, 4)
    for model in range(3):
        r = {
            lag: plain.correlation(off[: points[model] - lag, model], off[lag : points[model], model])
            for lag in range(4, 61)
            if points[model] - lag >= max(30, lag)
        }
        best = max(r, key=r.__getitem__)
        assert rho[model] == pytest.approx(min(max((r[best] - 0.5) / 0.5, 0.0), 0.9))
        assert lags[model] == (best if rho[model] else 0)


def test_what_was_learnt_survives_the_checkpoint_and_is_small() -> None:
    one = learn(past_of(bursty(14_000)), COLD, HORIZON)[0]
    data = codec.to_bytes(one)
    assert codec.from_bytes(data, Learned) == one
    assert len(data) < 4000


def test_the_same_past_teaches_the_same_bytes() -> None:
    work = bursty(9000, models=2)
    assert codec.to_bytes(learn(past_of(work), COLD, HORIZON)) == codec.to_bytes(
        learn(past_of(work.copy()), COLD, HORIZON)
    )


def test_the_worst_forecasts_are_kept_of_what_is_no_longer_replayed() -> None:
    work = np.random.default_rng(3).gamma(8.0, 0.5, (2, 14_000))
    work[0, 5000:5400] *= 4
    work[0, 13_000:13_400] *= 4  # replayed anyway
    surge, calm = (one.rare for one in learn(past_of(work), COLD, HORIZON))
    assert len(surge) == len(calm) == 4
    assert all(5000 - HORIZON <= at <= 5400 for at in surge)
    assert max(*surge, *calm) <= 14_000 - HORIZON - 3600
    assert learn(past_of(work[:, :4000]), COLD, HORIZON)[0].rare == ()
