"""What a model as a whole teaches while a node of its says nothing, and its pods there still count as serving."""

import pytest

from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy
from tests.state.loads import load_of
from tests.state.objects import a_cluster_node, a_ready_pod, a_sample, a_state, a_workload, changed, feed, gone


def half_dead(silent_seconds: int) -> ClusterState:
    """Two replicas that are full with four each, for five minutes; then one's node is silent, and two run on the other.

    Samples are of the model as a whole, by which each of both seems to be full with two.
    """
    nodes = a_cluster_node("n1"), a_cluster_node("n2")
    pods = a_ready_pod("b-1", node="n1"), a_ready_pod("b-2", node="n2")
    state = a_state(a_policy(a_model("b")), *nodes, a_workload(replicas=2), *pods)
    for n in range((300 + silent_seconds) // 5):
        at = NOW + 5.0 * n
        feed(state, a_sample(at=at, running=8.0 if n < 60 else 4.0, gauges={"waiting": 30.0}), now=at)
    return state


@pytest.mark.parametrize("what", ["not Ready", "gone"])
def test_what_was_learnt_while_a_node_was_silent_and_its_pods_counted_is_forgotten(what: str) -> None:
    state, now = half_dead(50), NOW + 350.0
    misled = load_of(state, now=now).carries
    assert misled is not None
    assert misled.learnt < 3.5
    node = a_cluster_node("n2", ready=False, resource_version="2")
    feed(state, gone(node, now) if what == "gone" else changed(node, now), now=now)
    carries = load_of(state, now=now).carries
    assert carries is not None
    assert carries.learnt == pytest.approx(4.0, rel=0.01)
    assert carries.readings >= 50  # of 70: those of the last 75 s are forgotten


def test_what_pods_taught_since_the_model_as_a_whole_did_is_not_forgotten() -> None:
    state, now = half_dead(0), NOW + 1500.0
    for n in range(60):
        at = now + 5.0 * n
        pods = [a_sample(pod=pod, at=at, running=6.0, gauges={"waiting": 30.0}) for pod in ("b-1", "b-2")]
        feed(state, *pods, now=at)
    before = load_of(state, now=now + 300.0).carries
    assert before is not None
    assert before.learnt > 5.0
    feed(state, changed(a_cluster_node("n2", ready=False, resource_version="2"), now + 300.0), now=now + 300.0)
    assert load_of(state, now=now + 300.0).carries == before


def test_nothing_is_forgotten_for_the_silence_of_one_pod_in_twenty() -> None:
    nodes = a_cluster_node("n1"), a_cluster_node("n2")
    pods = [a_ready_pod(f"b-{n}", node="n1" if n else "n2") for n in range(20)]
    state = a_state(a_policy(a_model("b")), *nodes, a_workload(replicas=20), *pods)
    for n in range(24):
        feed(state, a_sample(at=NOW + 5.0 * n, running=76.0, gauges={"waiting": 300.0}), now=NOW + 5.0 * n)
    before = load_of(state, now=NOW + 120).carries
    feed(state, changed(a_cluster_node("n2", ready=False, resource_version="2"), NOW + 120), now=NOW + 120)
    assert load_of(state, now=NOW + 120).carries == before
    assert before is not None
    assert before.readings > 0


def test_nothing_is_forgotten_for_a_node_without_pods_of_the_model_or_with_those_only_that_are_told_to_end() -> None:
    state, now = half_dead(50), NOW + 350.0
    before = load_of(state, now=now).carries
    feed(state, changed(a_cluster_node("n3"), now), changed(a_cluster_node("n3", ready=False), now), now=now)
    assert load_of(state, now=now).carries == before
    ended = a_ready_pod("b-2", node="n2", resource_version="2", deleting_at=now)
    feed(state, changed(ended, now), changed(a_cluster_node("n2", ready=False, resource_version="2"), now), now=now)
    assert load_of(state, now=now).carries == before
