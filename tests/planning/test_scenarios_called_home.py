"""An owner calls its own home from who borrows there, whose own are on their way on another pool.

Replicas hold 1 GPU and serve 4 requests. a owns 2 and may run on x, with 2 GPUs, and on y, with 3, where it has 2 that
serve; it was asked for 2 more on x. b owns 2 and runs on y alone, where it has one. Both are busy with 3.
"""

from msgspec.structs import replace

from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, moves, unmet_of


def an_owner_and_a_borrower(floor: int = 1) -> Story:
    a = a_model("a", 1, entitlement=2, max_replicas=4, pools=("x", "y"))
    b = a_model("b", floor, entitlement=2, max_replicas=4, pools=("y",))
    policy = a_policy(a, b, pools=(a_pool("x", 2), a_pool("y", 3)))
    busy = {name: {"concurrency": 12.0} for name in "ab"}
    story = Story(policy, a_snapshot(policy, {"a": {"x": 0, "y": 2}, "b": 1}, busy, {"a": 3.0, "b": 3.0}))
    story.target("a", "x", replicas=2)
    return story


class TestCalledHome:
    def test_what_serves_stays_while_what_replaces_it_is_only_asked_for(self) -> None:
        story = an_owner_and_a_borrower()
        for _ in range(3):  # its autoscaler has not looked yet
            plan = story.plan()
            assert moves(plan) == {}
            unmet = unmet_of(plan, "b")
            assert unmet is not None
            assert unmet.why.endswith("lends 1 GPU to a: a keeps what serves there until 2 pods of it on x are made")
            story.wait(5.0)

    def test_who_keeps_them_for_pods_without_a_node_is_named_with_the_pod_to_look_at(self) -> None:
        story = an_owner_and_a_borrower()
        (node,) = story.view("x").nodes
        story.pool("x", nodes=(replace(node, schedulable=False, cordoned=True),))
        story.kubernetes()
        story.wait(60.0)
        plan = story.plan()
        assert moves(plan) == {}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        first = story.of("a", "x").pods[0].name
        assert unmet.why.endswith(
            "lends 1 GPU to a: a keeps what serves there until 2 pods of it on x have a node: none since 08:00:00, and "
            f"kubectl --namespace {story.policy.models[0].namespace} describe pod {first} says why"
        )

    def test_one_goes_home_once_its_own_are_pods_with_room_though_they_load(self) -> None:
        story = an_owner_and_a_borrower()
        story.plan()
        story.kubernetes()
        assert [pod.phase for pod in story.of("a", "x").pods] == ["loading", "loading"]
        story.wait(10.0)
        assert moves(story.plan()) == {"a": (2, 1)}

    def test_nor_does_one_go_for_what_loads_on_a_node_that_is_silent_beside_what_is_only_asked_for(self) -> None:
        story = an_owner_and_a_borrower()
        story.target("a", "x", replicas=1)
        story.kubernetes()
        story.target("a", "x", replicas=2)
        (node,) = story.view("x").nodes
        story.pool(
            "x",
            nodes=(replace(node, gpus=1, ready=False, ready_changed_at=NOW - 10.0), replace(node, name="x-2", gpus=1)),
        )
        story.plan()
        assert moves(story.plan()) == {}

    def test_a_floor_does_not_wait_for_that(self) -> None:
        assert moves(an_owner_and_a_borrower(floor=2).plan()) == {"a": (2, 1)}
