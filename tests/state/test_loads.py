"""Which samples count, and how often: names, lies, limits, order and repetition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.events import MetricSample
from rebalancer.domain.readings import Reading, Work
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy
from tests.state.loads import (
    NEVER_SEEN,
    as_delivered,
    load_of,
    minutes_of,
    requests_per_second,
    signal_of,
    two_pods,
    work_per_second,
)
from tests.state.objects import (
    a_ready_pod,
    a_sample,
    a_state,
    a_workload,
    at_offset,
    feed,
    listed,
)

# --- names, lies and limits


def test_aliases_find_their_model() -> None:
    policy = a_policy(a_model("b", aliases=("meta-llama/Llama-3-70B",)))
    state = feed(two_pods(policy), a_sample("meta-llama/Llama-3-70B", "b-1", running=2))
    assert signal_of(state, "concurrency") == Reading(2.0, NOW, 0.5)


def test_engines_of_two_roles_that_tell_one_name_are_told_apart_by_their_pods() -> None:
    ratio = {"to": "decode", "min": 0.5, "max": 2.0}
    state = a_state(
        a_policy(a_model("b", aliases=("llama",), ratio=ratio), a_model("decode")),
        a_workload(),
        a_workload("decode"),
        a_ready_pod("b-1"),
        a_ready_pod("decode-1", workload="decode"),
    )
    feed(state, a_sample("llama", "b-1", running=2), a_sample("llama", "decode-1", running=7))
    assert signal_of(state, "concurrency") == Reading(2.0, NOW, 1.0)
    assert load_of(state, "decode").signals["concurrency"] == Reading(7.0, NOW, 1.0)


def test_a_bomb_of_unknown_names_is_counted_and_bounded() -> None:
    state = feed(two_pods(), *(a_sample(f"x{n}", running=1) for n in range(1000)), a_sample("x0", running=1))
    assert state.counters() == {"unknown-model": 1001}
    assert len(state.unknown_models) == 50
    assert state.unknown_models["x0"] == 2


def test_a_bomb_of_pods_or_sources_fills_no_memory() -> None:
    state = feed(two_pods(), *(a_sample(pod=f"x{n}", running=1) for n in range(100)))
    feed(state, *(a_sample(pod="b-1", running=1, source=f"s{n}") for n in range(100)))
    assert state.counters() == {"accepted": 8, "unknown-pod": 100, "too-many-sources": 92}
    assert signal_of(state, "concurrency") == Reading(1.0, NOW, 0.5)


def test_a_producer_under_a_new_name_is_heard_however_many_have_fallen_silent_before() -> None:
    # A gateway that names its pod in `source` is another producer after each rollout.
    state, at = two_pods(), NOW
    for rollout in range(20):
        for _ in range(12):
            at += 30.0
            feed(state, a_sample(at=at, running=2.0, source=f"gateway/gw-{rollout}"), now=at)
        assert signal_of(state, "concurrency", at) == Reading(2.0, at, 1.0)
    assert "too-many-sources" not in state.counters()
    assert len(load_of(state, now=at).told_by) == 8


def test_a_model_is_told_by_who_tells_of_it_as_a_whole_and_by_the_only_one_who_tells_of_its_pods() -> None:
    state = two_pods()
    assert load_of(state).told_by == ()
    feed(state, a_sample(source="gateway", running=2.0), a_sample(pod="b-1", running=1.0, source="prometheus"))
    assert load_of(state).told_by == ("gateway", "prometheus")
    feed(state, a_sample(pod="b-2", running=1.0, source="prometheus"))
    assert load_of(state).told_by == ("gateway", "prometheus")
    assert load_of(state, now=NOW + 600.0).told_by == (
        "gateway",
        "prometheus",
    )  # what fell silent is what is looked for
    feed(state, a_sample(pod="b-2", running=1.0, source="vllm/b-2"))
    assert load_of(state).told_by == ("gateway",)


def test_liars_about_other_pods_do_not_reach_the_model() -> None:
    lies = [a_sample(pod=f"liar-{n}", running=0.0, at=NOW - 5 + n / 10) for n in range(50)]
    state = feed(two_pods(), *minutes_of(running=6.0), *lies)
    assert signal_of(state, "concurrency") == Reading(12.0, NOW, 1.0)
    assert load_of(state).work.short == pytest.approx(3.0)


def test_a_sample_from_the_future_does_not_wipe_the_past() -> None:
    state = feed(two_pods(), *minutes_of(), a_sample(pod="b-1", at=NOW + 6, running=1))
    assert state.counters()["time-ahead"] == 1
    assert load_of(state).work.long == pytest.approx(2.0)


# --- live intervals


def test_only_intervals_seen_since_the_start_are_live() -> None:
    state = a_state(None, a_workload(), a_ready_pod("b-1"), started_at=NOW - 11)
    feed(state, *(a_sample(pod="b-1", at=NOW - 60 + 5 * n, running=1) for n in range(12)))
    assert load_of(state).intervals_live == 2
    feed(state, a_sample(pod="b-1", at=NOW - 1, running=1))  # the interval of NOW - 5 once more
    assert load_of(state).intervals_live == 2
    feed(state, a_sample(pod="b-1", at=NOW, running=1))
    assert load_of(state).intervals_live == 3


def test_live_intervals_are_counted_to_a_hundred() -> None:
    state = a_state(None, a_workload(), a_ready_pod("b-1"), started_at=NOW - 10_000)
    feed(state, *(a_sample(pod="b-1", at=NOW - 1000 + 5 * n, running=1) for n in range(200)))
    assert load_of(state).intervals_live == 100


# --- order and repetition


histories = st.lists(
    st.tuples(
        st.sampled_from([None, "b-1", "b-2"]), st.integers(0, 60), st.integers(0, 12), st.sampled_from(["s", "t"])
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda entry: (entry[0], entry[1], entry[3]),
)


def history(entries: list[tuple[str | None, int, int, str]]) -> list[MetricSample]:
    return [
        a_sample(pod=pod, at=NOW - 5.0 * age, running=float(running), source=source)
        for pod, age, running, source in entries
    ]


@given(entries=histories, data=st.data())
def test_any_order_and_any_repetition_give_the_same_load(
    entries: list[tuple[str | None, int, int, str]], data: st.DataObject
) -> None:
    samples = history(entries)
    once = feed(two_pods(), *as_delivered(samples))
    mixed = as_delivered(data.draw(st.permutations(samples)))
    rewinds = data.draw(st.lists(st.integers(0, len(mixed)), max_size=3))
    again = feed(two_pods(), *mixed)
    for start in rewinds:
        feed(again, *mixed[start:])
    one, other = load_of(once), load_of(again)
    assert other.signals == one.signals
    assert other.pod_requests == one.pod_requests
    assert other.intervals_live == one.intervals_live
    for name in ("short", "last_60s", "long", "slow"):
        assert getattr(other.work, name) == pytest.approx(getattr(one.work, name), abs=1e-3)


@given(entries=histories)
def test_a_producer_that_sends_everything_twice_changes_nothing(
    entries: list[tuple[str | None, int, int, str]],
) -> None:
    samples = sorted(history(entries), key=lambda sample: sample.at)
    once = feed(two_pods(), *as_delivered(samples))
    twice = feed(two_pods(), *as_delivered([copy for sample in samples for copy in (sample, sample)]))
    assert load_of(twice) == load_of(once)


def test_an_old_sample_that_a_producer_sends_again_later_is_not_counted_twice() -> None:
    samples = [a_sample(pod="b-1", at=NOW - 15 + 5 * n, running=4.0 * n, finished=3.0 * n) for n in range(4)]
    once, again = feed(two_pods(), *as_delivered(samples)), feed(two_pods(), *as_delivered([*samples, samples[1]]))
    assert work_per_second(again) == work_per_second(once)
    assert requests_per_second(again) == requests_per_second(once)
    assert again.counters() == {"accepted": 4, "duplicate": 1}


@pytest.mark.parametrize("partitions", [1, 2])
def test_however_many_records_are_handed_out_again_none_of_them_is_counted_twice(partitions: int) -> None:
    """Of a pod whose records come by two partitions in turn one hands out again, and that holds half of them."""
    samples = [a_sample(pod="b-1", at=NOW - 60 + 5 * n, running=4.0 * (n % 3), finished=3.0 * n) for n in range(12)]
    records = [at_offset(sample, n, partition=n % partitions) for n, sample in enumerate(samples)]
    once, again = feed(two_pods(), *records), feed(two_pods(), *records, *records[::partitions], *records[::partitions])
    assert work_per_second(again) == work_per_second(once)
    assert requests_per_second(again) == requests_per_second(once)


def test_what_a_partition_held_back_is_counted_however_old_it_has_become() -> None:
    samples = [a_sample(pod="b-1", at=NOW - 60 + 5 * n, running=4.0 * (n % 3)) for n in range(12)]
    records = [at_offset(sample, n % 6, partition=n // 6) for n, sample in enumerate(samples)]
    in_order, held_back = feed(two_pods(), *records), feed(two_pods(), *records[6:], *records[:6])
    assert work_per_second(held_back) == work_per_second(in_order)


def test_of_two_records_for_one_instant_the_later_stands() -> None:
    first, second = at_offset(a_sample(pod="b-1", running=1), 7), at_offset(a_sample(pod="b-1", running=2), 8)
    for order in ((first, second), (second, first)):
        assert signal_of(feed(two_pods(), *order), "concurrency") == Reading(2.0, NOW, 0.5)


def test_a_topic_made_anew_is_heard_although_its_offsets_start_again() -> None:
    state = feed(two_pods(), *as_delivered(minutes_of(running=4.0)))  # type: ignore[arg-type]  # all are samples
    later = [at_offset(a_sample(pod=f"b-{1 + n % 2}", at=NOW + 5 + 5 * (n // 2), running=12.0), n) for n in range(24)]
    feed(state, *later, now=NOW + 60)
    assert load_of(state, now=NOW + 60).work.last_60s == pytest.approx(6.0)


def test_in_a_topic_made_anew_a_pod_is_heard_whose_samples_are_always_a_second_older_than_anothers() -> None:
    state = feed(two_pods(), *as_delivered(minutes_of(running=4.0)))  # type: ignore[arg-type]  # all are samples
    turns = [(pod, NOW + 5.0 * turn) for turn in range(1, 13) for pod in ("b-2", "b-1")]
    later = [a_sample(pod=pod, at=at - (pod == "b-1"), running=12.0) for pod, at in turns]
    feed(state, *as_delivered(later), now=NOW + 60)
    assert sum(work_per_second(state)[-30:]) == pytest.approx(30 * 6.0, abs=6.0)


def test_samples_that_are_quicker_than_the_first_list_of_pods_are_not_lost() -> None:
    state = ClusterState(a_policy(), started_at=NOW)
    feed(state, *minutes_of(running=6.0))
    assert load_of(state).work == Work()
    feed(state, listed("pods", a_ready_pod("b-1"), a_ready_pod("b-2")))
    assert load_of(state).work.long == pytest.approx(3.0)
    assert state.counters() == {"accepted": 240}


def test_what_waits_for_the_pods_is_bounded() -> None:
    state = ClusterState(a_policy(), started_at=NOW)
    state.apply_all([a_sample(pod="b-1", running=1)] * 50_010, NOW)
    assert state.counters() == {"before-pods": 10}


# --- the policy changes


def test_a_model_that_stays_keeps_its_past_and_one_that_leaves_is_forgotten() -> None:
    state = feed(two_pods(), *minutes_of(running=6.0))
    state.set_policy(a_policy(a_model("b"), a_model("c"), a_model("d")), NOW)
    assert load_of(state).work.long == pytest.approx(3.0)
    assert load_of(state).signals["concurrency"] == Reading(12.0, NOW, 1.0)
    state.set_policy(a_policy(a_model("c")), NOW)
    assert [load.model for load in state.peek(NOW).loads] == ["c"]
    state.set_policy(a_policy(a_model("b"), a_model("c")), NOW)
    assert load_of(state).work == Work()
    assert set(load_of(state).signals.values()) == {NEVER_SEEN}
    feed(state, a_sample(pod="b-1", running=1))
    assert signal_of(state, "concurrency") == Reading(1.0, NOW, 0.5)
