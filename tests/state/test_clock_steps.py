"""The machine's clock is set while the service runs: what came in stays as old as it is, deadlines stay the world's."""

import pytest
from msgspec.structs import replace

from rebalancer.act.driver import Ask
from rebalancer.act.unseen_writes import UnseenWrite, UnseenWrites
from rebalancer.domain.cluster import SOURCES, Node
from rebalancer.domain.events import ObjectChanged, SourceState
from rebalancer.domain.readings import Reading
from rebalancer.loop.clock import SteppedClock
from rebalancer.state import ClusterState
from rebalancer.state.absent import UNSEEN_SECONDS
from rebalancer.state.sources import SILENT_AFTER_SECONDS
from tests.builders import NOW, a_target
from tests.state.loads import load_of, minutes_of, signal_of, two_pods
from tests.state.objects import (
    GPU,
    a_cluster_node,
    a_ready_pod,
    a_sample,
    a_state,
    a_told_notice,
    a_workload,
    changed,
    feed,
    ref,
)

HALF_AN_HOUR = 1800.0
STEPS = pytest.mark.parametrize("step", [-HALF_AN_HOUR, HALF_AN_HOUR])


class SettableClock:
    """Time that passes when it is told to, and a UTC that somebody may set."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.utc = NOW

    def now(self) -> float:
        return self.utc + self.passed

    def monotonic(self) -> float:
        return 5_000.0 + self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds


class Watched:
    """A state and the clock that it lives by, as the service connects them."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.system = SettableClock()
        self.clock = SteppedClock(self.system)
        self.clock.steps.append(state.stepped)

    def after(self, seconds: float, step: float = 0.0) -> float:
        """UTC so many seconds later, when the clock was set by `step` meanwhile."""
        self.system.passed += seconds
        self.system.utc += step
        return self.clock.now()


def stale_at(watched: Watched, now: float) -> tuple[str, ...]:
    return watched.state.sync(now).stale


def every_source_says(watched: Watched, now: float) -> None:
    feed(watched.state, *(SourceState(source, now) for source in SOURCES), now=now)


@STEPS
def test_a_silent_watch_goes_stale_on_time_and_not_before(step: float) -> None:
    watched = Watched(a_state())
    feed(watched.state, SourceState("nodes", NOW), now=NOW)
    assert "nodes" not in stale_at(watched, watched.after(1.0, step))
    assert "nodes" not in stale_at(watched, watched.after(SILENT_AFTER_SECONDS - 2.0))
    assert "nodes" in stale_at(watched, watched.after(2.0))


@STEPS
def test_we_have_watched_for_as_long_as_before(step: float) -> None:
    """Of a pool's GPUs nothing is certain before: a clock that was set back by half an hour took half an hour more."""
    watched = Watched(a_state())
    since = watched.state.sync(NOW).synced_at
    assert since is not None
    now = watched.after(40.0, step)
    assert watched.state.sync(now).synced_at == since + step


@STEPS
def test_a_reading_is_as_old_after_a_step_as_before_it(step: float) -> None:
    watched = Watched(feed(two_pods(), *minutes_of(running=4.0)))
    before = signal_of(watched.state, "concurrency", watched.after(3.0))
    assert isinstance(before, Reading)
    now = watched.after(1.0, step)
    reading = signal_of(watched.state, "concurrency", now)
    assert isinstance(reading, Reading)
    assert (reading.value, reading.coverage) == (before.value, 1.0)
    assert now - reading.at == pytest.approx(4.0)
    later = signal_of(watched.state, "concurrency", watched.after(20.0))
    assert isinstance(later, Reading)
    assert later.coverage == 0.0


@STEPS
def test_offered_work_ends_when_its_producers_fall_silent_and_not_before(step: float) -> None:
    watched = Watched(feed(two_pods(), *minutes_of(running=4.0)))
    assert load_of(watched.state, now=watched.after(5.0, step)).work.short == pytest.approx(2.0)
    assert load_of(watched.state, now=watched.after(15.0)).work.short is None


