"""Offered work by each path, against what an engine of known truth was asked to do."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.policy import Policy
from rebalancer.domain.readings import Work
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy
from tests.state.engine import Engine, told, traffic
from tests.state.loads import load_of, two_pods
from tests.state.objects import a_ready_pod, a_sample, a_state, a_workload, feed

MINUTE = 60


def after(engine: Engine, seconds: int, per_second: float, each: float, state: ClusterState, at: float, **how: bool) -> float:  # noqa: E501  # fmt: skip  # one stretch of traffic
    """Let it pass from `at` on; the true work of its last minute, in replicas."""
    arriving = traffic(seconds, per_second, each, seed=int(at))
    feed(state, *told(engine, arriving[:-MINUTE], since=at, **how), now=at + seconds)
    before = engine.work
    feed(state, *told(engine, arriving[-MINUTE:], since=at + seconds - MINUTE, **how), now=at + seconds)
    return (engine.work - before) / MINUTE


def slots_of(per_replica: float) -> ClusterState:
    return two_pods(a_policy(a_model("b", signals={"concurrency": {"per_replica": per_replica}})))


def last_minute(state: ClusterState, now: float) -> Work:
    return load_of(state, now=now).work


@pytest.mark.parametrize("tokens", [True, False])
def test_a_queue_is_work_that_came_once_and_not_anew_every_second(*, tokens: bool) -> None:
    """Two replicas of four slots, offered three replicas' worth: 12 s of work a second in, 8 out."""
    engine, state = Engine(replicas=2), two_pods()
    after(engine, 600, 0.7, 100.0, state, NOW, tokens=tokens)
    truth = after(engine, 180, 2.4, 100.0, state, NOW + 600, tokens=tokens)
    assert len(engine.waiting) > 100
    work = last_minute(state, NOW + 780)
    assert work.last_60s == pytest.approx(truth, rel=0.15)


@pytest.mark.parametrize("tokens", [True, False])
def test_who_left_unserved_is_work_that_came_and_unheard_of_it_is_what_the_model_can_do(*, tokens: bool) -> None:
    """Two replicas, offered four replicas' worth; the queue is full and half of the requests are turned away."""
    for left in (True, False):
        engine, state = Engine(replicas=2, most_waiting=20), two_pods()
        after(engine, 600, 0.7, 100.0, state, NOW, tokens=tokens, left=left)
        truth = after(engine, 180, 3.2, 100.0, state, NOW + 600, tokens=tokens, left=left)
        assert truth == pytest.approx(4.0, rel=0.1)
        assert engine.left > 100
        work = last_minute(state, NOW + 780).last_60s or 0.0
        assert work == pytest.approx(truth, rel=0.15) if left else work < 2.2


def test_a_producer_that_begins_to_tell_who_left_tells_of_long_ago() -> None:
    engine, state = Engine(replicas=2, most_waiting=20), two_pods()
    after(engine, 600, 3.2, 100.0, state, NOW, left=False)
    assert engine.left > 500
    truth = after(engine, 60, 3.2, 100.0, state, NOW + 600)
    work = last_minute(state, NOW + 660)
    assert work.last_60s == pytest.approx(truth, rel=0.2)


def test_where_nobody_counts_a_queue_makes_work_look_larger_never_smaller_and_at_most_twice_what_runs() -> None:
    # Queues of minutes would look like 29 times the work there is: all counts of replicas then seem equally hopeless.
    engine, state = Engine(replicas=2), two_pods()
    truth = after(engine, 180, 2.4, 100.0, state, NOW, counted=False)
    work = last_minute(state, NOW + 180).last_60s or 0.0
    assert truth <= work <= 2 * 2.0


@pytest.mark.parametrize(("waiting", "work"), [(0.0, 0.0), (1.0, 0.25), (4.0, 1.0), (200.0, 1.0)])
def test_where_no_replica_serves_who_waits_counts_up_to_one_replicas_work(waiting: float, work: float) -> None:
    """A replica carries 4. What runs would bound it elsewhere, and without a replica nothing ever runs."""
    state = a_state(None, a_workload(replicas=0))
    for n in range(13):
        feed(state, a_sample(pod=None, at=NOW - 60 + 5.0 * n, running=0.0, gauges={"waiting": waiting}))
    assert load_of(state).work.last_60s == pytest.approx(work)


