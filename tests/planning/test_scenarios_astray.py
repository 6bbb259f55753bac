"""A small raise does not take the GPUs that a large pod waits for on another node."""

from rebalancer.domain.snapshot import PodView
from tests.builders import a_model, a_pod, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, moves, unmet_of

SMALL_PODS = {"a100-1": 5, "a100-2": 0}  # of 8 and 2 GPUs


def a_story(floor: int = 0, second_gpus: int = 2, big: PodView | None = None) -> Story:
    """Owner `big` waits for 4 GPUs, which only a100-1 can have; `small`, which owns nothing, has 5 there and wants 8.

    On a100-1 3 GPUs are free, on a100-2 as many as `second_gpus`. `floor`: of small.
    """
    small = a_model("small", floor, entitlement=0, priority=50, max_replicas=8)
    owner = a_model("big", 0, gpus_per_replica=4, entitlement=1, max_replicas=1, priority=2)
    policy = a_policy(owner, small, pools=(a_pool(gpus=8 + second_gpus),))
    readings = {"big": {"concurrency": 1.0}, "small": {"concurrency": 32.0}}
    story = Story(policy, a_snapshot(policy, {"small": 5, "big": 1}, readings))
    story.target("small", pods=tuple(a_pod(f"small-{n}", "a100-1") for n in range(5)))
    story.target("big", pods=(big or a_pod("big-0", None, phase="pending"),))
    return story


class TestAstray:
    """A raise may land on another node: the scheduler knows nothing of the seat that it was given."""

    def test_it_waits_while_room_is_being_made_for_a_large_pod(self) -> None:
        story = a_story()
        plan = story.plan()
        assert moves(plan) == {"small": (5, 4)}
        story.write(plan)
        story.kubernetes()  # the fifth is on its way out; nothing else has moved
        story.wait(1.0)
        plan = story.plan()
        assert moves(plan) == {}
        unmet = unmet_of(plan, "small")
        assert unmet is not None
        assert unmet.constraint == "waiting"
        assert "it waits for big to take its GPUs on a100-1, where the scheduler could put this replica" in unmet.why

    def test_it_comes_as_soon_as_the_large_pod_is_bound(self) -> None:
        story = a_story()
        story.turns(2)
        assert [pod.node for pod in story.of("big").pods] == ["a100-1"]
        story.turns(2)
        assert story.replicas("small") == 6
        assert story.plan().empty

    def test_a_third_model_waits_too_in_the_plan_that_makes_the_room(self) -> None:
        story = a_story()
        policy = story.policy
        third = a_model("third", 0, entitlement=1, max_replicas=1, priority=1)
        policy = a_policy(*policy.models, third, pools=policy.pools)
        both = {"big": {"concurrency": 1.0}, "small": {"concurrency": 32.0}, "third": {"concurrency": 3.0}}
        snapshot = a_snapshot(policy, {"small": 5, "big": 1}, both)
        changed = Story(policy, snapshot)
        for name in ("small", "big"):
            changed.target(name, pods=story.of(name).pods)
        plan = changed.plan()
        assert moves(plan) == {"small": (5, 4)}, "big is before third, whose one GPU could be on a100-1"

    def test_nobodys_floor_waits_for_that(self) -> None:
        story = a_story(floor=6)
        assert moves(story.plan())["small"] == (5, 6)

    def test_nor_does_who_could_change_places_with_it(self) -> None:
        # On a100-2 are 4 GPUs, enough for big, if small lands on a100-1.
        story = a_story(second_gpus=4)
        assert moves(story.plan()) == {}  # whoever borrows waits 10 s
        story.wait(10.0)
        assert moves(story.plan())["small"] == (5, 8)
