"""What one replica carries is learnt from what it carried: within minutes, and not from noise or idleness."""

from math import inf

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.domain.policy import Policy
from rebalancer.state import ClusterState
from rebalancer.state.capacity import Capacity, CapacityPast
from tests.builders import NOW, a_model, a_policy
from tests.state.loads import load_of, two_pods, work_per_second
from tests.state.objects import a_ready_pod, a_sample, changed, feed, gone

PRIOR = 50.0
MINUTE = 60
HOUR = 3600


def lived(  # what a life of a model may differ by
    true: float, seconds: float, *, prior: float | None = PRIOR, most: float = 1.5, noise: float = 0.0, seed: int = 0
) -> Capacity:
    """A model with that true capacity under loads from idle to `most` x what it carries, every 5 s.

    Above its capacity it is full and late; at any time its latency keeps or breaks the SLO by chance, so often.
    """
    random, capacity = np.random.default_rng(seed), Capacity(prior)
    for load in random.uniform(0.01, most * true, int(seconds / 5)):
        within = load <= true if random.random() >= noise else random.random() < 0.5
        full = bool(load > true)
        capacity.saw(min(load, true), 5.0, full=full, within=True if within else None if full else False)
    return capacity


def slowed(true: float, seconds: float, *, noise: float = 0.0, seed: int = 0) -> Capacity:
    """An engine that never fills, and answers too slowly above that load."""
    random, capacity = np.random.default_rng(seed), Capacity(PRIOR)
    for load in random.uniform(0.01, 1.5 * true, int(seconds / 5)):
        within = load <= true if random.random() >= noise else random.random() < 0.5
        capacity.saw(float(load), 5.0, full=False, within=bool(within))
    return capacity


@pytest.mark.parametrize("true", [5.0, 25.0, 40.0, 50.0, 64.0, 100.0, 1000.0])
def test_after_ten_minutes_it_is_near_the_truth_whatever_the_policy_said(true: float) -> None:
    assert lived(true, 10 * MINUTE).learnt == pytest.approx(true, rel=0.05)
    assert lived(true, 10 * MINUTE, noise=0.1).learnt == pytest.approx(true, rel=0.05)


@pytest.mark.parametrize("true", [25.0, 100.0])
def test_half_a_minute_of_full_replicas_is_enough(true: float) -> None:
    capacity = Capacity(PRIOR)
    for _ in range(6):
        capacity.saw(true, 5.0, full=True, within=None)
    assert capacity.learnt == pytest.approx(true, rel=0.06)


def test_what_is_carried_in_time_is_carried_though_the_policy_says_less() -> None:
    capacity = Capacity(PRIOR)
    for _ in range(6):
        capacity.saw(1.6 * PRIOR, 5.0, full=False, within=True)
    assert 1.55 * PRIOR < (capacity.learnt or 0.0) < 2.0 * PRIOR
    assert capacity.carries is not None
    assert capacity.carries.high is None  # nobody has seen what breaks it


@pytest.mark.parametrize("true", [30.0, 40.0])
def test_an_engine_that_is_too_slow_before_it_is_full_carries_what_it_keeps(true: float) -> None:
    assert slowed(true, 30 * MINUTE).learnt == pytest.approx(true, rel=0.06)
    assert slowed(true, 30 * MINUTE, noise=0.1).learnt == pytest.approx(true, rel=0.06)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), noise=st.floats(0.0, 0.3))
def test_noise_does_not_move_a_figure_that_is_right(seed: int, noise: float) -> None:
    assert lived(PRIOR, 2 * HOUR, noise=noise, seed=seed).learnt == pytest.approx(PRIOR, rel=0.001)


def test_another_engine_is_learnt_within_minutes_either_way() -> None:
    capacity = lived(40.0, 4 * HOUR)
    for true in (80.0, 40.0):
        for _ in range(36):
            capacity.saw(true, 5.0, full=True, within=None)
        assert capacity.learnt == pytest.approx(true, rel=0.1)


def test_idle_time_teaches_nothing() -> None:
    capacity = Capacity(PRIOR)
    for _ in range(2 * HOUR):
        capacity.saw(0.2 * PRIOR, 5.0, full=False, within=True)
    assert (capacity.learnt, capacity.readings) == (PRIOR, 0)


