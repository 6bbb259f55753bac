"""GPU memory of replicas once they are loaded: the first plateau after Ready, and engines of which it says nothing."""

import pytest

from rebalancer.domain.gpu_memory import LoadedMemory
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy
from tests.state.objects import a_ready_pod, a_sample, a_state, changed

GIB = 1024.0
WEIGHTS = 30 * GIB
WHOLE = 80 * GIB


def heard(state: ClusterState, *used_mib: float, pod: str = "b-1", since: float = NOW, kv: float | None = None) -> None:
    """A reading each ten seconds, of what is in use of 80 GiB."""
    for number, used in enumerate(used_mib):
        at = since + 10.0 * number
        told = {"fb_used_mib": used, "fb_free_mib": WHOLE - used, "kv_cache_use": kv}
        state.apply(a_sample(pod=pod, at=at, source="dcgm", gauges=told), at)


def loaded(state: ClusterState, at: float = NOW + 600.0) -> LoadedMemory | None:
    return next(view for view in state.peek(at).models if view.id == "b").loaded


def a_state_with(*pods: str, ready_at: float = NOW) -> ClusterState:
    return a_state(a_policy(a_model("b")), *(a_ready_pod(pod, ready_at=ready_at) for pod in pods))


def test_what_stands_still_after_ready_is_what_a_replica_takes() -> None:
    state = a_state_with("b-1")
    heard(state, WEIGHTS, WEIGHTS, WEIGHTS)
    assert loaded(state) == LoadedMemory(30.0, 1)


def test_what_still_grows_is_no_plateau_and_the_first_one_counts() -> None:
    state = a_state_with("b-1")
    heard(state, 5 * GIB, 15 * GIB, 25 * GIB)
    assert loaded(state) is None
    heard(state, WEIGHTS, WEIGHTS, WEIGHTS, 60 * GIB, 60 * GIB, 60 * GIB, since=NOW + 30.0)
    assert loaded(state) == LoadedMemory(30.0, 1)


def test_a_pod_that_is_not_ready_or_has_served_for_long_is_not_measured() -> None:
    state = a_state(
        a_policy(a_model("b")), a_ready_pod("b-1", ready=False, ready_at=None), a_ready_pod("b-2", ready_at=NOW - 900.0)
    )
    heard(state, WEIGHTS, WEIGHTS, WEIGHTS)
    heard(state, WEIGHTS, WEIGHTS, WEIGHTS, pod="b-2")
    assert loaded(state) is None


def test_of_several_replicas_the_least_is_what_another_one_needs_in_any_case() -> None:
    state = a_state_with("b-1", "b-2")
    heard(state, WEIGHTS, WEIGHTS, WEIGHTS)
    heard(state, 28 * GIB, 28 * GIB, 28 * GIB, pod="b-2")
    assert loaded(state) == LoadedMemory(28.0, 2)


@pytest.mark.parametrize(("gib", "kv"), [(40, 0.1), (72, None)], ids=["by its KV cache", "by its share"])
def test_an_engine_that_reserves_is_known_and_its_figure_refuses_nothing(gib: int, kv: float | None) -> None:
    state = a_state_with("b-1")
    taken = gib * GIB
    heard(state, taken, taken, taken, kv=kv)
    found = loaded(state)
    assert found is not None
    assert found.reserved == taken / WHOLE
    assert found.lacks(1, 16.0) == ""


def test_without_what_is_free_nothing_is_learnt() -> None:
    state = a_state_with("b-1")
    for number in range(4):
        at = NOW + 10.0 * number
        state.apply(a_sample(pod="b-1", at=at, gauges={"fb_used_mib": WEIGHTS}), at)
    assert loaded(state) is None


def test_it_is_remembered_over_a_restart_whether_the_engine_reserves_included() -> None:
    before = a_state_with("b-1")
    heard(before, 40 * GIB, 40 * GIB, 40 * GIB, kv=0.1)
    after = a_state_with("b-1")
    after.restore_rings("b", before.rings_bytes("b"))
    assert loaded(after) == loaded(before) == LoadedMemory(40.0, 1, 0.5)


def test_what_did_not_change_is_the_same_value() -> None:
    state = a_state_with("b-1")
    heard(state, WEIGHTS, WEIGHTS, WEIGHTS)
    state.apply(changed(a_ready_pod("b-9", ready_at=NOW)), NOW + 101.0)
    later = state.peek(NOW + 102.0).models
    assert [view.loaded for view in later] == [LoadedMemory(30.0, 1)]
    assert state.peek(NOW + 103.0).models is later


def test_a_model_of_several_pods_needs_as_much_in_each() -> None:
    state = a_state(a_policy(a_model("b", gpus_per_replica=2, pods_per_replica=2)), a_ready_pod("b-1", ready_at=NOW))
    heard(state, WEIGHTS, WEIGHTS, WEIGHTS)
    assert loaded(state) == LoadedMemory(60.0, 1)
