"""Rollouts that may hang: what their pods under notice get, and what nobody gives for pods that may never serve."""

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tests.builders import NOW, a_model, a_pod, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.story import Story, change_of, decision_of, moves, unmet_of


class TestRollout:
    def test_a_rollout_that_hangs_on_a_node_under_notice_asks_for_its_replacement(self) -> None:
        policy = a_policy(a_model("b", 2, entitlement=4), pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 40.0}}))
        story.target("b", rolling=True)
        story.notice("a100-1", karpenter=True)
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.kind, change.replicas_from, change.replicas_to) == ("replace", 4, 8)
        story.write(plan)
        story.kubernetes()
        assert moves(story.plan()) == {}  # just its replacement, however much it would like
        assert decision_of(story.plans[-1], "b").doomed == 4

    def a_full_pool(self, needed: float) -> Story:
        """Model b owns 8, serves on a node under notice in a rollout; a owns 4, serves with 8, needs `needed`."""
        policy = a_policy(a_model("a", entitlement=4), a_model("b", 2, entitlement=8), pools=(a_pool(gpus=16),))
        load = {"a": {"concurrency": 4.0 * needed}, "b": {"concurrency": 32.0}}
        story = Story(policy, a_snapshot(policy, {"b": 8, "a": 8}, load, {"a": needed, "b": 8.0}))
        story.target("b", rolling=True)
        story.notice("a100-2", karpenter=True)
        return story

    def test_nobody_gives_a_replica_that_it_needs_for_pods_that_may_never_serve(self) -> None:
        story = self.a_full_pool(needed=8.0)
        assert all("a" not in moves(plan) for plan in story.turns(3))
        shortage = unmet_of(story.plans[-1], "b")
        assert shortage is not None
        assert shortage.constraint == "rollout"

    def test_what_nobody_needs_is_given_for_them(self) -> None:
        story = self.a_full_pool(needed=0.1)
        plans = story.turns(5)  # its cooldown is 30 s
        assert {moves(plan)["a"] for plan in plans if "a" in moves(plan)} == {(8, 1)}

    @pytest.mark.parametrize(("rolling", "given"), [([], (6, 2)), (["a"], (6, 4))])
    def test_what_loads_in_a_rollout_is_no_replica_for_which_one_that_serves_is_given(
        self, rolling: list[str], given: tuple[int, int]
    ) -> None:
        # a owns 4: with 6 that serve and 2 that load in its other pool it has 4 more, and b lacks 4 of what it owns.
        models = (a_model("a", 1, pools=("a100", "h100"), entitlement=4), a_model("b", 1, entitlement=6))
        policy = a_policy(*models, pools=(a_pool(gpus=8), a_pool("h100", gpus=2)))
        load, work = {"a": {"concurrency": 20.0}, "b": {"concurrency": 24.0}}, {"a": 5.0, "b": 6.0}
        story = Story(policy, a_snapshot(policy, {"a": 6, "b": 2}, load, work))
        loading = tuple(a_pod(f"s{n}", "h100-1", phase="loading") for n in range(2))
        story.target("a", "h100", replicas=2, pods=loading, rolling="a" in rolling)
        assert moves(story.turn())["a"] == given

    @pytest.mark.parametrize(
        ("unproven", "loads_for_seconds", "given"),
        [(True, 600.0, {}), (True, 60.0, {"a": (7, 6)}), (UNSET, 600.0, {"a": (7, 6)})],
    )
    def test_nor_for_one_that_is_over_by_its_counts_since_its_old_pods_died_and_none_of_the_new_ever_served(
        self, *, unproven: bool | UnsetType, loads_for_seconds: float, given: dict[str, tuple[int, int]]
    ) -> None:
        # b starts within 120 s. After 60 s nobody can know; and pods of a template that has served may crash.
        policy = a_policy(a_model("a", 1), a_model("b", 2, entitlement=2), pools=(a_pool(gpus=8),))
        load = {"a": {"concurrency": 28.0}, "b": {"concurrency": 8.0}}
        story = Story(policy, a_snapshot(policy, {"a": 7, "b": 1}, load, {"a": 7.0, "b": 2.0}))
        since = NOW - loads_for_seconds
        loading = replace(story.of("b").pods[0], phase="loading", since=since, created_at=since)
        story.target("b", replicas=2, pods=(loading, a_pod("p", None, phase="pending")), unproven=unproven)
        assert moves(story.plan()) == given

    @pytest.mark.parametrize(("ready", "given"), [(True, (6, 2)), (False, (6, 4))])
    def test_what_loads_on_a_node_that_is_silent_is_no_replica_for_which_one_that_serves_is_given(
        self, *, ready: bool, given: tuple[int, int]
    ) -> None:
        # a owns 4: with 6 that serve and 2 in its other pool it has 4 more, and b lacks 4 of what it owns.
        models = (a_model("a", 1, pools=("a100", "h100"), entitlement=4), a_model("b", 1, entitlement=6))
        policy = a_policy(*models, pools=(a_pool(gpus=8), a_pool("h100", gpus=2)))
        load, work = {"a": {"concurrency": 20.0}, "b": {"concurrency": 24.0}}, {"a": 5.0, "b": 6.0}
        story = Story(policy, a_snapshot(policy, {"a": 6, "b": 2}, load, work))
        pods = tuple(a_pod(f"s{n}", "h100-1", phase="loading") for n in range(2))
        node = story.view("h100").nodes[0]
        story.pool("h100", nodes=(replace(node, ready=ready, ready_changed_at=story.snapshot.at),))
        story.target("a", "h100", replicas=2, pods=pods)
        assert moves(story.turn())["a"] == given

    @pytest.mark.parametrize(("ending", "given"), [(0, (6, 2)), (2, (6, 4))])
    def test_nor_is_one_given_for_what_waits_until_others_have_gone(self, ending: int, given: tuple[int, int]) -> None:
        # As above, but in the other pool the template that hung is mended: its pods end, new ones wait for their GPUs.
        models = (a_model("a", 1, pools=("a100", "h100"), entitlement=4), a_model("b", 1, entitlement=6))
        policy = a_policy(*models, pools=(a_pool(gpus=8), a_pool("h100", gpus=2)))
        load, work = {"a": {"concurrency": 20.0}, "b": {"concurrency": 24.0}}, {"a": 5.0, "b": 6.0}
        story = Story(policy, a_snapshot(policy, {"a": 6, "b": 2}, load, work))
        pods = [a_pod(f"e{n}", "h100-1", phase="terminating") for n in range(ending)]
        pods += [a_pod(f"s{n}", None, phase="pending") for n in range(2)]
        story.target("a", "h100", replicas=2, pods=tuple(pods))
        assert moves(story.turn())["a"] == given

    @pytest.mark.parametrize(("surging", "floor", "given"), [(0, 1, (6, 5)), (1, 1, None), (1, 2, (6, 5))])
    def test_nobody_gives_a_replica_for_one_that_would_wait_for_pods_which_a_rollout_asks_for(
        self, surging: int, floor: int, given: tuple[int, int] | None
    ) -> None:
        # 8 GPUs are full. Granting b one while c's rollout waits for one beside its own would promise 9. Below its
        # floor b does not wait for that: in a full pool the rollout would wait for ever.
        models = (a_model("a", 1, entitlement=5), a_model("b", floor, entitlement=2), a_model("c", 1, entitlement=1))
        policy = a_policy(*models, pools=(a_pool(gpus=8),))
        load = {"a": {"concurrency": 24.0}, "b": {"concurrency": 8.0}, "c": {"concurrency": 4.0}}
        story = Story(policy, a_snapshot(policy, {"a": 6, "b": 1, "c": 1}, load, {"a": 6.0, "b": 2.0, "c": 1.0}))
        pods = story.of("c").pods
        new = tuple(a_pod(f"new{n}", None, phase="pending") for n in range(surging))
        plans = []
        for _ in range(4):
            story.target("c", pods=(*pods, *new), rolling=True)
            plans.append(story.turn())
        assert next((moves(plan)["a"] for plan in plans if "a" in moves(plan)), None) == given
        if given is None:
            shortage = unmet_of(plans[-1], "b")
            assert shortage is not None
            assert "pods of rollouts ask for 1 GPU beside their replicas" in shortage.why
            story.target("c", pods=pods, rolling=False)
            assert moves(story.plan())["a"] == (6, 5)

    def test_pods_of_a_rollout_that_fit_on_no_node_keep_nobody_from_what_comes_free(self) -> None:
        # As above, but c's replicas hold 3 GPUs: its new pod waits for three on one node, and one comes free.
        models = (
            a_model("a", 1, entitlement=3),
            a_model("b", 1, entitlement=2),
            a_model("c", 1, entitlement=1, gpus_per_replica=3),
        )
        load = {"a": {"concurrency": 16.0}, "b": {"concurrency": 8.0}, "c": {"concurrency": 4.0}}
        policy = a_policy(*models, pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 4, "b": 1, "c": 1}, load, {"a": 4.0, "b": 2.0, "c": 1.0}))
        pods = (*story.of("c").pods, a_pod("new", None, phase="pending"))
        given = []
        for _ in range(4):
            story.target("c", pods=pods, rolling=True)
            given.append(moves(story.turn()))
        assert {"a": (4, 3)} in given
        assert {"b": (1, 2)} in given

    def test_without_free_gpus_a_node_is_asked_for_it(self) -> None:
        policy = a_policy(a_model("b", 2, pools=("spot",)), pools=(an_elastic_pool(gpus=32, gpus_per_node=8),))
        story = Story(policy, a_snapshot(policy, {"b": 8}, {"b": {"concurrency": 32.0}}, {"b": 8.0}, nodes={"spot": 1}))
        story.target("b", rolling=True)
        story.notice("spot-1", karpenter=True)
        change = change_of(story.plan(), "b")
        assert (change.kind, change.replicas_to - change.replicas_from) == ("replace", 8)
        assert change.grant is not None
