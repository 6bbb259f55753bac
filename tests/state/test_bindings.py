"""Sleeping engines: launchers, their requesters, and whose readings are whose."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.cluster import Pod
from rebalancer.domain.dual_pods import Launcher, Requester
from rebalancer.domain.events import MetricSample
from rebalancer.domain.readings import Reading
from rebalancer.domain.snapshot import ModelView
from rebalancer.state.cluster import ClusterState
from tests.builders import NOW
from tests.state.loads import requests_per_second
from tests.state.objects import (
    a_cluster_node,
    a_pending_pod,
    a_ready_pod,
    a_sample,
    a_state,
    a_workload,
    changed,
    feed,
    gone,
)

LAUNCHER = "uid-l"


def a_launcher(of: str = "", engine: str = "", version: int = 1, made_at: float = NOW - 9000.0, sign: str = "s") -> Pod:
    """Launcher `l` on n1, bound to the requester of that name, if to any."""
    dual = Launcher(of and f"uid-{of}", of, engine, sign)
    pod = a_ready_pod("l", workload=None, created_at=made_at, gpus={})
    return replace(pod, resource_version=str(version), dual=dual)


def a_requester(name: str, version: int = 1, **fields: object) -> Pod:
    pod = a_pending_pod(name, node="n1", created_at=NOW - 5.0, dual=Requester("l"))
    return replace(pod, resource_version=str(version), **fields)


def ready(name: str, at: float) -> Pod:
    return a_requester(name, 2, phase="Running", ready=True, ready_at=at)


def view(state: ClusterState, now: float = NOW) -> ModelView:
    (found,) = (model for model in state.peek(now).models if model.id == "b")
    return found


def kinds(state: ClusterState, now: float = NOW) -> dict[str, int]:
    return {start.kind: start.count for start in view(state, now).starts}


def a_world(*pods: Pod) -> ClusterState:
    return a_state(None, a_workload(), a_cluster_node(), *pods)


def asleep(state: ClusterState, engine: str = "e") -> ClusterState:
    """The launcher has served for `b-1` with that engine, and serves for nobody now."""
    feed(state, changed(a_requester("b-1")), changed(a_launcher("b-1", engine, 2), NOW), changed(ready("b-1", NOW)))
    return feed(state, changed(a_launcher(version=3), NOW + 60.0), gone(ready("b-1", NOW)), now=NOW + 60.0)


def bound_again(state: ClusterState, engine: str = "e", version: int = 4) -> ClusterState:
    woken = changed(a_launcher("b-2", engine, version), NOW + 100.0)
    return feed(state, changed(a_requester("b-2")), woken, now=NOW + 100.0)


def test_a_launcher_that_waited_makes_a_warm_start_and_one_made_for_the_pod_a_cold_one() -> None:
    assert kinds(asleep(a_world(a_launcher()))) == {"warm": 1}
    cold = a_world(a_requester("b-1"))
    feed(cold, changed(a_launcher("b-1", "e", made_at=NOW - 1.0)), changed(ready("b-1", NOW + 100.0)))
    assert kinds(cold) == {"cold": 1}


def test_an_engine_that_slept_and_is_bound_again_makes_a_hot_start() -> None:
    state = bound_again(asleep(a_world(a_launcher())))
    feed(state, changed(ready("b-2", NOW + 103.0)), now=NOW + 103.0)
    assert kinds(state) == {"hot": 1, "warm": 1}


def test_another_engine_of_the_same_launcher_is_warm() -> None:
    state = bound_again(asleep(a_world(a_launcher())), engine="other")
    feed(state, changed(ready("b-2", NOW + 180.0)), now=NOW + 180.0)
    assert kinds(state) == {"warm": 2}


def test_engines_that_came_or_went_unbound_are_not_counted_on() -> None:
    state = asleep(a_world(a_launcher()))
    feed(state, changed(a_launcher(version=4, sign="t"), NOW + 80.0), now=NOW + 80.0)
    feed(bound_again(state, version=5), changed(ready("b-2", NOW + 180.0)), now=NOW + 180.0)
    assert kinds(state) == {"warm": 2}


def test_an_engine_that_had_to_make_room_and_comes_anew_is_warm() -> None:
    state = bound_again(asleep(a_world(a_launcher())))
    feed(state, changed(a_launcher("b-2", "e", 5, sign="t"), NOW + 102.0), now=NOW + 102.0)
    assert view(state, NOW + 130.0).failed_wakes == ()
    feed(state, changed(ready("b-2", NOW + 180.0)), now=NOW + 180.0)
    assert kinds(state) == {"warm": 2}


def test_what_was_bound_before_we_looked_is_of_unknown_kind() -> None:
    state = a_world(a_requester("b-1"), a_launcher("b-1", "e"))
    feed(state, changed(ready("b-1", NOW)))
    assert kinds(state) == {"unknown": 1}
    assert [start.load_seconds for start in state.starts.past("b")] == [None]  # it may have slept


def test_hot_starts_are_shown_and_not_planned_with() -> None:
    state = asleep(a_world(a_launcher()))
    for n in range(4):
        name, since = f"h-{n}", NOW + 100.0 * (n + 1)
        feed(state, changed(a_requester(name)), changed(a_launcher(name, "e", 10 + 2 * n), since), now=since)
        feed(state, changed(ready(name, since + 4.0)), changed(a_launcher(version=11 + 2 * n), since + 50.0), now=since)
    assert kinds(state, NOW + 500.0) == {"hot": 4, "warm": 1}
    assert view(state, NOW + 500.0).load_seconds is None


def test_a_wake_that_does_not_end_is_told_and_counts_as_cold() -> None:
    state = bound_again(asleep(a_world(a_launcher())))
    assert view(state, NOW + 119.0).failed_wakes == ()
    (wake,) = view(state, NOW + 121.0).failed_wakes
    assert (wake.pod, wake.launcher, wake.since, wake.told_at) == ("b-2", "l", NOW + 100.0, NOW + 121.0)
    assert state.starts.counts == {("b", "a100", "warm"): 1, ("b", "a100", "cold"): 1}
    feed(state, changed(ready("b-2", NOW + 400.0)), now=NOW + 400.0)
    assert kinds(state, NOW + 400.0) == {"cold": 1, "warm": 1}
    assert view(state, NOW + 400.0).failed_wakes == ()
    assert sum(state.starts.counts.values()) == 2  # counted when it was told, not again


# --- readings


def told(at: float, finished: float, running: float = 2.0, engine_started: float = NOW - 900.0) -> MetricSample:
    sample = a_sample(pod="l", at=at, running=running, finished=finished)
    assert sample.counters is not None
    return replace(sample, pod=LAUNCHER, counters=replace(sample.counters, start_time=engine_started))


def two_requesters() -> ClusterState:
    """`b-1` was served until NOW, `b-2` is from NOW + 100 on, by the same engine."""
    state = a_world(a_launcher())
    feed(state, changed(a_requester("b-1")), changed(a_launcher("b-1", "e", 2), NOW - 300.0))
    feed(state, changed(replace(ready("b-1", NOW - 290.0), created_at=NOW - 310.0)))
    for at in (NOW - 15.0, NOW - 10.0):
        feed(state, told(at, finished=1000.0 + at - NOW), now=at)
    feed(state, changed(a_launcher(version=3), NOW), gone(ready("b-1", NOW)))
    feed(bound_again(state), changed(ready("b-2", NOW + 103.0)), now=NOW + 103.0)
    return state


def test_readings_of_a_launcher_are_its_requesters_of_that_instant() -> None:
    state = two_requesters()
    feed(state, told(NOW + 105.0, finished=993.0, running=3.0), now=NOW + 105.0)
    (load,) = (each for each in state.peek(NOW + 105.0).loads if each.model == "b")
    reading = load.signals["concurrency"]
    assert isinstance(reading, Reading)
    assert reading.value == 3.0
    feed(state, told(NOW + 50.0, finished=990.0), now=NOW + 105.0)
    assert state.counters()["unbound-launcher"] == 1


def test_prometheus_readings_of_a_launcher_are_its_requesters_from_the_binding_on() -> None:
    state = two_requesters()
    assert state.pod_named("serving", "l") == ("b", "uid-b-2", NOW + 100.0)
    assert state.pod_named("serving", "b-2") == ("b", "uid-b-2", NOW - 5.0)
    feed(state, changed(a_launcher(version=5), NOW + 200.0), now=NOW + 200.0)
    assert state.pod_named("serving", "l") is None


def test_what_an_engine_counted_before_it_slept_is_neither_a_burst_nor_lost_when_it_wakes() -> None:
    state = two_requesters()  # 990 were finished and 2 in work when it slept, its last requests came 110 s ago
    feed(
        state,
        told(NOW + 105.0, finished=992.0, running=8.0),
        told(NOW + 110.0, finished=1000.0, running=8.0),
        now=NOW + 110.0,
    )
    per_second = requests_per_second(state)
    assert sum(per_second[-10:]) == pytest.approx(10.0 + 8.0)
    assert per_second[-5:] == pytest.approx([1.6] * 5)
