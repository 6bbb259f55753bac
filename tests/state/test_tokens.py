"""Tokens in a second, for money: from counters, each counted once, and unknown where nobody counts them."""

from msgspec.structs import replace

from rebalancer.domain.events import Counters, Event, MetricSample
from rebalancer.domain.readings import TokenRate
from tests.builders import NOW
from tests.state.loads import load_of, two_pods
from tests.state.objects import a_sample


def counted(pod: str, at: float, prompt: float | None, generated: float | None, source: str = "p") -> MetricSample:
    counters = Counters(NOW - 3600, 10.0 + at - NOW + 600, None, prompt, generated)
    return replace(a_sample("b", pod, at=at, running=4.0), counters=counters, source=source)


def tokens(*events: Event, now: float = NOW) -> TokenRate | None:
    state = two_pods()
    state.apply_all(list(events), now)
    return load_of(state, now=now).tokens


def test_tokens_of_all_pods_are_those_between_their_newest_two_samples() -> None:
    first = [counted("b-1", NOW - 5, 1000.0, 500.0), counted("b-2", NOW - 5, 0.0, 100.0)]
    second = [counted("b-1", NOW, 2000.0, 600.0), counted("b-2", NOW, 500.0, 150.0)]
    assert tokens(*first) is None, "of one look nobody knows what is new in it"
    assert tokens(*first, *second) == TokenRate(300.0, 30.0)


def test_two_producers_of_one_pod_count_once() -> None:
    events = [counted("b-1", NOW - 5 + at, 0.0, 100.0 * at, source) for at in (0.0, 5.0) for source in ("p", "q")]
    assert tokens(*events) == TokenRate(0.0, 100.0)


def test_a_pod_that_was_silent_for_three_intervals_adds_nothing() -> None:
    old = [counted("b-2", at, 0.0, 10.0 * (at - NOW + 100)) for at in (NOW - 65, NOW - 60)]
    new = [counted("b-1", at, 0.0, 20.0 * (at - NOW + 100)) for at in (NOW - 5, NOW)]
    assert tokens(*old) == TokenRate(0.0, 10.0)
    assert tokens(*old, *new) == TokenRate(0.0, 20.0)


def test_an_engine_that_began_anew_takes_nothing_back() -> None:
    grew = [counted("b-1", NOW - 10 + at, 0.0, 500.0 + 10 * at) for at in (0.0, 5.0)]
    anew = replace(counted("b-1", NOW, 0.0, 3.0), counters=Counters(NOW - 1, 1.0, None, 0.0, 3.0))
    assert tokens(*grew, anew) == TokenRate(0.0, 10.0), "the last that is known"


def test_where_nobody_counts_tokens_there_are_none_known() -> None:
    assert tokens(counted("b-1", NOW - 5, None, None), counted("b-1", NOW, None, None)) is None


def test_tokens_that_one_of_two_samples_does_not_count_are_unknown_between_them_and_no_burst() -> None:
    for partly in ((1e9, None), (None, 1e8)):
        first = counted("b-1", NOW - 5, *partly)
        assert tokens(first, counted("b-1", NOW, 1e9 + 500.0, 1e8 + 50.0)) is None
        assert tokens(counted("b-1", NOW - 10, 1e9, 1e8), first, counted("b-1", NOW, *partly)) is not None
