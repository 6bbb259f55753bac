"""Faro's reactive baselines and its quota, with the cases of the project's own `test_autoscaler.py` as data."""

import pytest

from rebalancer.sim.peers.faro.jobs import Admission, FaroJob, FaroWish
from rebalancer.sim.peers.faro.reactive import Aiad, FairShare, Oneshot, Reactive, one_by_one

SLO = 0.75


def job(replicas: int, latency_seconds: float = 0.1, *, changing: bool = False, most: int = 10) -> FaroJob:
    return FaroJob(latency_seconds, SLO, replicas, replicas, changing=changing, most=most)


# test_calculate_num_replicas; its case of a factor (3 x 2 replicas) is `test_oneshot_...` below.
@pytest.mark.parametrize(
    ("replicas", "wish", "expected"),
    [
        (1, FaroWish(0, 3), 3),
        (1, FaroWish(0, None, 3), 4),
        (1, FaroWish(0, None, -2), 1),
        (3, FaroWish(0, None, -2), 1),
    ],
)
def test_a_wish_becomes_replicas_within_the_bounds(replicas: int, wish: FaroWish, expected: int) -> None:
    assert Admission().admit([wish], [job(replicas)], free_units=100) == [expected]


def test_decreases_free_the_quota_for_increases_that_stood_before_them() -> None:
    # test_sort_actions_by_delta, only_downscale_first: 1 -> 4, 3 -> 1, 2 -> 3, 4 -> 1 go as -2, -3, +3, +1.
    jobs = [job(1), job(3), job(2), job(4)]
    wishes = [FaroWish(0, 4), FaroWish(1, 1), FaroWish(2, None, 1), FaroWish(3, None, -3)]
    assert Admission().admit(wishes, jobs, free_units=0) == [4, 1, 3, 1]
    assert Admission().admit(wishes[:1] + wishes[2:3], jobs, free_units=3) == [4, 3, 2, 4]


def test_what_does_not_fit_tries_again_as_often_as_the_wish_says() -> None:
    admission = Admission()
    assert admission.admit([FaroWish(0, 5, tries=3)], [job(2)], free_units=1) == [3]
    assert admission.admit([], [job(3)], free_units=0) == [3]
    assert admission.admit([], [job(3)], free_units=5) == [5]
    assert admission.admit([], [job(3)], free_units=5) == [3]
    assert admission.admit([FaroWish(0, 5, tries=2)], [job(2)], free_units=1) == [3]
    assert admission.admit([], [job(3)], free_units=0) == [3]
    assert admission.admit([], [job(3)], free_units=5) == [3]


def test_a_job_whose_change_is_under_way_is_left_alone() -> None:
    admission = Admission()
    assert admission.admit([FaroWish(0, 5, tries=2), FaroWish(1, 5)], [job(2, changing=True), job(2)], 9) == [2, 5]
    assert admission.admit([], [job(2), job(5)], 9) == [5, 5]


def test_aiad_adds_one_at_the_third_tick_over_the_slo_and_starts_again() -> None:
    aiad = Aiad()
    assert [aiad.step(0, [job(2, 1.0)], 9) for _ in range(7)] == [[2], [2], [3], [2], [2], [3], [2]]


def test_aiad_takes_one_after_sixty_ticks_not_over_the_slo() -> None:
    aiad = Aiad()
    assert [aiad.step(0, [job(2, SLO)], 9) for _ in range(60)] == [[2]] * 59 + [[1]]


def test_one_tick_on_the_other_side_starts_the_count_again() -> None:
    aiad = Aiad()
    latencies = [1.0, 1.0, 0.1, 1.0, 1.0, 1.0]
    assert [aiad.step(0, [job(2, latency)], 9)[0] for latency in latencies] == [2, 2, 2, 2, 2, 3]


def test_oneshot_goes_in_proportion_to_latency_over_slo() -> None:
    oneshot = Oneshot()
    assert [oneshot.step(0, [job(2, 3 * SLO)], 9)[0] for _ in range(3)] == [2, 2, 6]
    down = [oneshot.step(0, [job(9, SLO / 4)], 9)[0] for _ in range(60)]
    assert down[-2:] == [9, 3]


def test_the_increase_inside_faro_counts_on_across_better_ticks_until_it_is_told_to_forget() -> None:
    reactive = Reactive(one_by_one, inside_faro=True)
    over, under = [job(2, 1.0)], [job(2, 0.1)]
    assert [len(reactive.wishes(jobs)) for jobs in (over, under, over, under, over)] == [0, 0, 0, 0, 1]
    reactive.wishes(over)
    reactive.wishes(over)
    reactive.forget()
    assert reactive.wishes(over) == []
    assert all(reactive.wishes(under) == [] for _ in range(100))


@pytest.mark.parametrize(("quota", "each"), [(32, 3), (36, 3), (40, 4), (16, 1)])
def test_fair_share_divides_the_quota_and_leaves_the_rest_idle(quota: int, each: int) -> None:
    jobs = [job(1) for _ in range(10)]
    assert FairShare().step(0, jobs, quota - 10) == [each] * 10
