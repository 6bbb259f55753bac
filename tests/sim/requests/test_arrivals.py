import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.requests.arrivals import RESNET_34, ROUTE, clean, compatible, draw

COUNTS = np.array([[600, 900, 0, 300], [40, 1, 1600, 5]])


@pytest.mark.parametrize("kind", ["compatible", "clean"])
def test_every_minute_brings_exactly_its_requests_in_order(kind: str) -> None:
    jobs = draw(COUNTS, "clean" if kind == "clean" else "compatible", 42)
    assert [len(job.at) for job in jobs] == [1800, 1646]
    assert all((np.diff(job.at) >= 0.0).all() for job in jobs)
    assert [job.per_second(240).sum() for job in jobs] == [(job.at < 240).sum() for job in jobs]


@given(st.integers(1, 1600), st.integers(0, 1000))
def test_a_clean_minute_keeps_its_requests_inside(count: int, seed: int) -> None:
    at = clean(count, np.random.default_rng(seed))
    assert len(at) == count
    assert at[0] >= 0.0
    assert at[-1] < 60.0


def test_a_compatible_stream_begins_with_its_minute_and_every_other_one_overruns_it() -> None:
    chance = np.random.default_rng(1)
    streams = [compatible(1000, chance) for _ in range(200)]
    assert all(at[0] == 0.0 for at in streams)
    overruns = np.array([at[-1] for at in streams]) - 60.0
    assert 0.35 < (overruns > 0.0).mean() < 0.65
    assert overruns.std() == pytest.approx(60 / np.sqrt(1000), rel=0.2)  # a sum of 1,000 exponential gaps


def test_compatible_instants_are_drawn_minute_by_minute_and_job_by_job_from_one_chance() -> None:
    chance = np.random.default_rng(7)
    first = compatible(3, chance)
    second = compatible(2, chance)
    jobs = draw(np.array([[3], [2]]), "compatible", 7)
    assert np.array_equal(jobs[0].at, first)
    assert np.array_equal(jobs[1].at, second)


def test_one_seed_draws_the_same_requests_again_and_another_others() -> None:
    one, again, other = (draw(COUNTS, "clean", seed)[0] for seed in (24, 24, 32))
    assert np.array_equal(one.at, again.at)
    assert np.array_equal(one.service_seconds, again.service_seconds)
    assert not np.array_equal(one.at, other.at)


def test_service_and_route_times_have_the_means_that_were_measured() -> None:
    job = draw(np.full((1, 60), 1000), "clean", 42)[0]
    assert job.service_seconds.mean() == pytest.approx(0.1543, rel=0.01)
    assert job.service_seconds.min() > RESNET_34.floor_seconds
    assert np.quantile(job.service_seconds, 0.99) == pytest.approx(RESNET_34.quantile_seconds(0.99), rel=0.02)
    assert job.route_seconds.mean() == pytest.approx(ROUTE.mean_seconds, rel=0.01)
