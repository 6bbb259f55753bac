"""Every notice about a node with replicas has an account: what was done about it, by whom, and was that in time."""

from msgspec.structs import replace

from rebalancer.domain.account import GoingModel, NoticeAccount
from rebalancer.domain.codec import from_bytes, to_bytes
from rebalancer.domain.memory import Memory
from tests.builders import a_model, a_notice, a_pod, a_policy, a_pool, a_snapshot
from tests.planning.story import Story
from tests.planning.test_scenarios_doomed import a_story


def the_account(story: Story) -> NoticeAccount:
    (account,) = story.memory.accounts
    return account


def in_flight(story: Story, requests: float) -> None:
    """Each replica of b has so many requests in flight, until somebody says otherwise."""
    each = {pod.uid: requests for pod in story.of("b").pods}
    loads = tuple(replace(load, pod_requests=each if load.model == "b" else {}) for load in story.snapshot.loads)
    story.snapshot = replace(story.snapshot, loads=loads)


def test_from_its_first_word_to_its_end() -> None:
    story = a_story()
    in_flight(story, 3.0)
    story.notice("a100-1", 120.0)
    heard = story.snapshot.at
    story.write(story.plan())
    assert (the_account(story).acted_at, the_account(story).replaced_at) == (None, None)
    story.wait(1.0)
    story.kubernetes()
    story.plan()
    assert the_account(story).acted_at == heard
    story.wait(49.0)
    story.settle()
    story.plan()
    assert the_account(story).replaced_at == heard + 50.0
    assert the_account(story).drained_at is None
    in_flight(story, 1.0)
    story.wait(42.0)
    story.turn(1.0)  # its grace of 30 s before the deadline: the four go
    story.plan()
    account = the_account(story)
    assert (account.drained_at, account.spare_seconds, account.drained_by) == (heard + 93.0, 27.0, ("rebalancer",))
    assert account.requests_at_end == 4.0
    assert account.over_at is None
    story.lose("a100-1")
    story.snapshot = replace(story.snapshot, notices=())
    story.plan()
    assert the_account(story).over_at == heard + 93.0
    assert str(account) == (
        "a100-1 (spot-interruption): 4 replicas; acted on after 0.0 s, replaced after 50.0 s, drained after 93.0 s by"
        " rebalancer, 27 s before its deadline, replacements served 43 s before its replicas ended, 4 requests in"
        " flight at the end"
    )


def test_a_node_that_went_first_drained_itself() -> None:
    story = a_story()
    story.notice("a100-1", 120.0)
    story.plan()
    story.wait(30.0)
    story.lose("a100-1")
    story.snapshot = replace(story.snapshot, notices=())
    story.plan()
    account = the_account(story)
    assert (account.drained_by, account.acted_at) == (("node",), None)
    assert account.requests_at_end is None  # nobody reported them by the pod


def test_before_its_notice_has_come_to_its_time_it_has_only_who_is_there() -> None:
    story = a_story()
    in_days = story.snapshot.at + 13.9 * 86400.0
    story.notice("a100-1", 14.0 * 86400.0, kind="scheduled-change", doomed_at=in_days)
    for rollout in range(20):
        fresh = tuple(replace(pod, uid=f"{rollout}-{n}") for n, pod in enumerate(story.of("b").pods))
        story.target("b", pods=fresh)
        story.wait(3600.0)
        story.plan()
    assert [replica.uid for replica in the_account(story).replicas] == ["19-0", "19-1", "19-2", "19-3"]
    story.target("b", replicas=0, pods=())
    story.plan()
    assert (the_account(story).replicas, the_account(story).drained_at) == ((), None)


def test_what_is_done_for_a_maintenance_is_timed_from_when_it_came_to_its_time() -> None:
    story = a_story()
    story.notice("a100-1", 14.0 * 86400.0, kind="scheduled-change", doomed_at=story.snapshot.at + 13.9 * 86400.0)
    story.plan()
    story.wait(13.9 * 86400.0)
    story.write(story.plan())
    story.wait(10.0)
    story.plan()
    account = the_account(story)
    assert account.due_at is not None
    assert account.due_at - account.heard_at == 13.9 * 86400.0
    assert "acted on after 0.0 s" in str(account)


