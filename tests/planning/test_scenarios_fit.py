"""Where a replica can land: whole replicas on one node, selectors and taints, pools in order of preference."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.cluster import Taint, Toleration
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.snapshot import PodView
from tests.builders import NOW, a_model, a_node, a_pod, a_policy, a_pool, a_snapshot, an_elastic_pool, an_override
from tests.planning.story import Story, change_of, moves, unmet_of

BUSY = {"concurrency": 1000.0}  # more than any pool here carries


class TestOneNode:
    """Nodes of 8 GPUs; `big` needs 4 on one of them."""

    def test_two_and_two_free_are_not_four(self) -> None:
        # 16 GPUs on two nodes, small holds 6 on each: 4 GPUs are free, 2 + 2.
        small = a_model("small", 12, entitlement=12)
        policy = a_policy(a_model("big", 0, gpus_per_replica=4, entitlement=1), small, pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"small": 12}, {"big": BUSY, "small": {"concurrency": 48.0}}))
        pods = [a_pod(f"small-{n}", f"a100-{1 + n // 6}") for n in range(12)]
        story.target("small", pods=tuple(pods))
        plan = story.plan()
        assert plan.empty
        unmet = unmet_of(plan, "big")
        assert unmet is not None
        assert unmet.constraint == "fit"
        assert unmet.why == (
            "a replica needs 4 GPUs on one node of pool a100: 2 on a100-1, 2 on a100-2; 4 of the "
            "16 GPUs in its budget are left"
        )

    @pytest.mark.parametrize("why", ["cordoned", "not Ready", "under notice until 2027-01-29 08:00"])
    def test_gpus_that_lie_idle_where_nothing_new_lands_are_named_with_the_reason(self, why: str) -> None:
        policy = a_policy(a_model("b", 2, entitlement=12), pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"b": 8}, {"b": {"concurrency": 48.0}}, {"b": 12.0}))
        if why.startswith("under notice"):
            seconds = 14 * 86400.0
            story.notice("a100-2", seconds, kind="scheduled-change", doomed_at=story.snapshot.at + seconds - 600.0)
        else:
            first, second = story.view("a100").nodes
            closed = {"schedulable": False} if why == "cordoned" else {"ready": False, "ready_changed_at": NOW}
            story.pool("a100", nodes=(first, replace(second, **closed)))
        unmet = unmet_of(story.plan(), "b")
        assert unmet is not None
        assert unmet.why == (
            f"a replica needs 1 GPU on one node of pool a100: none is free; 8 on a100-2, which is {why}; "
            "8 of the 16 GPUs in its budget are left"
        )

    def test_one_node_with_four_takes_it(self) -> None:
        small = a_model("small", 8, entitlement=8)
        policy = a_policy(a_model("big", 0, gpus_per_replica=4, entitlement=1), small, pools=(a_pool(gpus=12),))
        story = Story(policy, a_snapshot(policy, {"small": 8}, {"big": {"concurrency": 4.0}}))
        plan = story.plan()
        assert moves(plan) == {"big": (0, 1)}
        assert change_of(plan, "big").nodes == ("a100-2",)

    def test_the_tightest_node_that_fits_is_chosen_so_that_large_holes_stay_whole(self) -> None:
        # Free: 8 on a100-1, 3 on a100-2. One small replica goes where 3 are free.
        policy = a_policy(a_model("b", entitlement=8), pools=(a_pool(gpus=11),))
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 4.0}}))
        assert change_of(story.plan(), "b").nodes == ("a100-2",)

    def test_a_shift_frees_gpus_on_one_node_not_here_and_there(self) -> None:
        # a holds 6 + 6 on two nodes, 2 + 2 are free. big needs 4: two of a's must go from the same node.
        a = a_model("a", 0, entitlement=0)
        policy = a_policy(a, a_model("big", 0, gpus_per_replica=4, entitlement=1), pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"a": 12}, {"a": {"concurrency": 0.0}, "big": {"concurrency": 4.0}}))
        pods = [a_pod(f"a-{n:02}", f"a100-{1 + n % 2}") for n in range(12)]
        story.target("a", pods=tuple(pods))
        plan = story.plan()
        assert moves(plan) == {"a": (12, 10)}
        victims = {pod.node for pod in story.of("a").pods if pod.uid in change_of(plan, "a").victims}
        assert len(victims) == 1
        story.write(plan)
        story.settle()
        assert moves(story.plan())["big"] == (0, 1)

    def a_donor(self, *pods: PodView) -> Story:
        """`a` serves nobody and may give all; big needs 4 GPUs on one node of 8, a100-1 and a100-2 have 2 free each."""
        models = (a_model("a", 0, entitlement=0), a_model("big", 0, gpus_per_replica=4, entitlement=1))
        policy = a_policy(*models, pools=(a_pool(gpus=20),))
        readings = {"a": {"concurrency": 0.0}, "big": {"concurrency": 4.0}}
        story = Story(policy, a_snapshot(policy, {"a": len(pods)}, readings))
        story.target("a", pods=pods)
        return story

    def test_of_several_that_go_those_that_load_are_first(self) -> None:
        # Two from either node would do, but Kubernetes ends the loading one on a100-2 before any that serves.
        ready = [a_pod(f"a-{n:02}", f"a100-{1 + n % 2}") for n in range(11)]
        filler = [a_pod(f"a-f{n}", "a100-3") for n in range(4)]
        story = self.a_donor(*ready, a_pod("a-loading", "a100-2", phase="loading"), *filler)
        plan = story.plan()
        assert moves(plan) == {"a": (16, 14)}
        victims = {pod.name: pod.node for pod in story.of("a").pods if pod.uid in change_of(plan, "a").victims}
        assert "a-loading" in victims
        assert set(victims.values()) == {"a100-2"}
        story.write(plan)
        story.settle()
        assert moves(story.plan())["big"] == (0, 1)

    def test_those_that_load_elsewhere_go_with_them(self) -> None:
        # Room for big can be had on a100-1 and a100-2 only, from replicas that serve: three that load go before them.
        ready = [a_pod(f"a-{n:02}", f"a100-{1 + n % 2}") for n in range(12)]
        loading = [a_pod(f"a-l{n}", "a100-3", phase="loading") for n in range(3)]
        story = self.a_donor(*ready, *loading)
        story.pool(
            "a100",
            nodes=tuple(replace(one, gpus=3) if one.name == "a100-3" else one for one in story.view("a100").nodes),
        )
        plan = story.plan()
        assert moves(plan) == {"a": (15, 10)}
        victims = [pod for pod in story.of("a").pods if pod.uid in change_of(plan, "a").victims]
        assert {pod.uid for pod in victims} >= {pod.uid for pod in loading}
        assert len({pod.node for pod in victims if pod.phase == "ready"}) == 1
        story.write(plan)
        story.settle()
        assert moves(story.plan())["big"] == (0, 1)

    def test_one_large_victim_makes_room_for_several_small_replicas(self) -> None:
        # 4 free GPUs would be enough for b's 4, but they are big's: one of its replicas goes, not four.
        big = a_model("big", 0, gpus_per_replica=4, entitlement=0)
        policy = a_policy(big, a_model("b", entitlement=4), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"big": 2}, {"big": {"concurrency": 0.0}, "b": {"concurrency": 16.0}}))
        story.target("b", pods=(), replicas=0)
        assert moves(story.plan()) == {"big": (2, 1)}

    def test_terminating_pods_and_foreign_pods_hold_their_gpus(self) -> None:
        # 8 GPUs: 3 foreign, b's 2 and one of a's that terminates: 2 are free, though 3 are asked for.
        policy = a_policy(a_model("a", 0), a_model("b", entitlement=8), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 1, "b": 2}, {"b": {"concurrency": 20.0}}))
        story.pool("a100", nodes=(a_node("a100-1", 8, foreign_gpus=3, labels={"pool": "a100"}),))
        story.target("a", replicas=0, pods=(a_pod("a-0", "a100-1", phase="terminating"),))
        plan = story.plan()
        assert moves(plan) == {"b": (2, 4)}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "waiting"

    def test_raises_not_yet_seen_as_pods_hold_their_gpus(self) -> None:
        # a was asked for 6 and none is a pod yet: 2 of 8 are left for b.
        policy = a_policy(a_model("a", 6), a_model("b", 0, entitlement=2), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 12.0}}))
        story.target("a", replicas=6)
        assert moves(story.plan()) == {"b": (0, 2)}

    def test_pending_pods_hold_gpus_where_they_will_land(self) -> None:
        policy = a_policy(a_model("a", 6), a_model("b", 0, entitlement=2), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 12.0}}))
        pods = tuple(a_pod(f"a-{n}", None, phase="pending") for n in range(6))
        story.target("a", replicas=6, pods=pods)
        assert moves(story.plan()) == {"b": (0, 2)}


class TestNodesThatTakePods:
    def a_story(self, *nodes: NodeView) -> Story:
        policy = a_policy(a_model("b", 0, entitlement=8), pools=(a_pool(gpus=64),))
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 32.0}}))
        story.pool("a100", nodes=nodes)
        return story

    def test_a_cordoned_node_takes_none(self) -> None:
        story = self.a_story(a_node("n1", 2, labels={"pool": "a100"}), a_node("n2", 8, schedulable=False))
        assert moves(story.plan()) == {"b": (0, 2)}

    def test_a_node_that_is_not_ready_keeps_its_gpus_in_the_budget_for_a_while_and_receives_nothing(self) -> None:
        silent = a_node("n2", 8, ready=False, ready_changed_at=NOW - 10.0, labels={"pool": "a100"})
        story = self.a_story(a_node("n1", 2, labels={"pool": "a100"}), silent)
        plan = story.plan()
        assert moves(plan) == {"b": (0, 2)}
        assert plan.pools[0].budget == 10
        story.wait(290.0)  # 300 s since it went NotReady
        assert story.plan().pools[0].budget == 2

    def test_the_selector_must_match(self) -> None:
        story = self.a_story(a_node("n1", 8, labels={"pool": "a100", "zone": "a"}))
        story.target("b", node_selector={"pool": "a100", "zone": "b"})
        plan = story.plan()
        assert plan.empty
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "fit"

    def test_a_taint_must_be_tolerated(self) -> None:
        taint = Taint(key="team", value="chat", effect="NoSchedule")
        story = self.a_story(a_node("n1", 8, labels={"pool": "a100"}, taints=(taint,)))
        assert story.plan().empty
        story.target("b", tolerations=(Toleration(key="team", operator="Equal", value="chat"),))
        assert moves(story.plan()) == {"b": (0, 8)}

    def test_a_taint_that_only_prefers_otherwise_forbids_nothing(self) -> None:
        taint = Taint(key="team", value="chat", effect="PreferNoSchedule")
        story = self.a_story(a_node("n1", 8, labels={"pool": "a100"}, taints=(taint,)))
        assert moves(story.plan()) == {"b": (0, 8)}

    def test_a_doomed_node_takes_none(self) -> None:
        story = self.a_story(a_node("n1", 2, labels={"pool": "a100"}), a_node("n2", 8, labels={"pool": "a100"}))
        story.notice("n2")
        assert moves(story.plan()) == {"b": (0, 2)}


class TestPoolsInOrderOfPreference:
    """b may run on a100 (4 GPUs) and on spot (8 GPUs), in that order."""

    def a_story(self, held: dict[str, int], wanted: int) -> Story:
        b = a_model("b", pools=("a100", "spot"), entitlement=2)
        policy = a_policy(b, pools=(a_pool(gpus=4), an_elastic_pool(gpus=8, node_pools=())))
        load = {"b": {"concurrency": 4.0 * wanted}}
        story = Story(policy, a_snapshot(policy, {"b": held}, load, nodes={"spot": 1}))
        story.turn()  # borrowing waits one planning period
        return story

    def test_the_first_pool_is_filled_first(self) -> None:
        story = self.a_story({"a100": 2, "spot": 0}, 6)
        assert [(change.target.pool, change.replicas_to) for change in story.plan().changes] == [
            ("a100", 4),
            ("spot", 2),
        ]

    def test_the_second_serves_what_the_first_cannot(self) -> None:
        story = self.a_story({"a100": 4, "spot": 0}, 5)
        assert [(change.target.pool, change.replicas_to) for change in story.plan().changes] == [("spot", 1)]

    def test_a_pool_that_is_excluded_for_it_is_passed_over(self) -> None:
        story = self.a_story({"a100": 2, "spot": 0}, 4)
        story.override(an_override("exclude", "a100", subject_kind="pool", model="b"))
        assert [(change.target.pool, change.replicas_to) for change in story.plan().changes] == [("spot", 2)]

    def test_fewer_leave_the_last_pool_first(self) -> None:
        story = self.a_story({"a100": 2, "spot": 3}, 5)
        story.override(an_override("cap", "b", 3))
        assert [(change.target.pool, change.replicas_to) for change in story.plan().changes] == [("spot", 1)]
