"""Nobody marks who goes (`actuation.deletionCost` is off): a shift counts on room only where whoever goes makes it."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.snapshot import PodView
from rebalancer.planning.allocation.unmarked import UNMARKED
from tests.builders import a_model, a_node, a_pod, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, change_of, moves, unmet_of


class TestUnmarked:
    """`a` serves nobody and may give all; `big` needs GPUs on one node of 8, a100-1 or a100-2."""

    def a_story(self, *pods: PodView, gpus: int = 4, marks: bool = False, keeps: int = 0) -> Story:
        big = a_model("big", 0, gpus_per_replica=gpus, entitlement=1)
        policy = a_policy(a_model("a", keeps, entitlement=0), big, pools=(a_pool(gpus=16),))
        readings = {"a": {"concurrency": 0.0}, "big": {"concurrency": 4.0}}
        story = Story(policy, replace(a_snapshot(policy, {"a": len(pods)}, readings), marks_victims=marks))
        story.target("a", pods=pods)
        return story

    def victims(self, story: Story) -> set[str | None]:
        """The nodes of those of `a` that go, by the plan."""
        plan = story.plan()
        gone = change_of(plan, "a").victims
        return {pod.node for pod in story.of("a").pods if pod.uid in gone}

    def test_two_nodes_with_as_many_each_may_lose_one_each_and_make_no_room(self) -> None:
        # Each lacks the GPUs of two. Marked, two of one node go. Unmarked Kubernetes may take one of each: `big` got
        # nothing, and `a` its GPUs back. The third makes the room, whichever go.
        pods = [a_pod(f"a-{n:02}", f"a100-{1 + n % 2}") for n in range(12)]
        assert moves(self.a_story(*pods, marks=True).plan()) == {"a": (12, 10)}
        assert moves(self.a_story(*pods).plan()) == {"a": (12, 9)}

    def test_who_has_no_third_to_give_gives_none_and_it_is_said_why(self) -> None:
        pods = [a_pod(f"a-{n:02}", f"a100-{1 + n % 2}") for n in range(12)]
        assert moves(self.a_story(*pods, keeps=10, marks=True).plan()) == {"a": (12, 10)}
        plan = self.a_story(*pods, keeps=10).plan()
        assert plan.empty
        unmet = unmet_of(plan, "big")
        assert unmet is not None
        assert unmet.constraint == "fit"
        assert UNMARKED in unmet.why

    def test_the_node_with_most_of_them_loses_its_own_first(self) -> None:
        pods = [a_pod(f"a-{n:02}", "a100-1" if n < 7 else "a100-2") for n in range(12)]
        story = self.a_story(*pods)
        assert moves(story.plan()) == {"a": (12, 9)}  # 1 is free there, 3 on the other node
        assert self.victims(self.a_story(*pods)) == {"a100-1"}

    def test_one_that_makes_room_wherever_it_is_goes(self) -> None:
        pods = [a_pod(f"a-{n:02}", f"a100-{1 + n % 2}") for n in range(16)]
        assert moves(self.a_story(*pods, gpus=1).plan()) == {"a": (16, 15)}

    def test_two_donors_give_together_where_neither_has_enough_to_make_the_room_alone(self) -> None:
        # Of a's two each node may lose one: both then lack one GPU more, and d's makes the room beside either of them.
        policy = a_policy(
            *(a_model(name, floor, entitlement=0) for name, floor in (("a", 2), ("d", 1), ("z", 10))),
            a_model("big", 0, gpus_per_replica=2, entitlement=1),
            pools=(a_pool(gpus=16),),
        )
        on_nodes = {"a": (1, 1, 2, 2), "d": (2, 2), "z": (1,) * 6 + (2,) * 4}
        readings = {name: {"concurrency": 0.0} for name in on_nodes} | {"big": {"concurrency": 4.0}}
        held = {name: len(nodes) for name, nodes in on_nodes.items()}
        story = Story(policy, replace(a_snapshot(policy, held, readings), marks_victims=False))
        for name, nodes in on_nodes.items():
            story.target(name, pods=[a_pod(f"{name}-{n:02}", f"a100-{node}") for n, node in enumerate(nodes)])
        assert moves(story.plan()) == {"a": (4, 2), "d": (2, 1)}

    def test_no_more_go_for_one_replica_than_twice_its_gpus(self) -> None:
        # Each of 32 has one replica on each of two nodes: by whichever go nearly all would have to, for one of 8 GPUs.
        models = [a_model(f"d{n:02}", 0, entitlement=0) for n in range(32)]
        big = a_model("big", 0, gpus_per_replica=8, entitlement=1)
        policy = a_policy(*models, big, pools=(a_pool(gpus=64),))
        readings = {model.id: {"concurrency": 8.0} for model in models} | {"big": {"concurrency": 4.0}}
        held = {model.id: 2 for model in models}
        story = Story(policy, replace(a_snapshot(policy, held, readings), marks_victims=False))
        for n, model in enumerate(models):
            story.target(model.id, pods=[a_pod(f"{model.id}-{k}", f"a100-{1 + (2 * n + k) % 8}") for k in range(2)])
        assert moves(story.plan()) == {}


class TestWaiting:
    """`a` serves on the only two GPUs, each on a node of its own, and asks for four more that fit nowhere."""

    def a_story(self, *, marks: bool, gpus: int = 1) -> Story:
        floored = a_model("b", 1, gpus_per_replica=gpus, entitlement=1)
        policy = a_policy(a_model("a", 1, entitlement=4), floored, pools=(a_pool(gpus=8),))
        snapshot = a_snapshot(policy, {"a": 6, "b": 1}, {"a": {"concurrency": 24.0}}, {"a": 6.0})
        story = Story(policy, replace(snapshot, marks_victims=marks))
        nodes = [a_node(f"a100-{n}", 1, labels={"pool": "a100"}) for n in (1, 2)]
        story.pool("a100", nodes=tuple(nodes))
        waiting = [a_pod(f"a-{n}", None, phase="pending") for n in range(3, 7)]
        story.target("a", pods=(a_pod("a-1", "a100-1"), a_pod("a-2", "a100-2"), *waiting))
        story.target("b", pods=(a_pod("b-1", None, phase="pending"),))
        story.load("b")
        return story

    @pytest.mark.parametrize("marks", [True, False])
    def test_a_floor_gets_one_that_serves_though_kubernetes_ends_all_that_wait_before_it(self, *, marks: bool) -> None:
        assert moves(self.a_story(marks=marks).plan()) == {"a": (6, 1)}

    @pytest.mark.parametrize("marks", [True, False])
    def test_none_that_serves_goes_where_no_room_comes_of_it(self, *, marks: bool) -> None:
        assert moves(self.a_story(marks=marks, gpus=2).plan()) == {"a": (6, 2)}
