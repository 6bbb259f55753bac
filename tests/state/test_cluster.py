"""The one writer: sources, wakes, outcomes, and snapshots that share what did not change."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.cluster import SOURCES
from rebalancer.domain.events import Event, ObjectChanged, ObjectsListed, SourceState
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.domain.policy import Policy
from rebalancer.state import ClusterState
from rebalancer.state.wakes import patience_seconds
from tests.builders import NOW, a_model, a_policy, a_pool, a_write_stop, an_elastic_pool, an_override
from tests.state.objects import (
    GPU,
    a_claim,
    a_cluster_node,
    a_pending_pod,
    a_ready_pod,
    a_sample,
    a_scaled_object,
    a_state,
    a_told_notice,
    a_workload,
    changed,
    feed,
    gone,
    listed,
)


def an_outcome(name: str) -> Outcome:
    intent = Intent(name, 1, NOW, "release", "b", "deployment/serving/b", 3, 2, "demand is 2")
    return Outcome(intent, NOW, WRITTEN)


# --- sources


def test_every_source_is_missing_until_listed_once() -> None:
    state = ClusterState(a_policy(), NOW)
    assert state.sync(NOW).missing == tuple(sorted(SOURCES))
    for source in SOURCES.keys() - {"pods"}:
        state.apply(listed(source), NOW)
    assert state.sync(NOW).missing == ("pods",)
    assert state.sync(NOW).synced_at is None
    state.apply(listed("pods"), NOW + 3)
    assert (state.sync(NOW + 3).missing, state.sync(NOW + 3).synced_at) == ((), NOW + 3)


def test_a_single_object_does_not_stand_for_a_list() -> None:
    state = feed(ClusterState(a_policy(), NOW), changed(a_ready_pod()))
    assert "pods" in state.sync(NOW).missing


def test_an_api_that_the_cluster_does_not_have_is_not_waited_for() -> None:
    state = ClusterState(a_policy(), NOW)
    for source in SOURCES:
        keda = source == "scaledobjects"
        state.apply(SourceState(source, NOW, None, absent=True) if keda else listed(source), NOW)
    assert state.sync(NOW).missing == ()
    later = NOW + 3600
    for source in SOURCES.keys() - {"scaledobjects"}:
        state.apply(SourceState(source, later), later)
    assert state.sync(later).stale == ()


@pytest.mark.parametrize("source", ["writestops", "scaledobjects"])
def test_an_api_that_vanishes_is_in_trouble_and_what_it_said_still_holds(source: str) -> None:
    state = a_state(None, a_workload("b"), a_scaled_object("b"), a_write_stop())
    before = state.peek(NOW)
    feed(state, SourceState(source, NOW, None, absent=True))
    assert state.sync(NOW).stale == (source,)
    assert source in state.troubles()
    after = state.peek(NOW)
    assert (after.write_stop, after.models) == (before.write_stop, before.models)


def test_our_own_apis_are_waited_for() -> None:
    state = feed(ClusterState(a_policy(), NOW), SourceState("writestops", NOW, None, absent=True))
    assert "writestops" in state.sync(NOW).missing


def test_a_source_in_trouble_is_stale_until_it_is_alive_again() -> None:
    state = feed(a_state(), SourceState("pods", NOW, "403 Forbidden: pods"))
    assert state.sync(NOW).stale == ("pods",)
    assert state.troubles() == {"pods": "403 Forbidden: pods"}
    feed(state, SourceState("pods", NOW + 1))
    assert state.sync(NOW + 1).stale == ()
    assert state.troubles() == {}


def test_a_silent_source_is_stale_after_ninety_seconds() -> None:
    state = a_state()
    for source in SOURCES.keys() - {"pods"}:
        state.apply(SourceState(source, NOW), NOW)
    assert state.sync(NOW + 30).stale == ()
    assert state.sync(NOW + 31).stale == ("pods",)
    feed(state, changed(a_ready_pod()), now=NOW + 31)
    assert state.sync(NOW + 31).stale == ()


def test_a_source_nobody_knows_is_counted() -> None:
    state = feed(a_state(), ObjectsListed("gadgets", NOW), ObjectChanged("gadgets", NOW, a_ready_pod()))
    assert state.counters() == {"unknown-source": 2}
    assert state.peek(NOW).models[0].targets[0].pods == ()


# --- wakes

POLICY = a_policy(pools=(a_pool(), an_elastic_pool()))
GPU_POD = a_ready_pod("x-1", workload="train")


@pytest.mark.parametrize(
    ("event", "wakes"),
    [
        (a_told_notice("n1"), {"notice"}),
        (changed(an_override("pin", value=2)), {"override"}),
        (changed(an_override("drain", "n1")), {"override", "notice"}),
        (changed(a_write_stop()), {"write-stop"}),
        (gone(GPU_POD), {"freed-gpu"}),
        (changed(replace(GPU_POD, resource_version="2", phase="Succeeded")), {"freed-gpu"}),
        (changed(replace(GPU_POD, resource_version="2", deleting_at=NOW)), set()),
        (gone(a_ready_pod("cpu", workload=None, gpus={})), set()),
        (gone(a_pending_pod("waits")), set()),
        (changed(a_ready_pod("waits", resource_version="2")), {"ready"}),
        (changed(a_ready_pod("waits", resource_version="2", ready=False)), set()),
        (changed(a_ready_pod("waits", resource_version="2", ready=False, deleting_at=NOW)), {"leaving"}),
        (changed(a_ready_pod("y-1", workload="train")), set()),
        (changed(a_cluster_node("n2", ready=False)), {"node"}),
        (changed(a_cluster_node("n9", "cpu")), set()),
        (changed(a_cluster_node("down", resource_version="2")), {"node"}),
        (changed(a_cluster_node("n1", resource_version="2", ready=False)), set()),
        (gone(a_cluster_node("n1")), {"node"}),
        (changed(a_claim("c1", resource_version="2", failed="no capacity")), {"node"}),
        (changed(a_claim("c1", resource_version="2", node="n7")), set()),
        (changed(a_workload("b", 4, resource_version="2")), set()),
        (listed("pods"), {"freed-gpu"}),
    ],
)
def test_what_cannot_wait_wakes_the_wheel(event: Event, wakes: set[str]) -> None:
    state = a_state(
        POLICY,
        a_cluster_node("n1"),
        a_cluster_node("down", ready=False),
        a_workload(),
        a_claim("c1"),
        GPU_POD,
        a_pending_pod("waits"),
        a_ready_pod("cpu", workload=None, gpus={}),
    )
    feed(state, event)
    assert state.take_wakes() == wakes
    feed(state, event)  # the same again is no news
    assert state.take_wakes() == frozenset()


@pytest.mark.parametrize(
    ("wakes", "seconds"),
    [
        ({"freed-gpu"}, 0.1),
        ({"freed-gpu", "notice"}, 0.0),
        ({"freed-gpu", "override"}, 0.0),
        ({"surge"}, 0.0),
        ({"ready"}, 0.0),
    ],
)
def test_freed_gpus_wait_for_each_other_and_nothing_waits_for_them(wakes: set[str], seconds: float) -> None:
    assert patience_seconds(wakes) == seconds


def test_our_own_answer_in_an_overrides_status_is_no_news() -> None:
    pin = an_override("pin", value=2)
    state = feed(a_state(), changed(pin))
    state.take_wakes()
    feed(state, changed(replace(pin, resource_version="2", phase="InForce", message="b is pinned at 2")))
    assert state.take_wakes() == frozenset()
    feed(state, gone(pin))
    assert state.take_wakes() == {"override"}


def test_a_write_stop_that_ends_wakes_too() -> None:
    state = feed(a_state(None, a_write_stop()), gone(a_write_stop()))
    assert state.take_wakes() == {"write-stop"}
    assert state.peek(NOW).write_stop is None


def steady_then(jump: float, policy: Policy | None = None) -> ClusterState:
    """Model b at 4 requests (one replica's worth) for ten minutes, then `jump` requests for 15 s."""
    state = a_state(policy, a_workload(), a_ready_pod("b-1"))
    for n in range(120):
        at = NOW - 600.0 + 5.0 * n
        feed(state, a_sample(pod="b-1", at=at, running=4.0), now=at)
    state.take_wakes()
    for n in range(1, 4):
        at = NOW - 5.0 + 5.0 * n
        feed(state, a_sample(pod="b-1", at=at, running=jump), now=at)
    return state


def test_a_surge_wakes_once() -> None:
    state = steady_then(16.0)
    assert state.take_wakes() == {"surge"}
    feed(state, a_sample(pod="b-1", at=NOW + 15, running=20.0), now=NOW + 15)
    assert state.take_wakes() == frozenset()


@pytest.mark.parametrize("jump", [4.0, 5.9, 0.0])
def test_less_than_half_more_is_no_surge(jump: float) -> None:
    assert steady_then(jump).take_wakes() == frozenset()


def test_half_more_that_needs_no_further_replica_is_no_surge() -> None:
    policy = a_policy(a_model("b", signals={"concurrency": {"per_replica": 100.0}}))
    assert steady_then(40.0, policy).take_wakes() == frozenset()


def test_a_second_surge_wakes_again_after_the_first_is_over() -> None:
    state = steady_then(16.0)
    state.take_wakes()
    for n in range(1, 200):
        at = NOW + 10.0 + 5.0 * n
        feed(state, a_sample(pod="b-1", at=at, running=4.0 if n < 150 else 16.0), now=at)
        state.peek(at)
        woken = state.take_wakes()
        assert woken == ({"surge"} if n == 151 else frozenset()), n


def test_looking_does_not_swallow_a_surge() -> None:
    """Whoever peeks between two events, the wheel is still woken by the next one."""
    state = a_state(None, a_workload(), a_ready_pod("b-1"))
    for n in range(120):
        feed(state, a_sample(pod="b-1", at=NOW - 600.0 + 5.0 * n, running=4.0), now=NOW)
    state.take_wakes()
    for n in range(3):  # within the 50 ms in which one model is looked at but once
        feed(state, a_sample(pod="b-1", at=NOW + n, running=40.0, source="other"), now=NOW + 0.01 * n)
        state.peek(NOW + 0.01 * n)
    feed(state, a_sample(pod="b-1", at=NOW + 3, running=40.0, source="other"), now=NOW + 3)
    assert state.take_wakes() == {"surge"}


def test_wakes_are_taken_once() -> None:
    state = feed(a_state(), changed(a_write_stop()), changed(an_override()))
    assert state.wakes == {"write-stop", "override"}
    assert state.take_wakes() == {"write-stop", "override"}
    assert state.take_wakes() == frozenset()


# --- outcomes


def test_outcomes_are_handed_to_the_next_cycle_once() -> None:
    state = a_state()
    state.note(an_outcome("one"), NOW)
    assert state.peek(NOW).outcomes == (an_outcome("one"),)
    assert state.snapshot(NOW, 7).outcomes == (an_outcome("one"),)
    state.note(an_outcome("two"), NOW)
    assert state.snapshot(NOW + 1, 7).outcomes == (an_outcome("one"),)
    assert state.peek(NOW + 1).outcomes == (an_outcome("two"),)
    assert state.snapshot(NOW + 2, 8).outcomes == (an_outcome("two"),)
    assert state.snapshot(NOW + 3, 9).outcomes == ()


def test_a_snapshot_carries_its_cycle_and_instant() -> None:
    state = a_state()
    snapshot = state.snapshot(NOW + 1.5, 4)
    assert (snapshot.cycle, snapshot.at) == (4, NOW + 1.5)
    assert (state.peek(NOW + 2).cycle, state.peek(NOW + 2).at) == (4, NOW + 2)


# --- people


def test_overrides_are_in_order_and_the_oldest_write_stop_is_shown() -> None:
    state = feed(
        a_state(),
        changed(an_override("pin", "b")),
        changed(an_override("cap", "a")),
        changed(a_write_stop(name="second", uid="u2", created_at=NOW - 5)),
        changed(a_write_stop(name="first")),
    )
    snapshot = state.peek(NOW)
    assert [override.name for override in snapshot.overrides] == ["cap-a", "pin-b"]
    assert snapshot.write_stop is not None
    assert snapshot.write_stop.name == "first"


# --- what did not change is the same value


def test_an_unchanged_part_is_the_very_same_value() -> None:
    state = a_state(POLICY, a_cluster_node("n1"), a_workload("a"), a_workload("b"), a_ready_pod("b-1"))
    feed(state, changed(an_override()), a_told_notice("n1"), a_sample(pod="b-1", running=1))
    one = state.snapshot(NOW, 1)
    two = state.snapshot(NOW + 1, 2)
    for part in ("overrides", "notices", "pools", "models", "loads", "sync"):
        assert getattr(one, part) is getattr(two, part), part
    feed(state, changed(a_workload("a", 3, resource_version="2")), now=NOW + 1)
    three = state.snapshot(NOW + 1, 3)
    assert three.models[0] != two.models[0]
    assert three.models[1] is two.models[1]
    assert three.pools is two.pools
    assert three.loads is two.loads


def test_versions_that_change_nothing_we_use_leave_pools_alone() -> None:
    state = a_state(POLICY, a_cluster_node("n1"), a_cluster_node("n2"))
    one = state.peek(NOW)
    feed(state, changed(a_cluster_node("n1", resource_version="99")))
    assert state.peek(NOW).pools is one.pools
    feed(state, changed(a_cluster_node("n1", resource_version="100", allocatable={GPU: 4})))
    two = state.peek(NOW)
    assert two.pools[0].nodes[0].gpus == 4
    assert two.pools[0].nodes[1] is one.pools[0].nodes[1]
    assert two.pools[1] is one.pools[1]


def test_an_object_that_a_list_cannot_read_stands_as_it_was() -> None:
    state = a_state(None, a_cluster_node(), a_workload(replicas=2), a_ready_pod("b-1"), a_ready_pod("b-2"))
    event = ObjectsListed("pods", NOW, (a_ready_pod("b-1"),), unreadable=("serving/b-2", "serving/b-3"))
    feed(state, event)
    pods = next(view for view in state.peek(NOW).models if view.id == "b").targets[0].pods
    assert [pod.name for pod in pods] == ["b-1", "b-2"]
    feed(state, listed("pods", a_ready_pod("b-1")))
    pods = next(view for view in state.peek(NOW).models if view.id == "b").targets[0].pods
    assert [pod.name for pod in pods] == ["b-1"]