def test_longer_requests_are_more_work_before_the_first_of_them_is_finished_everywhere() -> None:
    engine, state = Engine(replicas=8), two_pods()
    after(engine, 900, 1.0, 100.0, state, NOW)
    truth = after(engine, 600, 1.0, 300.0, state, NOW + 900)
    assert last_minute(state, NOW + 1500).last_60s == pytest.approx(truth, rel=0.2)


def test_nothing_asked_is_no_work_whatever_runs_on() -> None:
    engine, state = Engine(replicas=8), two_pods()
    after(engine, 300, 1.0, 2000.0, state, NOW)
    assert engine.running
    assert after(engine, 60, 0.0, 1.0, state, NOW + 300) == 0.0
    assert last_minute(state, NOW + 360).last_60s == 0.0


def test_replicas_that_are_not_full_are_busier_than_their_slots() -> None:
    """Of 32 slots 3 to 13 are in use, and write so quickly that more of the work they could do is done."""
    engine, state, at = Engine(replicas=2, slots=16, alone=0.2), slots_of(16.0), NOW
    for number in range(12):
        after(engine, 600, 0.6 + 0.45 * (number % 3), 400.0, state, at)
        at += 600
    before = engine.work
    after(engine, 600, 1.05, 400.0, state, at)
    assert len(engine.running) < 0.5 * 32
    assert load_of(state, now=at + 600).work.long == pytest.approx((engine.work - before) / 600, rel=0.1)


@pytest.mark.parametrize("counted", [True, False])
def test_an_engine_with_a_cache_does_more_than_its_slots_in_use_say(*, counted: bool) -> None:
    """It batches: a quarter of 64 slots in use is half of the work, as `state.cost` says of such engines."""
    works = []
    for gauges in ({}, {"kv_cache_use": 0.05}):
        state = slots_of(64.0)
        for n in range(1, 61):
            finished = 8.0 * n if counted else None
            feed(state, a_sample(at=NOW + 5.0 * n, running=32.0, finished=finished, gauges=gauges), now=NOW + 5.0 * n)
        works.append(last_minute(state, NOW + 300).last_60s)
    assert works == pytest.approx([0.5, 1.1], rel=0.05)


def test_a_burst_of_short_answers_is_no_burst_of_work() -> None:
    engine, state, at = Engine(replicas=2, slots=16, alone=0.5), slots_of(16.0), NOW
    for number in range(12):
        requests, tokens = ((2.0, 150.0), (10.0, 30.0))[number % 2]
        after(engine, 150, requests, tokens, state, at)
        at += 150
    assert last_minute(state, at).last_60s == pytest.approx(300.0 / 20.0 / 16.0, rel=0.25)


def test_requests_that_come_one_at_a_time_are_counted_once() -> None:
    """What ends takes back the half that its beginning promised, also in an interval in which little was written."""
    engine, state = Engine(replicas=2, slots=16), slots_of(16.0)
    after(engine, 2400, 0.1, 400.0, state, NOW)
    before = engine.work
    after(engine, 1200, 0.1, 400.0, state, NOW + 2400)
    truth = (engine.work - before) / 1200
    assert last_minute(state, NOW + 3600).slow == pytest.approx(truth, rel=0.25)


CONCURRENCY = {"concurrency": {"per_replica": 4.0}}


@pytest.mark.parametrize(
    ("signals", "sample", "source", "why"),
    [
        (CONCURRENCY, {"running": 3.0}, "concurrency", "nobody counts the requests that are finished"),
        (CONCURRENCY, {"gauges": {"gpu_utilisation": 0.3}}, "utilisation", "nobody tells the requests running"),
        (
            {"utilisation": True},
            {"running": 3.0, "gauges": {"gpu_utilisation": 0.3}},
            "utilisation",
            "the policy has no signals.concurrency",
        ),
    ],
)
def test_a_model_tells_its_path_and_what_a_better_one_lacks(
    signals: dict[str, object], sample: dict[str, object], source: str, why: str
) -> None:
    state = two_pods(a_policy(a_model("b", signals=signals)))
    feed(state, *(a_sample(at=NOW - 60 + 5.0 * n, **sample) for n in range(1, 13)))  # type: ignore[arg-type]  # fields by name
    work = load_of(state).work
    assert (work.source, work.resolution_seconds, work.why_not_better) == (source, 5.0, why)