def test_a_drain_of_a_node_whose_maintenance_is_weeks_away_is_dated_by_the_persons_word() -> None:
    story = a_story()
    since = story.snapshot.at
    later = {"kind": "scheduled-change", "doomed_at": since + 13.9 * 86400.0}
    story.notice("a100-1", 14.0 * 86400.0, **later)
    story.plan()
    story.wait(3.0 * 86400.0)
    at = story.snapshot.at
    drain = a_notice("a100-1", kind="drain", source="override alice", since=since, deadline=at - 2.0)
    story.snapshot = replace(story.snapshot, notices=(drain,))
    story.plan()
    account = the_account(story)
    assert (account.kind, account.issued_at, account.heard_at, account.due_at) == ("drain", at - 2.0, at, None)
    assert account.ready_before == {"b": 4}
    story.wait(1.0)
    story.notice("a100-1", 11.0 * 86400.0, **later)
    story.snapshot = replace(
        story.snapshot, notices=tuple(replace(notice, since=since) for notice in story.snapshot.notices)
    )
    story.plan()
    assert (the_account(story).kind, the_account(story).issued_at) == ("scheduled-change", since)


def test_a_drain_that_is_first_heard_of_beside_an_older_notice_is_dated_by_the_persons_word() -> None:
    story = a_story()
    at = story.snapshot.at
    drain = a_notice("a100-1", kind="drain", source="override alice", since=at - 86400.0, deadline=at - 2.0)
    story.snapshot = replace(story.snapshot, notices=(drain,))
    story.plan()
    assert (the_account(story).issued_at, the_account(story).heard_at) == (at - 2.0, at)


def test_who_left_the_node_before_its_maintenance_came_to_its_time_is_of_no_account() -> None:
    """A person's drain was taken back, and one of the two models that it met runs elsewhere since."""
    policy = a_policy(a_model("b", 1, entitlement=4), a_model("c", 1, entitlement=1), pools=(a_pool(gpus=16),))
    story = Story(policy, a_snapshot(policy, {"b": 4, "c": 1}, {"b": {"concurrency": 16.0}, "c": {"concurrency": 3.0}}))
    story.target("b", pods=tuple(a_pod(f"b-{n}", "a100-1") for n in range(4)))
    story.target("c", pods=(a_pod("c-0", "a100-1"),))
    story.notice("a100-1", 0.0, kind="drain")
    story.plan()
    story.notice("a100-1", 14.0 * 86400.0, kind="scheduled-change", doomed_at=story.snapshot.at + 13.9 * 86400.0)
    story.plan()
    story.target("c", pods=(a_pod("c-1", "a100-2"),))
    story.wait(13.9 * 86400.0)
    story.plan()
    assert [model.model for model in the_account(story).models] == ["b"]


def test_karpenter_and_a_person_by_kubectl_are_told_apart() -> None:
    for karpenter, by in ((True, "karpenter"), (False, "others")):
        story = a_story()
        story.notice("a100-1", 120.0, karpenter=karpenter)
        story.plan()
        story.evict("a100-1")
        story.plan()
        assert the_account(story).drained_by == (by,)


def test_it_survives_a_restart_and_is_told_when_it_changes() -> None:
    story = a_story()
    story.notice("a100-1", 120.0)
    first = story.plan()
    assert [account.node for account in first.accounts] == ["a100-1"]
    story.memory = from_bytes(to_bytes(story.memory), Memory)
    heard = the_account(story).heard_at
    story.wait(10.0)
    assert story.plan().accounts == ()
    story.lose("a100-1")
    assert [account.heard_at for account in story.plan().accounts] == [heard]


def test_a_start_without_memory_knows_of_no_loss_by_a_node_that_is_gone_and_tells_a_notice_that_stands_anew() -> None:
    story = a_story()
    story.notice("a100-1", 120.0)
    story.plan()
    story.memory = Memory()
    story.wait(10.0)
    story.plan()
    assert the_account(story).heard_at == story.snapshot.at
    story.lose("a100-1")
    story.plan()
    assert [account.node for account in story.memory.accounts] == ["a100-1"]
    story.snapshot = replace(story.snapshot, notices=())
    story.memory = Memory()
    story.plan()
    assert story.memory.accounts == ()


