"""What one replica carries is learnt from what it carried: slowly, within bounds, and not from noise or idleness."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.policy import Policy
from rebalancer.state import ClusterState
from rebalancer.state.capacity import Capacity
from tests.builders import NOW, a_model, a_policy
from tests.state.loads import load_of, two_pods
from tests.state.objects import a_sample, feed

PRIOR = 50.0
HOUR = 3600


def lived(true: float, hours: float, *, most: float = 1.5, noise: float = 0.0, seed: int = 0) -> Capacity:
    """A model with that true capacity under loads from idle to `most` x what it carries, every 5 s.

    Above its capacity its latency breaks the SLO; at any time it does or does not by chance, so often.
    """
    random, capacity = np.random.default_rng(seed), Capacity(PRIOR)
    for load in random.uniform(0.0, most * true, int(hours * HOUR / 5)):
        within = load <= true if random.random() >= noise else random.random() < 0.5
        capacity.saw(min(load, 1.1 * true), 5.0, within=bool(within))
    return capacity


@pytest.mark.parametrize("true", [32.0, 40.0, 64.0, 80.0])
def test_after_a_day_it_is_near_the_truth_whatever_the_policy_said(true: float) -> None:
    assert lived(true, 24).learnt == pytest.approx(true, rel=0.13)
    assert lived(true, 24, noise=0.1).learnt == pytest.approx(true, rel=0.13)


@pytest.mark.parametrize("true", [5.0, 1000.0])
def test_it_never_leaves_half_and_double_of_the_policys_figure(true: float) -> None:
    assert 0.5 * PRIOR <= lived(true, 48).learnt <= 2.0 * PRIOR


def test_it_takes_hours() -> None:
    assert lived(80.0, 0.2).learnt == PRIOR
    assert PRIOR < lived(80.0, 2).learnt < 70.0


@given(seed=st.integers(0, 1000), noise=st.floats(0.0, 0.3))
def test_noise_does_not_move_a_figure_that_is_right(seed: int, noise: float) -> None:
    assert lived(PRIOR, 8, noise=noise, seed=seed).learnt == pytest.approx(PRIOR, rel=0.001)


def test_a_few_outliers_do_not_move_it() -> None:
    capacity = lived(PRIOR, 4, most=1.0)
    for _ in range(60):
        capacity.saw(95.0, 5.0, within=True)
        capacity.saw(26.0, 5.0, within=False)
    assert capacity.learnt == PRIOR


def test_idle_time_teaches_nothing() -> None:
    capacity = Capacity(PRIOR)
    for _ in range(2 * HOUR):
        capacity.saw(0.2 * PRIOR, 5.0, within=True)
        capacity.saw(0.2 * PRIOR, 5.0, within=False)
    assert (capacity.learnt, capacity.readings) == (PRIOR, 0)


def test_an_slo_that_is_missed_at_every_load_is_not_the_loads_fault() -> None:
    capacity, random = Capacity(PRIOR), np.random.default_rng(0)
    for load in random.uniform(0.0, 1.2 * PRIOR, 24 * HOUR // 5):
        capacity.saw(float(load), 5.0, within=False)
    assert capacity.learnt == PRIOR


def test_what_was_learnt_goes_through_a_checkpoint_and_ends_with_the_policys_figure() -> None:
    learnt = lived(80.0, 24)
    again = Capacity(PRIOR, learnt.kept)
    assert (again.learnt, again.readings) == (learnt.learnt, learnt.readings)
    assert Capacity(60.0, learnt.kept).learnt == 60.0


def busy_day(policy: Policy, ttft: float, running: float) -> ClusterState:
    """Two pods that run so many requests each, for five hours."""
    state = two_pods(policy)
    for n in range(5 * HOUR // 20):
        at = NOW + 20.0 * n
        feed(
            state,
            *(
                a_sample(pod=pod, at=at, running=running, interval_seconds=20.0, gauges={"ttft_p95_seconds": ttft})
                for pod in ("b-1", "b-2")
            ),
            now=at,
        )
    return state


def test_samples_teach_it_work_follows_and_a_restart_keeps_it() -> None:
    policy = a_policy(a_model("b", slo={"latency_seconds": 2.0}))  # 4 requests a replica, says the policy
    now = NOW + 5 * HOUR
    state = busy_day(policy, ttft=0.4, running=6.0)
    load = load_of(state, now=now)
    assert load.carries is not None
    assert load.carries.prior == 4.0
    assert load.carries.learnt == pytest.approx(6.0, rel=0.05)
    assert load.carries.readings == 2 * 5 * HOUR // 20
    assert load.work.last_60s == pytest.approx(12.0 / load.carries.learnt, rel=0.01)
    reborn = two_pods(policy)
    reborn.restore_rings("b", state.rings_bytes("b"))
    assert load_of(reborn, now=now).carries == load.carries


def test_without_an_slo_nobody_can_say_what_a_replica_carries() -> None:
    carries = load_of(busy_day(a_policy(a_model("b")), ttft=0.4, running=6.0), now=NOW + 5 * HOUR).carries
    assert carries is not None
    assert (carries.learnt, carries.readings) == (4.0, 0)