@pytest.mark.parametrize(
    ("tokens", "source", "why"), [(True, "arrivals", ""), (False, "concurrency", "nobody counts tokens")]
)
def test_an_engine_that_counts_is_believed_to_count(*, tokens: bool, source: str, why: str) -> None:
    state = feed(two_pods(), *told(Engine(2), traffic(60, 1.0, 60.0), every=2, tokens=tokens), now=NOW + 60)
    work = load_of(state, now=NOW + 60).work
    assert (work.source, work.resolution_seconds, work.why_not_better) == (source, 2.0, why)


def test_utilisation_beside_counted_requests_changes_nothing() -> None:
    """DCGM and the engine tell of the same pods: two measures of one thing must not be averaged."""
    state = two_pods()
    for n in range(1, 13):
        at = NOW - 60 + 5.0 * n
        feed(state, a_sample(pod="b-1", at=at, running=4.0), a_sample(pod="b-2", at=at, running=4.0))
        feed(
            state,
            *(a_sample(pod=pod, at=at, source="dcgm", gauges={"gpu_utilisation": 0.05}) for pod in ("b-1", "b-2")),
        )
    assert load_of(state).work.last_60s == pytest.approx(2.0)


def test_who_counts_is_believed_over_who_does_not_until_he_is_silent() -> None:
    """Prometheus beside Kafka, of a model with a queue: it brings no counters, and would count the queue again."""
    engine, state = Engine(replicas=2), two_pods()
    asked = a_sample(source="prometheus", running=8.0, gauges={"waiting": 300.0})
    for counted in told(engine, traffic(300, 2.4, 100.0)):
        feed(state, counted, replace(asked, at=counted.at + 1.0), now=counted.at + 1.0)
    work = load_of(state, now=NOW + 301).work
    assert (work.source, work.why_not_better) == ("arrivals", "")
    assert work.last_60s == pytest.approx(2.4 * 5.0 / 4.0, rel=0.2)
    feed(state, *(replace(asked, at=NOW + 300.0 + 15 * n) for n in range(1, 11)), now=NOW + 450)
    assert load_of(state, now=NOW + 450).work.source == "concurrency"


def test_a_new_pods_first_sample_changes_no_path() -> None:
    state = feed(two_pods(), *told(Engine(2), traffic(60, 1.0, 60.0)), now=NOW + 60)
    first = a_sample(pod="b-1", source="new", at=NOW + 61, running=1.0, finished=0.0)
    assert load_of(feed(state, first, now=NOW + 61), now=NOW + 61).work.source == "arrivals"


def test_by_utilisation_work_does_not_depend_on_how_many_replicas_carry_it() -> None:
    """Between the watermarks a vote holds; work that held would follow each replica that is added, and never fall."""
    policy = a_policy(a_model("b", signals={"utilisation": True}))
    few, many = (
        load_of(
            feed(state, *(a_sample(at=NOW - 60 + 5.0 * n, gauges={"gpu_utilisation": use}) for n in range(13)))
        ).work
        for state, use in ((two_pods(policy), 0.5), (one_pod(policy), 1.0))
    )
    assert few.last_60s == many.last_60s == pytest.approx(1.0 / 0.6)


def one_pod(policy: Policy) -> ClusterState:
    return a_state(policy, a_workload(), a_ready_pod("b-1"))


def test_a_late_sample_neither_adds_nor_takes_work() -> None:
    """The one after it has told of all that came since the one before it."""
    heard = []
    for places in (range(72), (*range(65), 66, 65, *range(67, 72))):
        samples = list(told(Engine(replicas=4), traffic(360, 1.0, 60.0)))
        state = feed(two_pods(), *(samples[place] for place in places), now=NOW + 360)
        heard.append(load_of(state, now=NOW + 360).work.last_60s)
    assert heard[0] == pytest.approx(heard[1], rel=0.02)
