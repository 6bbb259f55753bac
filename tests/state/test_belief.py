"""Faults of a whole fleet are not believed, and of what may go only so much is replaced at a time."""

import pytest

from rebalancer.domain.node_rules import NodeRules
from rebalancer.domain.snapshot import NoticeView
from tests.builders import NOW, a_model, a_policy, a_pool
from tests.state.objects import a_cluster_node, a_state, a_told_notice, feed


def views(nodes: int, told: int, kind: str = "fault", confidence: str = "likely", **rules: object) -> list[NoticeView]:
    """The notices that stand when of `nodes` nodes of a pool `told` are told of."""
    policy = a_policy(a_model("a"), pools=(a_pool(gpus=999),), nodes=NodeRules.model_validate(rules))
    state = a_state(policy, *(a_cluster_node(f"n{number:02}") for number in range(nodes)))
    for number in range(told):
        notice = a_told_notice(f"n{number:02}", kind=kind, at=NOW - 60.0 + number, deadline=NOW, confidence=confidence)
        feed(state, notice)
    return list(state.peek(NOW).notices)


@pytest.mark.parametrize(
    ("nodes", "told", "believed"), [(3, 3, 3), (6, 3, 3), (6, 4, 0), (20, 9, 9), (20, 10, 0), (20, 20, 0)]
)
def test_more_than_three_and_45_percent_of_a_pool_are_not_believed(nodes: int, told: int, believed: int) -> None:
    found = views(nodes, told)
    assert len(found) == told
    assert sum(not each.doubted and each.counts(NOW) for each in found) == believed


def test_it_is_said_why_and_the_share_is_the_policys() -> None:
    (*_, last) = views(10, 6)
    assert last.doubted == "6 of 10 nodes of pool a100 are called faulty at once: whoever says so is not believed"
    assert not last.counts(NOW)
    assert all(each.counts(NOW) for each in views(10, 6, faulty_share=0.6))


def test_what_the_cloud_says_for_certain_is_believed_of_a_whole_fleet() -> None:
    assert all(each.counts(NOW) for each in views(10, 10, "spot-interruption", "certain"))


@pytest.mark.parametrize("at_once", [0, 1, 2])
def test_of_what_may_go_the_first_ones_told_are_prepared_for(at_once: int) -> None:
    found = views(10, 3, "rebalance", "possible", prepare_at_once=at_once)
    assert [each.node for each in found if each.prepared] == [f"n{number:02}" for number in range(at_once)]
    assert [each.node for each in found if each.counts(NOW)] == [f"n{number:02}" for number in range(at_once)]