def test_a_notice_about_a_node_without_replicas_has_none_and_one_that_is_over_is_forgotten_after_an_hour() -> None:
    story = a_story()
    story.notice("a100-2", 120.0)
    story.plan()
    assert story.memory.accounts == ()
    story.notice("a100-1", 120.0)
    story.plan()
    story.snapshot = replace(story.snapshot, notices=())
    story.plan()
    assert the_account(story).over_at == story.snapshot.at
    story.wait(3601.0)
    story.plan()
    assert story.memory.accounts == ()


def test_what_was_possible_and_is_certain_now_counts_from_then_on() -> None:
    story = a_story()
    story.notice("a100-1", 0.0, kind="rebalance", confidence="possible")
    story.plan()
    story.wait(600.0)
    story.notice("a100-1", 120.0)
    story.plan()
    account = the_account(story)
    assert (account.kind, account.heard_at) == ("spot-interruption", story.snapshot.at)


def test_what_karpenter_drained_in_seconds_is_replaced_when_its_successors_are_ready_and_kept_the_clouds_deadline() -> (
    None
):
    story = a_story()
    story.notice("a100-1", 120.0, karpenter=True)
    heard = story.snapshot.at
    story.write(story.plan())
    (notice,) = story.snapshot.notices
    drains = replace(notice, deadline=heard + 2.0, told_deadline=notice.deadline)
    story.snapshot = replace(story.snapshot, notices=(drains,))
    story.wait(4.0)
    story.lose("a100-1")
    story.snapshot = replace(story.snapshot, notices=())
    plan = story.plan()
    (account,) = plan.accounts
    assert (account.replaced_at, account.over_at, account.spare_seconds) == (None, heard + 4.0, 116.0)
    assert "not replaced yet" in str(account)
    story.kubernetes()
    story.wait(46.0)
    story.settle()
    (account,) = story.plan().accounts
    assert (account.replaced_at, account.replaced_late_at) == (heard + 50.0, heard + 50.0)
    assert "replaced after 50.0 s" in str(account)
    assert story.plan().accounts == ()


def test_a_model_without_any_ready_replica_says_how_long_however_early_the_node_was_empty() -> None:
    story = a_story()
    story.notice("a100-1", 120.0, karpenter=True)
    heard = story.snapshot.at
    story.write(story.plan())
    story.wait(4.0)
    story.lose("a100-1")
    story.snapshot = replace(story.snapshot, notices=())
    assert "116 s before its deadline, b has no Ready replica, " in str(story.plan().accounts[0])
    story.kubernetes()
    story.wait(30.0)
    story.settle()
    (account,) = story.plan().accounts
    assert account.models == (
        GoingModel("b", stopped_at=heard + 4.0, replaced_at=heard + 34.0, dark_at=heard + 4.0, lit_at=heard + 34.0),
    )
    assert "116 s before its deadline, b had no Ready replica for 30 s, " in str(account)


def test_replicas_that_end_stop_serving_before_they_are_gone_and_some_that_serve_elsewhere_are_no_darkness() -> None:
    policy = a_policy(a_model("b", 2, entitlement=6), pools=(a_pool(gpus=24),))
    story = Story(policy, a_snapshot(policy, {"b": 10}, {"b": {"concurrency": 40.0}}, {"b": 10.0}))
    story.plan()
    story.notice("a100-1", 120.0, karpenter=True)
    heard = story.snapshot.at
    story.write(story.plan())
    story.wait(3.0)
    story.evict("a100-1")
    (account,) = story.plan().accounts
    assert account.models == (GoingModel("b", stopped_at=heard + 3.0),)
    story.wait(5.0)
    story.kubernetes()
    story.lose("a100-1")
    story.snapshot = replace(story.snapshot, notices=())
    story.plan()
    story.wait(20.0)
    story.settle()
    (account,) = story.plan().accounts
    assert account.models[0].gap_seconds == 25.0
    assert "b had fewer Ready replicas for 25 s" in str(account)


def test_a_node_that_stays_ended_nobody() -> None:
    story = a_story()
    story.notice("a100-1", 120.0)
    story.plan()
    story.snapshot = replace(story.snapshot, notices=())
    story.wait(10.0)
    (account,) = story.plan().accounts
    assert (account.over_at, account.models[0].stopped_at) == (story.snapshot.at, None)
    story.wait(10.0)
    story.plan()
    (model,) = the_account(story).models
    assert (model.stopped_at, model.gap_seconds, model.gap) == (None, None, "")