def test_an_slo_that_is_missed_at_every_load_is_not_the_loads_fault() -> None:
    capacity, random = Capacity(PRIOR), np.random.default_rng(0)
    for load in random.uniform(0.01, 1.2 * PRIOR, 2 * HOUR // 5):
        capacity.saw(float(load), 5.0, full=False, within=False)
    assert capacity.learnt == PRIOR


def test_the_interval_narrows_as_evidence_comes_and_holds_the_truth() -> None:
    before, widths = inf, []
    for seconds in (0, 2 * MINUTE, 20 * MINUTE):
        carries = lived(40.0, seconds).carries
        assert carries is not None
        assert carries.low is not None
        assert carries.high is not None
        assert carries.low < 40.0 < carries.high
        widths.append(carries.high / carries.low)
    for width in widths:
        assert width < 0.8 * before  # rounding alone would do for "less"
        before = width


def test_without_a_figure_nothing_is_known_until_it_was_full_or_long_at_work() -> None:
    capacity = Capacity(None)
    assert capacity.carries is None
    for _ in range(2):
        capacity.saw(40.0, 5.0, full=True, within=None)
    assert capacity.learnt is None
    capacity.saw(40.0, 5.0, full=True, within=None)
    assert capacity.learnt == pytest.approx(40.0)
    assert lived(40.0, 9 * MINUTE, prior=None, most=0.5).learnt is None
    assert 20.0 <= (lived(40.0, 11 * MINUTE, prior=None, most=0.5).learnt or 0.0) <= 26.0


@pytest.mark.parametrize("every", [1.0, 5.0, 20.0, 60.0])
def test_without_a_figure_ten_minutes_within_the_slo_are_enough(every: float) -> None:
    capacity, seconds = Capacity(None), 0.0
    while capacity.learnt is None:
        capacity.saw(20.0, every, full=False, within=True)
        seconds += every
    assert 10 * MINUTE - 10.0 <= seconds <= 10 * MINUTE


def test_what_a_quiet_hour_showed_is_no_evidence_against_what_is_carried_in_time_now() -> None:
    capacity = Capacity(None)
    for _ in range(HOUR // 5):
        capacity.saw(0.1, 5.0, full=False, within=True)
    assert capacity.learnt == pytest.approx(0.125)
    capacity.saw(200.0, 5.0, full=False, within=True)
    assert capacity.learnt == pytest.approx(0.25), "one look may be garbled"
    for _ in range(3):
        capacity.saw(2.0, 5.0, full=False, within=True)
    assert (capacity.learnt or 0.0) >= 2.0


def test_what_was_learnt_goes_through_a_checkpoint_and_outlives_another_figure() -> None:
    """The figure is a guess that is worth a second and a half; what was seen is not less true when it changes."""
    learnt = slowed(30.0, HOUR)
    again = Capacity(PRIOR, msgspec.json.decode(msgspec.json.encode(learnt.past), type=CapacityPast))
    assert again.learnt == pytest.approx(learnt.learnt, rel=0.001)
    assert (again.readings, again.carries) == (learnt.readings, learnt.carries)
    full = lived(80.0, HOUR)
    assert Capacity(60.0, full.past).learnt == pytest.approx(80.0, rel=0.01)


def test_a_checkpoint_of_an_older_version_is_read_and_teaches_nothing() -> None:
    written = b"[50.0,61.5,3600,[" + b",".join([b"1.5"] * 17) + b"],[" + b",".join([b"0.0"] * 17) + b"],["
    kept = msgspec.json.decode(written + b",".join([b"60.0"] * 17) + b"]]", type=CapacityPast)
    assert (Capacity(PRIOR, kept).learnt, Capacity(PRIOR, kept).readings) == (PRIOR, 0)


SLO = a_policy(a_model("b", slo={"latency_seconds": 2.0}))  # 4 requests a replica, says the policy


def cached(capacity: Capacity, seconds: float = 60.0) -> Capacity:
    """Two requests hold a quarter of each cache: it is full of eight."""
    for _ in range(int(seconds / 5)):
        capacity.cached(2.0, 0.25, 5.0)
    return capacity


def test_of_the_policys_figure_no_more_is_believed_than_the_cache_holds() -> None:
    assert cached(Capacity(PRIOR)).learnt == pytest.approx(8.0)
    assert cached(Capacity(4.0)).learnt == 4.0
    carries = cached(Capacity(PRIOR)).carries
    assert carries is not None
    assert carries.prior == PRIOR
    assert carries.cached == pytest.approx(8.0)


def test_what_full_replicas_carry_stands_against_a_cache_that_tells_otherwise() -> None:
    capacity = cached(Capacity(PRIOR))
    for _ in range(12):
        capacity.saw(40.0, 5.0, full=True, within=None)
    assert capacity.learnt == pytest.approx(40.0, rel=0.15)


def test_without_a_figure_it_is_half_way_between_what_was_carried_and_what_the_cache_holds() -> None:
    capacity = cached(Capacity(None))
    for _ in range(160):
        capacity.saw(2.0, 5.0, full=False, within=True)
    assert capacity.learnt == pytest.approx(4.0, rel=0.01)


def test_what_the_cache_holds_goes_through_a_checkpoint() -> None:
    capacity = cached(Capacity(PRIOR), 20.0)
    again = Capacity(PRIOR, msgspec.json.decode(msgspec.json.encode(capacity.past), type=CapacityPast))
    assert again.carries == capacity.carries
    assert cached(again, 600.0).carries == cached(capacity, 600.0).carries


def busy(policy: Policy, ttft: float, running: float, waiting: float = 0.0, minutes: int = 5) -> ClusterState:
    """Two pods that run so many requests each, one of which became Ready long ago."""
    state = two_pods(policy)
    for n in range(minutes * 12):
        at = NOW + 5.0 * n
        gauges = {"ttft_p95_seconds": ttft, "waiting": waiting}
        feed(state, *(a_sample(pod=pod, at=at, running=running, gauges=gauges) for pod in ("b-1", "b-2")), now=at)
    return state


def test_samples_teach_it_work_follows_and_a_restart_keeps_it() -> None:
    state, now = busy(SLO, ttft=9.0, running=6.0, waiting=3.0), NOW + 5 * MINUTE
    load = load_of(state, now=now)
    assert load.carries is not None
    assert load.carries.prior == 4.0
    assert load.carries.learnt == pytest.approx(6.0, rel=0.02)
    assert load.carries.readings == 2 * (5 * 12 - 1)
    reborn = two_pods(SLO)
    reborn.restore_rings("b", state.rings_bytes("b"))
    assert load_of(reborn, now=now).carries == load.carries


@pytest.mark.parametrize("ttft", [0.1, 9.0])
def test_a_replica_that_is_full_at_one_look_only_says_nothing(ttft: float) -> None:
    state = two_pods(SLO)
    for n in range(60):
        at, waiting = NOW + 5.0 * n, 3.0 * (n % 2)
        gauges = {"ttft_p95_seconds": ttft, "waiting": waiting}
        feed(state, *(a_sample(pod=pod, at=at, running=2.0, gauges=gauges) for pod in ("b-1", "b-2")), now=at)
    carries = load_of(state, now=NOW + 300).carries
    assert carries is not None
    assert carries.learnt == 4.0


def test_a_replica_that_still_takes_on_who_waits_is_not_full() -> None:
    """Long prompts are read one after the other: a queue stands, and each look finds more running."""
    state = two_pods(a_policy(a_model("b", signals={"concurrency": {"per_replica": 30.0}})))
    for n in range(9):
        at = NOW + 5.0 * n
        pods = [a_sample(pod=pod, at=at, running=2.0 * n, gauges={"waiting": 20.0}) for pod in ("b-1", "b-2")]
        feed(state, *pods, now=at)
    carries = load_of(state, now=NOW + 40).carries
    assert carries is not None
    assert carries.learnt == 30.0


def test_beside_one_who_counts_a_queue_is_full_replicas_by_the_counters_word_only() -> None:
    """Ten finished while two waited: in between nobody did. Who does not count cannot know."""
    state = two_pods()
    for n in range(24):
        at, looks = NOW + 5.0 * n, {"waiting": 2.0}
        counted = [a_sample(pod=pod, at=at, running=2.0, finished=10.0 * n, gauges=looks) for pod in ("b-1", "b-2")]
        blunt = [a_sample(pod=pod, at=at + 1, source="other", running=2.0, gauges=looks) for pod in ("b-1", "b-2")]
        feed(state, *counted, *blunt, now=at + 1)
    carries = load_of(state, now=NOW + 116).carries
    assert carries is not None
    assert carries.learnt == 4.0


def test_a_latency_that_a_queue_broke_is_not_the_loads_fault() -> None:
    state = two_pods(SLO)
    for n in range(360):
        at, late = NOW + 5.0 * n, n % 20 < 10
        gauges = {"ttft_p95_seconds": 9.0 if late else 0.1, "waiting": 3.0 * (n % 20 == 0)}
        told = [a_sample(pod=pod, at=at, running=2.0, gauges=gauges) for pod in ("b-1", "b-2")]
        feed(state, *told, now=at)
    carries = load_of(state, now=NOW + 1800).carries
    assert carries is not None
    assert carries.learnt == 4.0


def test_without_an_slo_only_full_replicas_say_what_one_carries() -> None:
    kept = load_of(busy(a_policy(a_model("b")), ttft=0.4, running=6.0), now=NOW + 5 * MINUTE).carries
    assert kept is not None
    assert (kept.learnt, kept.readings) == (4.0, 0)
    full = load_of(busy(a_policy(a_model("b")), ttft=0.4, running=6.0, waiting=3.0), now=NOW + 5 * MINUTE).carries
    assert full is not None
    assert full.learnt == pytest.approx(6.0, rel=0.02)


def _told_as_a_whole(ends: float | None = None) -> float:
    """What two full pods with 2 requests each are taken to carry after a minute; b-2 ends after 20 s, and goes then."""
    state = two_pods()
    for n in range(13):
        at = NOW + 5.0 * n
        if n == 4 and ends is not None:
            feed(state, changed(a_ready_pod("b-2", ready=False, ready_at=None, deleting_at=at + 300.0), at), now=at)
        if ends is not None and at == NOW + 20.0 + ends:
            feed(state, gone(a_ready_pod("b-2"), at), now=at)
        serving = 1 if ends is not None and at > NOW + 20.0 + ends else 2
        feed(state, a_sample(at=at, running=6.0 * serving, gauges={"waiting": 9.0}), now=at)
    carries = load_of(state, now=NOW + 60.0).carries
    assert carries is not None
    return carries.learnt


def test_who_is_told_to_end_still_serves_and_is_in_what_is_told_of_the_whole() -> None:
    """Of two pods with 6 requests each one ends: those 12 are not what the other one carries."""
    assert _told_as_a_whole() == pytest.approx(6.0, rel=0.05)
    assert _told_as_a_whole(ends=10.0) == pytest.approx(6.0, rel=0.05)
    assert _told_as_a_whole(ends=300.0) == pytest.approx(6.0, rel=0.1)


def test_with_neither_figure_nor_slo_who_runs_while_nobody_waits_is_carried() -> None:
    silent = a_policy(a_model("b", signals={"concurrency": {}}))
    assert load_of(busy(silent, ttft=0.4, running=6.0), now=NOW + 5 * MINUTE).carries is None
    later = load_of(busy(silent, ttft=0.4, running=6.0, minutes=13), now=NOW + 13 * MINUTE)
    assert later.carries is not None
    assert later.carries.learnt == pytest.approx(6.0 * 1.25, rel=0.02)
    assert later.carries.high is None  # nothing says where it ends
    assert later.work.last_60s == pytest.approx(2 * 6.0 / later.carries.learnt, rel=0.05)


def test_with_neither_figure_nor_slo_a_queue_that_nobody_tells_is_not_an_empty_one() -> None:
    state = two_pods(a_policy(a_model("b", signals={"concurrency": {}})))
    for n in range(20 * 12):
        at = NOW + 5.0 * n
        feed(state, *(a_sample(pod=pod, at=at, running=6.0) for pod in ("b-1", "b-2")), now=at)
    assert load_of(state, now=NOW + 20 * MINUTE).carries is None


def test_one_garbled_look_hardly_moves_it() -> None:
    capacity = lived(40.0, 20 * MINUTE)
    capacity.saw(1e9, 5.0, full=True, within=True)
    assert capacity.learnt == pytest.approx(40.0, rel=0.02)


def test_work_that_was_told_by_another_measure_is_counted_anew() -> None:
    """Two requests fill a replica, where the policy says four; that was seen in the last minute only."""
    state = busy(SLO, ttft=0.1, running=4.0)
    assert load_of(state, now=NOW + 300).work.long == pytest.approx(2.0, rel=0.01)
    for n in range(13):
        gauges = {"ttft_p95_seconds": 0.1, "waiting": 1.0}
        told = [a_sample(pod=pod, at=NOW + 300.0 + 5 * n, running=2.0, gauges=gauges) for pod in ("b-1", "b-2")]
        feed(state, *told, now=NOW + 300.0 + 5 * n)
    load = load_of(state, now=NOW + 360)
    assert load.carries is not None
    assert load.carries.learnt == pytest.approx(2.0, rel=0.1)
    assert float(np.median(work_per_second(state))) == pytest.approx(8.0 / load.carries.learnt, rel=0.03)


def test_a_restart_under_another_figure_counts_what_it_finds_anew() -> None:
    state = busy(a_policy(a_model("b")), ttft=0.1, running=2.0)
    assert load_of(state, now=NOW + 300).work.long == pytest.approx(1.0, rel=0.01)
    reborn = two_pods(a_policy(a_model("b", signals={"concurrency": {"per_replica": 8.0}})))
    reborn.restore_rings("b", state.rings_bytes("b"))
    feed(reborn, a_sample(pod="b-1", at=NOW + 300, running=2.0), now=NOW + 300)
    assert load_of(reborn, now=NOW + 300).work.long == pytest.approx(0.5, rel=0.02)


def test_without_a_figure_work_is_unknown_until_replicas_were_full() -> None:
    policy = a_policy(a_model("b", signals={"concurrency": {}}))
    calm = load_of(busy(policy, ttft=0.1, running=6.0), now=NOW + 300)
    assert (calm.carries, calm.work.last_60s) == (None, None)
    assert calm.work.why_not_better == "what a replica carries is not learnt yet"
    full = load_of(busy(policy, ttft=9.0, running=6.0, waiting=3.0), now=NOW + 300)
    assert full.carries is not None
    assert full.carries.prior is None
    assert full.carries.learnt == pytest.approx(6.0, rel=0.01)
    assert full.work.last_60s is not None
