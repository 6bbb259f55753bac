"""Whom a ReplicaSet deletes: a lost pod is Ready for it, and serves nobody."""

from rebalancer.domain.replica_set import keep_order, out_class, serving_after
from tests.builders import a_pod

READY, LOST = a_pod("ready", "n1"), a_pod("lost", "n9", phase="lost")
LOADING = a_pod("loading", "n1", phase="loading")


def test_a_replica_set_takes_a_lost_pod_for_ready() -> None:
    assert out_class(LOST) == out_class(READY) < out_class(LOADING)


def test_of_equals_the_lost_and_the_doomed_are_what_we_would_rather_lose() -> None:
    younger = a_pod("younger", "n1", created_at=READY.created_at + 60)
    doomed = a_pod("doomed", "n2")
    kept = sorted([LOST, doomed, younger, READY], key=lambda pod: keep_order(pod, {"n2"}))
    assert [pod.name for pod in kept] == ["ready", "younger", "doomed", "lost"]


def test_what_it_deletes_goes_by_the_cost_before_that() -> None:
    cheap = a_pod("cheap", "n1", deletion_cost=-10)
    assert [pod.name for pod in sorted([cheap, LOST], key=keep_order)] == ["lost", "cheap"]


def test_at_the_worst_it_keeps_the_lost_one_unless_that_is_marked_to_go_first() -> None:
    pods = READY, a_pod("other", "n1"), LOST
    assert serving_after(pods, 3, ()) == 2
    assert serving_after(pods, 2, ()) == 1
    assert serving_after(pods, 2, (), first={LOST.uid}) == 2
