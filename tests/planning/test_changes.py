"""What a plan writes: one number per target, decreases first, and nothing while writes are stopped."""

from msgspec.structs import replace

from tests.builders import a_model, a_policy, a_pool, a_snapshot, a_write_stop
from tests.planning.story import Story, decision_of

HUNGRY = {"concurrency": 32.0}


def an_owner_that_comes_home(*, free: int) -> Story:
    """Model a borrows 8 GPUs of b, which owns them and wants them back; so many besides are free."""
    policy = a_policy(a_model("b", 0, entitlement=8), a_model("a", 0, entitlement=0), pools=(a_pool(gpus=8 + free),))
    return Story(policy, a_snapshot(policy, {"a": 8}, {"a": {"concurrency": 0.0}, "b": HUNGRY}))


def test_decreases_stand_before_raises_whatever_the_order_of_models() -> None:
    plan = an_owner_that_comes_home(free=2).plan()
    assert [(change.model, change.kind) for change in plan.changes] == [("a", "release"), ("b", "grant")]
    first, second = plan.changes
    assert first.replicas_to < first.replicas_from
    assert second.replicas_from < second.replicas_to


def test_what_several_things_take_of_one_target_is_one_change_with_all_of_them_as_its_reason() -> None:
    story = an_owner_that_comes_home(free=0)
    (pool,) = story.policy.pools
    story.policy = story.policy.model_copy(update={"pools": (pool.model_copy(update={"gpu_limit": 6}),)})
    plan = story.plan()
    (change,) = plan.changes
    assert (change.model, change.kind) == ("a", "release")
    assert len(change.victims) == change.replicas_from - change.replicas_to
    assert decision_of(plan, "a").granted == change.replicas_to


def test_while_writes_are_stopped_each_model_is_told_to_have_what_it_has() -> None:
    story = an_owner_that_comes_home(free=2)
    story.snapshot = replace(story.snapshot, write_stop=a_write_stop())
    plan = story.plan()
    assert plan.changes == ()
    assert [decision_of(plan, name).granted for name in ("a", "b")] == [8, 0]


def test_a_doomed_replica_is_replaced_in_the_same_number_in_which_others_come() -> None:
    policy = a_policy(a_model("b", 0, entitlement=16), pools=(a_pool(gpus=16),))
    story = Story(policy, a_snapshot(policy, {"b": 2}, {"b": HUNGRY}))
    story.notice("a100-1")
    (change,) = story.plan().changes
    assert change.kind == "replace"
    assert change.replicas_to - change.replicas_from > len(change.replaces) == 2
