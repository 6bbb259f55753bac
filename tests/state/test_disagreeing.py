"""Two sources that tell different things of the same model: of each second the higher counts, and nothing twice."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.events import MetricSample
from rebalancer.domain.policy import BlindRule, Guards
from rebalancer.state import ClusterState
from tests.builders import NOW, a_policy
from tests.state.loads import load_of, requests_per_second, two_pods, work_per_second
from tests.state.objects import a_ready_pod, a_sample, a_state, a_workload, feed, listed

PODS = ("b-1", "b-2")  # of model b, whose replica carries 4 requests


def told(source: str, pod: str | None, running: float, every: float = 5.0, per_second: float | None = None) -> list[MetricSample]:  # noqa: E501  # fmt: skip
    """Ten minutes of what `source` says, up to NOW: requests in flight, and finished where it counts them."""
    instants = [NOW - every * n for n in reversed(range(int(600 / every)))]
    return [
        a_sample(
            pod=pod,
            at=at,
            running=running,
            source=source,
            interval_seconds=every,
            finished=None if per_second is None else per_second * (at - NOW + 3600),
        )
        for at in instants
    ]


def by_pods(source: str, running: float, every: float = 5.0, per_second: float | None = None) -> list[MetricSample]:
    return list(chain.from_iterable(told(source, pod, running, every, per_second) for pod in PODS))


def heard(*sources: list[MetricSample]) -> ClusterState:
    """All of them as they come: in the order of their times."""
    return feed(two_pods(), *sorted(chain.from_iterable(sources), key=lambda sample: sample.at))


def work_of(*sources: list[MetricSample]) -> list[float | None]:
    work = load_of(heard(*sources)).work
    return [work.short, work.last_60s, work.long]


@pytest.mark.parametrize("every", [1.0, 5.0, 15.0])
def test_a_producer_that_sees_nothing_takes_no_work_from_one_that_does(every: float) -> None:
    """Seen: 40 and 0 made half of the work."""
    busy, idle = by_pods("vllm", 40.0), by_pods("prometheus", 0.0, every)
    assert work_of(busy, idle) == pytest.approx([20.0] * 3)
    assert work_of(idle, busy) == pytest.approx([20.0] * 3)


def test_sources_that_agree_make_the_work_of_one() -> None:
    alone = work_of(by_pods("vllm", 6.0))
    assert work_of(by_pods("vllm", 6.0), by_pods("prometheus", 6.0, 15.0)) == pytest.approx(alone)
    assert work_of(by_pods("vllm", 6.0), told("gateway", None, 12.0)) == pytest.approx(alone)


def test_of_each_second_the_higher_counts_whoever_said_it() -> None:
    rising = [sample for sample in by_pods("vllm", 40.0) if sample.at > NOW - 20]
    work = load_of(heard(rising, [one for one in by_pods("vllm", 4.0) if one.at <= NOW - 20], by_pods("p", 8.0))).work
    assert work.short == pytest.approx(20.0)
    assert work.last_60s == pytest.approx((20 * 20.0 + 40 * 4.0) / 60)


@pytest.mark.parametrize(("pods", "whole", "expected"), [(0.0, 40.0, 10.0), (20.0, 0.0, 10.0), (20.0, 12.0, 10.0)])
def test_a_model_told_of_as_a_whole_and_by_its_pods_has_the_higher_work(
    pods: float, whole: float, expected: float
) -> None:
    by_whole = told("gateway", None, whole)
    assert work_of(by_pods("vllm", pods), by_whole) == pytest.approx([expected] * 3)
    assert work_of(by_whole, by_pods("vllm", pods)) == pytest.approx([expected] * 3)


def test_a_pod_does_not_speak_for_all_of_them_against_who_sees_the_whole() -> None:
    """One busy pod of two would be stretched to both."""
    assert work_of(told("vllm", "b-1", 40.0), told("gateway", None, 40.0)) == pytest.approx([10.0] * 3)


def test_who_sees_the_whole_is_heard_where_the_policy_asks_for_no_coverage_of_the_pods() -> None:
    asks_for_none = a_policy(guards=Guards(blind=BlindRule(min_coverage=0.0)))
    samples = chain(told("gateway", None, 12.0), told("vllm", "b-1", 2.0))  # of each instant the pods say last
    state = feed(two_pods(asks_for_none), *sorted(samples, key=lambda sample: sample.at))
    assert load_of(state).work.long == pytest.approx(3.0)


def test_whoever_falls_silent_is_no_longer_the_higher() -> None:
    left = [sample for sample in by_pods("vllm", 40.0) if sample.at <= NOW - 120]
    assert work_of(left, by_pods("prometheus", 4.0))[:2] == pytest.approx([2.0] * 2)


# --- who counts requests


def test_arrivals_that_two_producers_count_are_neither_added_up_nor_averaged() -> None:
    alone = requests_per_second(heard(by_pods("vllm", 4.0, 5.0, 2.0)))
    assert sum(alone) == pytest.approx(595 * 4.0, rel=1e-3)
    for other in (2.0, 0.5):
        both = heard(by_pods("vllm", 4.0, 5.0, 2.0), by_pods("sidecar", 4.0, 5.0, other))
        assert requests_per_second(both) == pytest.approx(alone, rel=1e-3)


def test_arrivals_of_the_whole_and_of_its_pods_are_the_same_arrivals() -> None:
    alone = requests_per_second(heard(by_pods("vllm", 4.0, 5.0, 2.0)))
    for pods, whole in ((2.0, 1.0), (0.5, 4.0)):
        both = heard(by_pods("vllm", 4.0, 5.0, pods), told("gateway", None, 8.0, 5.0, whole))
        assert requests_per_second(both) == pytest.approx(alone, rel=1e-3)


def test_who_counts_but_sees_nothing_does_not_silence_who_sees_requests_and_does_not_count() -> None:
    blind, seeing = by_pods("vllm", 0.0, 5.0, 0.0), by_pods("prometheus", 40.0, 15.0)
    assert work_of(blind, seeing) == pytest.approx([20.0] * 3)
    assert work_of(blind, told("gateway", None, 40.0)) == pytest.approx([10.0] * 3)
    assert work_of(told("gateway", None, 0.0, 5.0, 0.0), by_pods("vllm", 40.0)) == pytest.approx([20.0] * 3)


def test_who_does_not_count_waits_for_who_does_while_both_see_about_the_same() -> None:
    """The higher of a good figure and a rough one would be the good one and the noise of the other."""
    counted = by_pods("vllm", 4.0, 5.0, 0.8)
    assert work_of(counted, by_pods("prometheus", 7.0, 15.0)) == work_of(counted)


# --- whoever begins, and in whatever order it comes


@given(
    entries=st.lists(
        st.tuples(st.sampled_from("xyz"), st.integers(0, 50), st.sampled_from([1, 5, 15]), st.integers(0, 40)),
        min_size=1,
        max_size=25,
        unique_by=lambda entry: (entry[0], entry[1]),
    ),
    data=st.data(),
)
def test_the_rings_have_the_highest_of_each_second(
    entries: list[tuple[str, int, int, int]], data: st.DataObject
) -> None:
    kept: dict[str, set[int]] = {}
    highest: dict[int, float] = {}
    samples = []
    for source, age, seconds, running in entries:
        mine = set(range(int(NOW) - age - seconds + 1, int(NOW) - age + 1))
        if mine & kept.get(source, set()):
            continue  # one source's own looks do not overlap
        kept.setdefault(source, set()).update(mine)
        highest |= {second: max(running / 4, highest.get(second, 0.0)) for second in mine}
        samples.append(a_sample(pod="b-1", at=NOW - age, running=running, source=source, interval_seconds=seconds))
    state = a_state(None, a_workload(), a_ready_pod("b-1"))
    feed(state, *data.draw(st.permutations(samples)))
    assert work_per_second(state) == pytest.approx([highest[second] for second in sorted(highest)], abs=1e-3)


def test_what_a_pod_was_told_of_that_has_gone_is_not_held_against_a_new_one() -> None:
    """The new pod's producer has the place of the old one's in memory."""
    state = feed(two_pods(), *by_pods("vllm", 40.0))
    feed(state, listed("pods", a_ready_pod("b-3", ready_at=NOW - 60.0)))
    feed(state, a_sample(pod="b-3", at=NOW - 4.0, running=0.0, interval_seconds=1.0))
    before = sum(work_per_second(state))
    feed(state, a_sample(pod="b-3", at=NOW - 1.0, running=60.0, source="prometheus", interval_seconds=1.0))
    assert sum(work_per_second(state)) - before == pytest.approx(60.0 / 4)
