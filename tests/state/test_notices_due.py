"""From when on a node under notice counts for nobody: at once, or when its replacements are due."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.events import CapacityNotice
from rebalancer.state.due import doomed_at
from tests.builders import NOW, a_model, a_policy, a_pool, an_elastic_pool, an_override
from tests.state.objects import a_cluster_node, a_ready_pod, a_state, a_told_notice, changed, feed, gone
from tests.state.test_notices import POLICY, notices, one, with_nodes


@pytest.mark.parametrize(
    ("deadline", "load", "node", "grace", "expected"),
    [(43_200.0, 240.0, 900.0, 90.0, 41_910.0), (120.0, 60.0, 0.0, 30.0, -30.0), (600.0, 0.0, 0.0, 0.0, 540.0)],
)
def test_a_notice_counts_by_its_deadline(
    deadline: float, load: float, node: float, grace: float, expected: float
) -> None:
    assert doomed_at(deadline, load, node, grace) == expected  # the first: 12:00:00 counts from 11:38:30


FORTNIGHT = 14 * 86_400.0


def a_maintenance(node: str = "n1", **overrides: object) -> CapacityNotice:
    return a_told_notice(node, kind="scheduled-change", **{"deadline": NOW + FORTNIGHT} | overrides)


def test_a_maintenance_in_a_fortnight_counts_from_when_its_replacements_are_due() -> None:
    # b loads in 60 s as the policy has it, and ends within 30 s: 60 + 30 + 60 s before it.
    state = feed(with_nodes(), a_maintenance())
    assert one(state).doomed_at == NOW + FORTNIGHT - 150
    assert not one(state).counts(NOW)
    assert one(state).counts(NOW + FORTNIGHT - 150)


def test_the_slowest_model_there_as_measured_and_the_longest_grace_count() -> None:
    policy = a_policy(a_model("a", load_seconds=100), a_model("b"), pools=(a_pool(), an_elastic_pool()))
    state = a_state(policy, a_cluster_node("n1"), a_cluster_node("n2"))
    feed(state, changed(a_ready_pod("a-1", "a", grace_seconds=45)), changed(a_ready_pod("b-1", node="n2")))
    feed(state, a_maintenance())
    assert one(state).doomed_at == NOW + FORTNIGHT - (100 + 45 + 60)
    for name, ready_at in (("b-2", NOW - 500), ("b-3", NOW - 200), ("b-4", NOW - 560)):  # the slow one counts
        slow = a_ready_pod(name, ready=False, ready_at=None)
        feed(state, changed(slow), changed(replace(slow, resource_version="2", ready=True, ready_at=ready_at)))
    assert one(state).doomed_at == NOW + FORTNIGHT - (400 + 45 + 60)


def test_where_the_pool_can_get_nodes_a_replacement_waits_for_one() -> None:
    state = feed(with_nodes(), a_maintenance("s1"))
    assert one(state).doomed_at == NOW + FORTNIGHT - (60 + 900 + 30 + 60)
    policy = a_policy(pools=(a_pool(), an_elastic_pool()), nodes={"node_timeout_seconds": 300})
    state.set_policy(policy, NOW)
    feed(state, a_maintenance("n1"))
    assert [view.doomed_at for view in notices(state)] == [
        NOW + FORTNIGHT - 150,
        NOW + FORTNIGHT - (60 + 900 + 30 + 60),  # it was said so for this deadline: it does not come later again
    ]


def test_what_is_doomed_stays_so_though_the_slowest_replica_has_left() -> None:
    pod = a_ready_pod("b-1", grace_seconds=600)
    state = feed(a_state(POLICY, a_cluster_node("n1"), pod), a_maintenance())
    before = one(state)
    assert before.doomed_at == NOW + FORTNIGHT - (60 + 600 + 60)
    assert one(feed(state, gone(pod))) == before
    feed(state, a_maintenance(at=NOW + 3, cancelled=True), a_maintenance(at=NOW + 4, deadline=NOW + FORTNIGHT + 60))
    assert one(state).doomed_at == NOW + FORTNIGHT + 60 - 60


def test_what_counts_goes_on_counting_though_the_clock_is_set_back_until_that_is_right_again() -> None:
    # 60 s to load, 30 to end, 60 more: it counts 150 s before its deadline. By a clock half an hour behind that is far
    # away once more: a replica there would serve, so that one elsewhere could be given.
    state = feed(with_nodes(), a_maintenance(deadline=NOW + 600.0))
    before = one(state, NOW + 460.0)
    assert before.counts(NOW + 460.0)
    state.stepped(-1800.0)
    assert one(state, NOW - 1340.0).counts(NOW - 1340.0)
    state.stepped(1800.0)
    assert one(state, NOW + 460.0) == before


@pytest.mark.parametrize("kind", ["state-change", "disruption"])
def test_what_goes_now_counts_now_whatever_its_deadline(kind: str) -> None:
    assert one(feed(with_nodes(), a_told_notice("n1", kind=kind, deadline=NOW + 3600))).doomed_at is None


def test_of_two_facts_about_a_node_the_earlier_one_counts() -> None:
    state = feed(with_nodes(), a_maintenance(), a_told_notice("n1", deadline=NOW + 3600))
    assert one(state).doomed_at == NOW + 3600 - 150
    feed(state, changed(an_override("drain", "n1")))
    assert one(state).doomed_at is None


def test_a_window_is_over_at_its_end_not_ten_minutes_after_its_start() -> None:
    state = feed(with_nodes(), a_told_notice("n1", kind="scheduled-change", ends_at=NOW + 7200))
    assert notices(state, NOW + 7199)
    assert notices(state, NOW + 7200) == ()