def test_a_surge_is_seen_right_after_a_wrong_clock_was_corrected() -> None:
    watched = Watched(feed(two_pods(), *minutes_of(running=4.0)))
    load_of(watched.state)

    def all_say(running: float, at: float, now: float) -> None:
        feed(watched.state, *(a_sample("b", pod, at=at, running=running) for pod in ("b-1", "b-2")), now=now)

    all_say(7.0, NOW + 5.0, now=watched.after(5.0, HALF_AN_HOUR))  # looked at: high, but no surge yet
    for seconds in (10.0, 15.0, 20.0):
        step = -HALF_AN_HOUR if seconds == 10.0 else 0.0
        all_say(40.0, NOW + seconds, now=watched.after(5.0, step))
    assert "surge" in watched.state.take_wakes()


@STEPS
def test_a_notice_is_not_forgotten_over_a_wrong_clock_and_counts_by_its_deadline_when_that_is_right_again(
    step: float,
) -> None:
    watched = Watched(a_state(None, a_cluster_node("n1"), a_workload()))
    feed(watched.state, a_told_notice("n1"), now=NOW)
    (before,) = watched.state.peek(NOW).notices
    wrong = watched.after(2.0, step)
    feed(watched.state, SourceState("nodes", wrong), now=wrong)  # whatever comes in makes it look what it may forget
    right = watched.after(20.0, -step)
    feed(watched.state, SourceState("nodes", right), now=right)
    (notice,) = watched.state.peek(right).notices
    assert notice == before
    assert right == NOW + 22.0


@STEPS
def test_what_others_changed_under_a_wrong_clock_is_as_old_when_that_is_right_again(step: float) -> None:
    """Two changes dated half an hour ahead would keep us away from the model for that half hour."""
    state = a_state(None, a_cluster_node(), a_workload(replicas=2))
    watched = Watched(state)
    wrong = watched.after(10.0, step)
    by_hand = replace(a_workload(replicas=3), writer="kubectl", resource_version="101")
    feed(state, ObjectChanged("deployments", wrong, by_hand), now=wrong)
    right = watched.after(20.0, -step)
    (target,) = next(model for model in state.peek(right).models if model.id == "b").targets
    assert [right - one.at for one in target.foreign] == [20.0]


def test_a_node_that_is_not_listed_yet_is_not_gone_because_the_clock_was_set_forward() -> None:
    """A pod's watch may be ahead of its node's."""
    watched = Watched(feed(a_state(None, a_cluster_node("n1"), a_workload()), changed(a_ready_pod("b-1", node="n2"))))
    for seconds, step in ((1.0, 0.0), (1.0, HALF_AN_HOUR), (2.0, 0.0)):
        now = watched.after(seconds, step)
        every_source_says(watched, now)
        assert watched.state.peek(now).notices == ()
    now = watched.after(UNSEEN_SECONDS)
    every_source_says(watched, now)
    assert [notice.kind for notice in watched.state.peek(now).notices] == ["gone"]


def test_a_write_that_no_watch_has_shown_counts_for_as_long_as_it_would_have() -> None:
    watched = Watched(a_state(None, a_cluster_node(), a_workload(replicas=2)))
    watched.state.note_write("b", ref(), 5, NOW)

    def asked(now: float) -> int | None:
        (target,) = next(model for model in watched.state.peek(now).models if model.id == "b").targets
        return target.unconfirmed_replicas

    assert asked(watched.after(1.0, HALF_AN_HOUR)) == 5
    assert asked(watched.after(1.0, -2 * HALF_AN_HOUR)) == 5
    assert asked(watched.after(87.0)) == 5
    assert asked(watched.after(1.0)) is None


@STEPS
def test_what_the_gate_asked_for_counts_for_ten_seconds_whatever_the_clock_says(step: float) -> None:
    watched, unseen = Watched(a_state()), UnseenWrites()
    watched.clock.steps.append(unseen.stepped)
    target = a_target()
    unseen.enter((target.namespace, target.kind, target.name), UnseenWrite(Ask(0, 0), 7, NOW))
    unseen.forget(watched.after(5.0, step))
    assert unseen.with_most(target).unconfirmed_replicas == 7
    unseen.forget(watched.after(6.0))
    assert unseen.with_most(target).unconfirmed_replicas is None


