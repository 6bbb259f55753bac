"""Whom a controller ends: for a ReplicaSet a lost pod is Ready, and serves nobody; numbers go from the highest down."""

from rebalancer.domain.snapshot import Place
from rebalancer.domain.victims import keep_order, out_class, serving_after
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


def test_of_numbered_ones_those_stay_whose_numbers_are_asked_for_and_a_gap_is_not_filled_by_a_higher_one() -> None:
    pods = [a_pod(f"b-{n}", place=Place(n)) for n in (0, 2, 3)]
    assert [serving_after(pods, replicas, ()) for replicas in (4, 3, 2, 1, 0)] == [3, 2, 1, 1, 0]
    assert serving_after(pods, 3, (), first={"uid-b-0"}) == 2, "a mark says nothing"


def test_a_group_on_a_node_that_goes_serves_nobody() -> None:
    pods = [a_pod("b-0", "n1", place=Place(0, ("n2",))), a_pod("b-1", "n1", place=Place(1, ("n3",)))]
    assert serving_after(pods, 2, {"n2"}) == 1
