"""The oracles of floors and budget know who serves: on a node that is there, Ready, and nobody has ended it."""

from dataclasses import replace
from typing import Any

from tests.faults.test_invariants import write
from tests.real.occupancy import Pods, gpus_of_nodes
from tests.real.oracles import Step, least_asked, most_asked, over_budget, steps, unserved
from tests.testbed.audit import Write
from tests.testbed.objects import GPU

RELEASE = Step(50.0, "code", 4, 2)
FLOORS = {"code": 2}


def of_a_pod(at: float, name: str, verb: str, subresource: str = "", user: str = "kwok", **request: Any) -> Write:  # noqa: ANN401  as the API server had it
    return replace(write(at, name, 0), resource="pods", verb=verb, subresource=subresource, user=user, request=request)


def a_pod(name: str, node: str) -> list[Write]:
    """It is asked for, bound, and serves a second later."""
    ready = {"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]}
    return [
        of_a_pod(10.0, name, "create", user="replicasets"),
        of_a_pod(11.0, name, "create", "binding", target={"name": node}),
        of_a_pod(12.0, name, "patch", "status", status=ready),
    ]


def of_a_node(at: float, name: str, verb: str, gpus: int = 0) -> Write:
    response = {"status": {"allocatable": {GPU: f"{gpus}"}}}
    return replace(write(at, name, 0), resource="nodes", verb=verb, subresource="", response=response)


def ended(at: float, name: str) -> Write:
    return of_a_pod(at, name, "delete", user="replicasets")


FOUR = [write for number in range(4) for write in a_pod(f"code-{number}", "ab"[number // 2])]


def test_two_of_four_may_go_and_a_third_takes_the_model_under_its_floor() -> None:
    assert unserved([RELEASE], FLOORS, Pods.of([*FOUR, ended(51.0, "code-0"), ended(51.0001, "code-1")])) == []
    third = [ended(51.0 + number / 10_000, f"code-{number}") for number in range(3)]
    assert unserved([RELEASE], FLOORS, Pods.of([*FOUR, *third])) == [
        f"{RELEASE}: replicasets ended code-2, 1 of code serve, and its floor is 2"
    ]


def test_pods_of_a_node_that_is_gone_serve_nobody() -> None:
    gone = of_a_node(40.0, "b", "delete")
    assert len(unserved([RELEASE], FLOORS, Pods.of([*FOUR, gone, ended(51.0, "code-0")]))) == 1
    assert unserved([RELEASE], FLOORS, Pods.of([*FOUR, gone, ended(51.0, "code-2")])) == [], "nobody served there"


def test_what_ends_after_a_raise_or_with_no_word_of_ours_is_not_ours() -> None:
    pods = Pods.of([*FOUR, *(ended(51.0, f"code-{number}") for number in range(3))])
    assert unserved([], FLOORS, pods) == []
    assert unserved([RELEASE, Step(50.5, "code", 2, 4)], FLOORS, pods) == []


def test_a_raise_is_held_against_the_gpus_of_nodes_that_are_there_and_ghosts_hold_none() -> None:
    made = [of_a_node(1.0, "ns-a", "create", 2), of_a_node(2.0, "ns-b", "create", 2), *FOUR]
    gone = of_a_node(40.0, "b", "delete")
    nodes = [*made, of_a_node(40.0, "ns-b", "delete"), of_a_node(60.0, "ns-a", "patch", 3)]
    gpus, pods = gpus_of_nodes(nodes, "ns-"), Pods.of([*made, gone])
    assert [gpus(at) for at in (0.5, 1.5, 2.5, 41.0, 61.0)] == [0, 2, 4, 2, 3]
    raised = Step(50.0, "code", 4, 5)
    assert len(over_budget([raised], {"code": 4}, pods, gpus)) == 1, "two ghosts, and three where two can be"
    assert over_budget([replace(raised, at=61.0)], {"code": 4}, pods, gpus) == []


def test_a_pod_that_is_ended_before_it_had_a_node_holds_nothing_any_more() -> None:
    pending, bound = of_a_pod(10.0, "code-4", "create", user="replicasets"), a_pod("code-5", "a")
    pods = Pods.of([pending, *bound, ended(51.0, "code-4"), ended(51.0, "code-5")])
    assert (pods.at(50.0, "code-"), pods.at(52.0, "code-")) == (2, 1), "the other one's kubelet has not ended it"
    assert [pods.without_node(at, "code-") for at in (10.5, 50.0, 52.0)] == [2, 1, 0]


def test_bounds_that_are_handed_back_are_asked_of_nobody() -> None:
    held = {
        "metadata": {"annotations": {"rebalancer.io/originals": "{}"}},
        "spec": {"minReplicas": 2, "maxReplicas": 4},
    }
    bounds = replace(write(50.0, "code", 0), resource="horizontalpodautoscalers", subresource="", response=held)
    back = replace(bounds, received=60.0, response={"metadata": {}, "spec": {"minReplicas": 1, "maxReplicas": 9}})
    assert steps([bounds, back], {"code": 3}, most_asked) == [Step(50.0, "code", 3, 4)]
    assert steps([bounds, back], {"code": 3}, least_asked) == [Step(50.0, "code", 3, 2)]
