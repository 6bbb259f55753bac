"""From when on a node under notice counts for nobody: at once, or when its replacements are due."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.drain import dated
from rebalancer.domain.events import CapacityNotice
from rebalancer.domain.memory import Memory
from rebalancer.planning.memory.accounts import follow
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


def test_a_notice_about_a_node_of_no_pool_is_listed_and_has_no_account() -> None:
    state = feed(a_state(POLICY, a_cluster_node("web", labels={})), a_told_notice("web"))
    seen = state.peek(NOW)
    assert [view.node for view in seen.notices] == ["web"]
    assert all(node.name != "web" for pool in seen.pools for node in pool.nodes)
    assert follow(Memory(), seen)[0].accounts == ()


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


def a_fault(node: str = "n1", **overrides: object) -> CapacityNotice:
    """One that stands for as long as anybody looks."""
    fields = {"deadline": NOW, "ends_at": NOW + 2 * FORTNIGHT, "confidence": "likely"}
    return a_told_notice(node, kind="fault", **fields | overrides)


def test_a_fault_is_no_more_certain_for_a_maintenance_in_a_fortnight_until_that_comes_to_its_time() -> None:
    # Called certain, or left to Karpenter, its replicas would end with none in their place.
    state = feed(with_nodes(), a_maintenance("s1"), a_fault("s1"))
    found, due = one(state), NOW + FORTNIGHT - (60 + 900 + 30 + 60)
    assert (found.kind, found.confidence, found.karpenter, found.deadline) == ("fault", "likely", False, NOW)
    assert found.counts(NOW)
    assert one(state, due - 1.0) == found
    later = one(state, due)
    assert (later.kind, later.confidence, later.karpenter) == ("scheduled-change", "certain", True)
    assert (later.deadline, later.doomed_at) == (NOW + FORTNIGHT, found.doomed_at)


def test_a_fault_that_is_not_believed_leaves_a_maintenance_as_it_was_told() -> None:
    nodes = [a_cluster_node(f"n{n}") for n in range(4)]
    state = feed(a_state(POLICY, *nodes), a_maintenance("n0"))
    before = one(state)
    feed(state, *(a_fault(node.name) for node in nodes))
    assert [bool(view.doubted) for view in notices(state)] == [False, True, True, True]
    assert notices(state)[0] == before


def test_a_drain_of_a_node_takes_no_deadline_from_what_its_cloud_says() -> None:
    drain = changed(an_override("drain", "n1"))
    state = feed(with_nodes(), drain, a_told_notice("n1"))
    assert (one(state).kind, one(state).deadline, dated(one(state))) == ("spot-interruption", NOW + 120, True)
    far = feed(with_nodes(), drain, a_maintenance())
    assert (one(far).kind, one(far).counts(NOW)) == ("drain", True)
    assert one(far, NOW + FORTNIGHT - 150).deadline == NOW + FORTNIGHT


def test_a_drain_counts_since_it_was_asked_for_though_another_word_of_the_node_is_ten_days_old() -> None:
    told_at, drained_at, due = NOW - 10 * 86_400.0, NOW - 60.0, NOW + FORTNIGHT - 150
    drain = changed(an_override("drain", "n1", created_at=drained_at))
    for older in (a_maintenance(at=told_at), a_told_notice("n1", at=told_at, confidence="possible", ends_at=NOW + 60)):
        view = one(feed(with_nodes(), older, drain))
        assert (view.kind, view.since, view.counts_since) == ("drain", told_at, drained_at)
    alone = one(feed(with_nodes(), drain))
    assert (alone.since, alone.counts_since) == (drained_at, None)
    far = one(feed(with_nodes(), a_maintenance(at=told_at)), due)
    assert (far.since, far.counts_since) == (told_at, due)


def test_a_drain_is_not_karpenters_for_a_maintenance_that_is_far_away() -> None:
    assert not one(feed(with_nodes(), changed(an_override("drain", "s1")), a_maintenance("s1"))).karpenter


def test_of_two_deadlines_neither_comes_later_again_over_a_restart_too() -> None:
    pod = a_ready_pod("b-1", grace_seconds=600)
    told = a_maintenance(), a_fault(deadline=NOW + 7200)
    state = feed(a_state(POLICY, a_cluster_node("n1"), pod), *told)
    instants = NOW + 7200 - (60 + 600 + 60), NOW + FORTNIGHT - (60 + 600 + 60)
    before = [one(state, at) for at in instants]
    assert [view.kind for view in before] == ["fault", "scheduled-change"]
    restarted = a_state(POLICY, a_cluster_node("n1"))
    restarted.restore_notices(state.notices_past())
    for after in (feed(state, gone(pod)), restarted):
        assert [one(after, at) for at in instants] == before


def test_a_window_is_over_at_its_end_not_ten_minutes_after_its_start() -> None:
    state = feed(with_nodes(), a_told_notice("n1", kind="scheduled-change", ends_at=NOW + 7200))
    assert notices(state, NOW + 7199)
    assert notices(state, NOW + 7200) == ()