@STEPS
def test_a_node_has_been_not_ready_and_without_devices_for_as_long_as_before(step: float) -> None:
    watched = Watched(a_state(None, a_cluster_node("n1"), a_cluster_node("n2")))
    fell = replace(a_cluster_node("n2", resource_version="101"), allocatable={GPU: 0})
    feed(watched.state, changed(_silent("n1", since=NOW - 200.0)), changed(fell), now=NOW)

    def of(now: float) -> list[tuple[float, float | None]]:
        nodes = (node for pool in watched.state.peek(now).pools for node in pool.nodes)
        return [(now - (one.ready_changed_at or 0.0), one.fell_at and now - one.fell_at) for one in nodes]

    (silent, _), (_, before) = of(watched.after(1.0))
    (still, _), (_, after) = of(watched.after(9.0, step))
    assert (silent, still) == pytest.approx((201.0, 210.0))
    assert (before, after) == pytest.approx((1.0, 10.0))


def test_a_node_that_falls_silent_while_the_clock_is_behind_is_silent_from_then_on() -> None:
    """By the API server's clock that is half an hour ahead, and its GPUs would count for as long."""
    watched = Watched(a_state(None, a_cluster_node("n1")))
    behind = watched.after(1.0, -HALF_AN_HOUR)
    feed(watched.state, ObjectChanged("nodes", behind, _silent("n1", since=NOW)), now=behind)
    for seconds, step in ((300.0, 0.0), (0.0, HALF_AN_HOUR)):
        now = watched.after(seconds, step)
        ((node,),) = (pool.nodes for pool in watched.state.peek(now).pools)
        assert now - (node.ready_changed_at or 0.0) == pytest.approx(300.0)


def _silent(name: str, since: float) -> Node:
    return replace(a_cluster_node(name, resource_version="101"), ready=False, ready_changed_at=since)


# --- the clock itself


def test_time_that_passes_is_no_step() -> None:
    watched, steps = Watched(a_state()), list[float]()
    watched.clock.steps.append(steps.append)
    assert [watched.after(seconds) - NOW for seconds in (0.0, 1.0, 3600.0)] == [0.0, 1.0, 3601.0]
    assert (steps, watched.clock.stepped_seconds) == ([], 0.0)


def test_a_step_is_told_once_before_the_instant_that_comes_after_it() -> None:
    watched, steps = Watched(a_state()), list[float]()
    watched.clock.steps.append(steps.append)
    assert watched.after(1.0, -HALF_AN_HOUR) == NOW + 1.0 - HALF_AN_HOUR
    assert steps == pytest.approx([-HALF_AN_HOUR])
    watched.after(1.0)
    watched.after(1.0, HALF_AN_HOUR)
    assert steps == pytest.approx([-HALF_AN_HOUR, HALF_AN_HOUR])
    assert watched.clock.stepped_seconds == pytest.approx(0.0)


def test_a_clock_that_drifts_slowly_never_moves_ages_by_more_than_half_a_second() -> None:
    watched = Watched(a_state())
    feed(watched.state, SourceState("nodes", NOW), now=NOW)
    drifted = 0.0
    for _ in range(1000):
        watched.after(1.0, 0.005)  # 5 ms in a second: more than any clock is out by
        drifted += 0.005
        assert abs(drifted - watched.clock.stepped_seconds) <= 0.51
    assert watched.clock.stepped_seconds == pytest.approx(5.0, abs=0.6)


def test_a_process_that_was_held_up_between_two_looks_saw_no_step() -> None:
    """At a scaled speed, or on a busy machine, a second may pass from one line to the next."""

    class Slow(SettableClock):
        def monotonic(self) -> float:
            self.passed += 2.0
            return super().monotonic()

    steps: list[float] = []
    clock = SteppedClock(Slow())
    clock.steps.append(steps.append)
    for _ in range(20):
        clock.now()
    assert steps == []


def test_samples_count_as_live_though_the_service_started_while_the_clock_was_ahead() -> None:
    """Else nothing may be taken from anybody for as long as the clock was wrong."""
    state = a_state(None, a_workload("b", 1), a_ready_pod("b-1"), started_at=NOW + HALF_AN_HOUR)
    state.stepped(-HALF_AN_HOUR)
    for second in (5, 10, 15):
        state.apply(a_sample("b", "b-1", NOW + second, 1.0), NOW + second)
    assert load_of(state, "b", NOW + 16).intervals_live >= 2
