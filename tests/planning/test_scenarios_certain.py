"""A release is owed only to what is certain: capacity that seems to be gone, numbers that others wrote, what sleeps."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.snapshot import AutoscalerView
from tests.builders import (
    NOW,
    Replicas,
    a_model,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_snapshot,
    an_autoscaler,
    an_override,
)
from tests.planning.story import Story, change_of, moves, refusal_of, refused, unmet_of

LABELS = {"pool": "a100"}
PENDING = tuple(a_pod(f"p{n}", None, phase="pending") for n in range(4))


def node(name: str, gpus: int, **overrides: object) -> NodeView:
    return a_node(name, gpus, labels=LABELS, **overrides)


def two_nodes(held: int = 16, floor: int = 1) -> Story:
    """16 GPUs on two nodes, `b` holds `held` of them and needs them all."""
    policy = a_policy(a_model("a", 0), a_model("b", floor, entitlement=16), pools=(a_pool(gpus=16),))
    load = {"b": {"concurrency": 4.0 * held}}
    story = Story(policy, a_snapshot(policy, {"b": held}, load, {"b": float(held)}))
    story.plan()
    return story


def shows(story: Story, *gpus: int) -> None:
    """The nodes a100-1, a100-2, ... say from now on that so many GPUs are allocatable."""
    nodes = [node(f"a100-{n}", count, fell_at=story.snapshot.at) for n, count in enumerate(gpus, 1)]
    story.pool("a100", nodes=tuple(nodes))


class TestAllocatable:
    def test_a_device_plugin_that_restarts_under_serving_pods_obliges_nobody(self) -> None:
        story = two_nodes()
        shows(story, 8, 0)
        plans = story.turns(60)  # ten minutes: the figure has long stood, the pods serve
        assert all(moves(plan) == {} for plan in plans)
        assert plans[-1].pools[0].budget == 16

    def test_fewer_devices_than_pods_hold_oblige_nobody(self) -> None:
        # Was: 16 GPUs become 13 under 16 held, and three replicas that serve went.
        story = two_nodes()
        shows(story, 8, 5)
        assert all(moves(plan) == {} for plan in story.turns(60))

    def test_pods_that_serve_on_a_node_that_no_pool_shows_oblige_nobody(self) -> None:
        """Its Node cannot be read, or lost the pool's labels: the GPUs are there, or the pods would not serve."""
        story = two_nodes(held=8)  # all on a100-1
        story.pool("a100", nodes=(node("a100-2", 4),))
        assert all(moves(plan) == {} for plan in story.turns(60))
        pods = [replace(pod, phase="lost") for pod in story.of("b").pods]
        story.target("b", pods=tuple(pods))
        assert moves(story.plan()) != {}

    def test_no_new_grant_lands_on_a_node_whose_figure_fell(self) -> None:
        story = two_nodes(held=12)  # 8 on a100-1, 4 on a100-2
        shows(story, 8, 3)
        story.load("b", {"concurrency": 64.0}, work=16.0)
        story.turns(3)
        assert story.replicas("b") == 12
        shows(story, 8, 8)
        story.turn()
        assert story.replicas("b") == 16

    def test_replicas_on_their_way_to_a_figure_that_fell_go_back_only_when_it_has_stood(self) -> None:
        story = two_nodes(held=12)
        story.target(
            "b", replicas=16, pods=(*story.of("b").pods, *(a_pod(f"p{n}", None, phase="pending") for n in "1234"))
        )
        shows(story, 8, 4)
        assert moves(story.plan()) == {}
        story.wait(290.0)
        assert moves(story.plan()) == {}
        story.wait(10.0)
        assert moves(story.plan()) == {"b": (16, 12)}

    def test_what_was_not_watched_for_long_enough_obliges_nobody_either(self) -> None:
        # As after a restart of ours: nobody knows whether the figure has just fallen.
        story = two_nodes(held=12)
        story.target(
            "b", replicas=16, pods=(*story.of("b").pods, *(a_pod(f"p{n}", None, phase="pending") for n in "1234"))
        )
        story.pool("a100", nodes=(node("a100-1", 8), node("a100-2", 4)))
        story.snapshot = replace(story.snapshot, sync=replace(story.snapshot.sync, synced_at=NOW))
        assert moves(story.plan()) == {}
        story.wait(300.0)
        assert moves(story.plan()) == {"b": (16, 12)}

    def test_who_waits_for_a_gpu_gives_way_itself_and_takes_nobody_with_it(self) -> None:
        # c was scaled to 0 and back to 2 by hand on a node of 8 that offers 3 by now: its old GPUs are not to be had,
        # and each replica of b that went for them would take another GPU out of the budget.
        policy = a_policy(a_model("b", 1, entitlement=6), a_model("c", 1, entitlement=2), pools=(a_pool(gpus=8),))
        load = {"b": {"concurrency": 24.0}, "c": {"concurrency": 8.0}}
        story = Story(policy, a_snapshot(policy, {"b": 6, "c": 2}, load, {"b": 6.0, "c": 2.0}))
        story.target("c", pods=PENDING[:2])
        shows(story, 3)
        plans = story.turns(60)
        assert all("b" not in moves(plan) and refused(plan) == set() for plan in plans)
        assert story.replicas("c") == 1

    def test_a_floor_that_waits_for_a_gpu_is_met_by_what_others_borrow_though_more_is_promised_than_there_is(
        self,
    ) -> None:
        # b was made anew with three replicas while a node shrank to one GPU; nobody sees b, and a borrows one GPU.
        policy = a_policy(a_model("a", 1, entitlement=4), a_model("b", 1), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 5, "b": 3}, {"a": {"concurrency": 20.0}}, {"a": 5.0}))
        pods = [a_pod(f"a-{n}", "a100-1" if n < 4 else "a100-2") for n in range(5)]
        story.target("a", pods=tuple(pods))
        story.target("b", pods=PENDING[:3])
        story.pool("a100", nodes=(node("a100-1", 4), node("a100-2", 1)))
        story.load("b")
        assert moves(story.plan()) == {"a": (5, 4)}

    @pytest.mark.parametrize("waiting", [2, 4])
    def test_so_is_one_whose_model_asks_for_its_most_or_more_and_nothing_more_is_asked(self, waiting: int) -> None:
        # b's autoscaler was sent up to its most, or beyond, by hand: all of it waits beside what a has.
        models = a_model("a", 1, entitlement=4), a_model("b", 1, entitlement=1, max_replicas=2, pools=("a100", "h100"))
        policy = a_policy(*models, pools=(a_pool(gpus=8), a_pool("h100", gpus=8)))
        held: dict[str, Replicas] = {"a": 8, "b": {"a100": waiting, "h100": 0}}
        story = Story(policy, a_snapshot(policy, held, {"a": {"concurrency": 32.0}}, {"a": 8.0}))
        story.target("b", "a100", pods=PENDING[:waiting])
        story.load("b")
        assert moves(story.plan())["a"] == (8, 7)
        assert "b" not in moves(story.plan())

    @pytest.mark.parametrize(("needed", "left"), [(0, 3), (8, 8)])
    def test_room_for_a_floor_is_made_on_a_node_that_offers_fewer_devices_only_by_what_nobody_needs(
        self, needed: int, left: int
    ) -> None:
        # For c's floor five of b's eight replicas have to go; never on the word of a figure that has just fallen.
        policy = a_policy(a_model("b", 0, entitlement=0), a_model("c", 1, entitlement=1), pools=(a_pool(gpus=8),))
        load = {"b": {"concurrency": 4.0 * needed}, "c": {"concurrency": 4.0}}
        story = Story(policy, a_snapshot(policy, {"b": 8, "c": 0}, load, {"b": float(needed)}))
        shows(story, 4)
        story.turns(29)  # 290 s
        assert story.replicas("b") == 8
        story.turns(31)
        assert story.replicas("b") == left

    def test_a_floor_that_several_would_have_to_go_for_is_told_how_many_and_a_cap_meets_it(self) -> None:
        # Of 8 GPUs 5 are offered for good, a and c hold 7 and need them; b waits, and nobody gives three for one.
        models = [a_model(name, 1, entitlement=own) for name, own in (("a", 3), ("b", 1), ("c", 3))]
        policy = a_policy(*models, pools=(a_pool(gpus=8),))
        load = {"a": {"concurrency": 12.0}, "c": {"concurrency": 16.0}, "b": {"concurrency": 4.0}}
        story = Story(policy, a_snapshot(policy, {"a": 3, "c": 4, "b": 1}, load, {"a": 3.0, "c": 4.0, "b": 1.0}))
        story.target("b", pods=PENDING[:1])
        shows(story, 5)
        assert all(moves(plan) == {} for plan in story.turns(40))
        unmet = unmet_of(story.plan(), "b")
        assert unmet is not None
        assert (
            "a100-1 offers 5 GPUs and pods hold 7, so 3 of these have to be freed for one replica; no mo" in unmet.why
        )
        story.override(an_override("cap", "c", 2))
        assert [moves(plan) for plan in story.turns(10) if moves(plan)] == [{"c": (4, 2)}, {"a": (3, 2)}]

    def test_pods_in_a_pool_that_offers_no_gpu_at_all_make_its_budget_unknown(self) -> None:
        story = two_nodes()
        shows(story, 0, 0)
        story.load("b", {"concurrency": 4.0}, work=1.0)
        plan = story.turns(60)[-1]
        assert moves(plan) == {}
        assert plan.pools[0].budget is None
        shortage = unmet_of(plan, "b")
        assert shortage is None or "2 nodes of pool a100 offer no nvidia.com/gpu while pods run there" in shortage.why

    def test_guard_empty_says_which_it_is(self) -> None:
        policy = a_policy(a_model("b", 1), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 4.0}}))
        story.pool("a100", nodes=(node("a100-1", 0),))
        story.notice("a100-1", karpenter=True)
        refusal = refusal_of(story.plan(), "empty", "b")
        assert refusal.why.startswith(
            "1 nodes of pool a100 offer no nvidia.com/gpu while pods run there: a device plugin"
        )


class TestDead:
    def test_pods_that_hang_on_a_node_out_of_the_budget_are_out_of_what_is_promised(self) -> None:
        # Eight pods of b hang in Terminating on a node that has not been Ready for six minutes; a needs two of the
        # eight GPUs that are left.
        policy = a_policy(a_model("a", 0, entitlement=4), a_model("b", 0, entitlement=8), pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"a": 1, "b": 4}, {"a": {"concurrency": 12.0}}))
        hanging = tuple(a_pod(f"hangs-{n}", "a100-2", phase="terminating") for n in range(8))
        story.target("b", pods=(*story.of("b").pods, *hanging))
        story.pool("a100", nodes=(node("a100-1", 8), node("a100-2", 8, ready=False, ready_changed_at=NOW - 360.0)))
        plan = story.plan()
        assert moves(plan) == {"a": (1, 3)}
        assert plan.pools[0].budget == 8


def taken_over(minimum: int, maximum: int, **overrides: object) -> AutoscalerView:
    return an_autoscaler(minimum, maximum, originals=Originals(1, 10), **overrides)


class TestOthers:
    def a_story(self, owner: AutoscalerView) -> Story:
        """24 GPUs: `theirs` runs 3 by an autoscaler of ours, `x` and `y` need 5 of their 6 each, 9 are idle."""
        models = (a_model("theirs", 1, entitlement=3), a_model("x", 1, entitlement=1), a_model("y", 1, entitlement=1))
        policy = a_policy(*models, pools=(a_pool(gpus=24),))
        load = {"theirs": {"concurrency": 12.0}, "x": {"concurrency": 20.0}, "y": {"concurrency": 20.0}}
        work = {"theirs": 3.0, "x": 5.0, "y": 5.0}
        story = Story(policy, a_snapshot(policy, {"theirs": 3, "x": 6, "y": 6}, load, work))
        story.target("theirs", autoscaler=owner, by_others=True)
        story.plan()
        return story

    def test_a_maximum_that_somebody_else_wrote_is_not_so_many_replicas(self) -> None:
        plan = self.a_story(taken_over(3, 100)).plan()
        assert {model: to for model, (_, to) in moves(plan).items() if model != "theirs"} == {}
        assert plan.pools[0].promised == 15
        assert change_of(plan, "theirs").kind == "bounds"  # taken back to what runs

    @pytest.mark.parametrize("other", ["", "search/rebalancer"])
    def test_where_another_autoscaler_goes_for_certain_is_promised_and_nobody_else_is_given_it(
        self, other: str
    ) -> None:
        # 9 are idle, and within 15 s theirs takes them: it has a minimum of 12, by whoever wrote it.
        story = self.a_story(an_autoscaler(12, 20, other=other))
        assert story.plan().pools[0].promised == 24
        story.load("x", {"concurrency": 40.0}, work=10.0)
        assert all(moves(plan) == {} for plan in story.turns(3))

    @pytest.mark.parametrize("why", ["paused by us", "by somebody else"])
    def test_what_others_wish_for_may_block_raises_and_obliges_no_release(self, why: str) -> None:
        # 20 pods of theirs wait for GPUs: all that is idle is theirs, and nobody else gives anything for it.
        story = self.a_story(taken_over(3, 100, paused=why != "paused by us"))
        waiting = tuple(a_pod(f"w{n}", None, phase="pending") for n in range(20))
        story.target("theirs", replicas=23, pods=(*story.of("theirs").pods, *waiting))
        if why == "paused by us":
            story.override(an_override("pause", "theirs"))
        plans = story.turns(3)
        assert {model for plan in plans for model in moves(plan)} == set()
        story.load("x", {"concurrency": 40.0}, work=10.0)
        assert all("x" not in moves(plan) for plan in story.turns(3))

    def test_nor_does_who_waits_beside_them_give_way_while_there_is_room(self) -> None:
        # Theirs land nowhere; two of x that were asked for a moment ago do.
        story = self.a_story(taken_over(3, 100, paused=True))
        waiting = tuple(a_pod(f"w{n}", None, phase="pending") for n in range(20))
        theirs = {"replicas": 23, "pods": (*story.of("theirs").pods, *waiting), "node_selector": {"no": "such-node"}}
        story.target("theirs", None, **theirs)
        mine = tuple(a_pod(f"x{n}", None, phase="pending") for n in range(2))
        story.target("x", replicas=8, pods=(*story.of("x").pods, *mine))
        assert "x" not in moves(story.plan())

    @pytest.mark.parametrize(
        ("spare", "floor", "need", "left"), [(1, 1, 1, 2), (1, 2, 2, 1), (0, 1, 1, 2), (0, 0, 1, 2)]
    )
    def test_what_waits_of_a_number_that_others_raised_keeps_idle_gpus_from_nobody_who_is_short(
        self, spare: int, floor: int, need: int, left: int
    ) -> None:
        # Nodes of 4 GPUs and of 1: theirs serves with two replicas of two GPUs each, five more wait since somebody
        # asked for seven, and fit nowhere. x has none of what it needs: one fits on the idle GPU, which five that wait
        # are promised, and only a second one in place of theirs. Where theirs has none to spare, its number is taken
        # back: also for a need beyond floors.
        theirs = a_model("theirs", 2 - spare, entitlement=2 + spare, gpus_per_replica=2)
        policy = a_policy(theirs, a_model("x", floor, entitlement=2), pools=(a_pool(gpus=5),))
        load = {"theirs": {"concurrency": 30.0}, "x": {"concurrency": 4.0 * need}}
        story = Story(policy, a_snapshot(policy, {"theirs": 2, "x": 0}, load, {"theirs": 7.0, "x": float(need)}))
        story.pool("a100", nodes=(node("a100-1", 4), node("a100-2", 1)))
        waiting = tuple(a_pod(f"w{n}", None, phase="pending") for n in range(5))
        pods = (*(replace(pod, node="a100-1") for pod in story.of("theirs").pods), *waiting)
        story.target("theirs", None, replicas=7, autoscaler=taken_over(7, 7), by_others=True, gpus_per_pod=2, pods=pods)
        assert [moves(plan) for plan in story.turns(3) if moves(plan)][:1] == [{"theirs": (7, left)}]
        story.turns(60)
        assert (story.of("theirs").replicas, story.of("x").replicas) == (left, need)


class TestGpus:
    def a_story(self, **target: object) -> Story:
        policy = a_policy(a_model("a", 0), a_model("b", 1, entitlement=6), pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 24.0}}))
        story.target("b", None, **target)
        story.plan()
        return story

    @pytest.mark.parametrize(
        ("template", "running", "counted"), [(2, 1, 2), (1, 2, 2), (1, 4, 4), (0, None, 1), (2, None, 2)]
    )
    def test_the_largest_number_counts_and_a_difference_is_refused(
        self, template: int, running: int | None, counted: int
    ) -> None:
        story = self.a_story(gpus_per_pod=template, running_gpus=running)
        plan = story.plan()
        assert moves(plan) == {}
        assert plan.pools[0].promised == 4 * counted
        refusal = refusal_of(plan, "gpus", "b")
        assert refusal.numbers == {"policy": 1, "template": template, "pods": running, "counted": counted}
        assert f"1 GPU per pod in the policy, {template} in the template of b" in refusal.why
        shortage = unmet_of(plan, "b")
        assert shortage is not None
        assert (shortage.constraint, shortage.why) == ("gpus", refusal.why)

    def test_what_is_uncertain_obliges_nobody(self) -> None:
        # Eight GPUs: theirs ran with two a pod and is in a rollout to one; by the larger figure twelve are held.
        theirs, own = a_model("theirs", 1, entitlement=1), a_model("own", 1, entitlement=4)
        policy = a_policy(theirs, own, pools=(a_pool(gpus=8),))
        load = {"theirs": {"concurrency": 16.0}, "own": {"concurrency": 16.0}}
        story = Story(policy, a_snapshot(policy, {"theirs": 4, "own": 4}, load, {"theirs": 4.0, "own": 4.0}))
        story.target("theirs", gpus_per_pod=1, running_gpus=2, rolling=True)
        assert all(moves(plan) == {} for plan in story.turns(60))

    def test_a_node_has_no_more_than_its_pods_hold_now_where_they_will_hold_more(self) -> None:
        # theirs runs with one GPU a pod and is in a rollout to two: its node of four has no eight for that.
        policy = a_policy(
            a_model("theirs", 1, entitlement=4), a_model("own", 1, entitlement=4), pools=(a_pool(gpus=16),)
        )
        load = {"theirs": {"concurrency": 16.0}, "own": {"concurrency": 16.0}}
        story = Story(policy, a_snapshot(policy, {"theirs": 4, "own": 3}, load, {"theirs": 4.0, "own": 4.0}))
        story.pool("a100", nodes=(node("n1", 4), node("n2", 4)))
        for name, on in (("theirs", "n1"), ("own", "n2")):
            story.target(name, pods=tuple(replace(pod, node=on) for pod in story.of(name).pods))
        story.target("theirs", gpus_per_pod=2, running_gpus=1, rolling=True)
        plan = story.plan()
        assert (plan.pools[0].budget, plan.pools[0].promised) == (8, 11)
        assert moves(plan) == {}

    def test_where_all_agree_nothing_is_refused(self) -> None:
        story = self.a_story(gpus_per_pod=1, running_gpus=1)
        plan = story.plan()
        assert refused(plan) == set()
        assert moves(plan) == {"b": (4, 6)}


class TestAsleep:
    """Autoscalers that do nothing at the replicas there are: bounds reach nobody, and nothing is kept for them."""

    def a_story(self, owner: AutoscalerView, need: float = 0.0) -> Story:
        """`b` sleeps at 0 replicas though its maximum is 6; `a` needs all 8 GPUs."""
        policy = a_policy(a_model("a", 1, entitlement=2), a_model("b", 0, entitlement=6), pools=(a_pool(gpus=8),))
        load = {"a": {"concurrency": 32.0}, "b": {"concurrency": need}}
        story = Story(policy, a_snapshot(policy, {"a": 2, "b": 0}, load, {"a": 8.0}))
        story.target("b", autoscaler=owner)
        story.plan()
        story.wait(10.0)
        return story

    @pytest.mark.parametrize(
        "owner",
        [
            taken_over(1, 6, idle=0),
            taken_over(0, 6),
            taken_over(1, 6, kind="HorizontalPodAutoscaler"),
            taken_over(6, 6, paused=True),
        ],
    )
    def test_nothing_is_reserved_for_it(self, owner: AutoscalerView) -> None:
        story = self.a_story(owner)
        story.turns(3)
        assert story.replicas("a") == 8

    def test_a_need_that_bounds_cannot_reach_is_told_with_the_way_out(self) -> None:
        story = self.a_story(taken_over(1, 6, kind="HorizontalPodAutoscaler"), need=8.0)
        plan = story.plan()
        assert "b" not in moves(plan)
        shortage = unmet_of(plan, "b")
        assert shortage is not None
        assert shortage.constraint == "idle"
        assert shortage.why.endswith("is disabled while b has 0 replicas; scale it to 1 by hand")

    def test_an_hpa_that_may_scale_to_zero_is_said_to_wake_by_its_own_metric(self) -> None:
        story = self.a_story(taken_over(0, 6, kind="HorizontalPodAutoscaler"), need=8.0)
        shortage = unmet_of(story.plan(), "b")
        assert shortage is not None
        assert (shortage.constraint, "by its own metric" in shortage.why) == ("idle", True)

    def test_an_hpa_that_took_its_target_to_zero_itself_wakes_by_its_minimum(self) -> None:
        story = self.a_story(taken_over(0, 1, kind="HorizontalPodAutoscaler", wakes=True), need=8.0)
        change = change_of(story.plan(), "b")
        assert (change.replicas_to, change.minimum) == (2, 2)

    def test_an_hpa_that_says_it_is_disabled_is_believed_whatever_its_minimum_is(self) -> None:
        story = self.a_story(taken_over(0, 6, kind="HorizontalPodAutoscaler", wakes=False), need=8.0)
        shortage = unmet_of(story.plan(), "b")
        assert shortage is not None
        assert (shortage.constraint, shortage.why.endswith("scale it to 1 by hand")) == ("idle", True)

    def test_a_scaled_object_at_zero_wakes_by_its_minimum(self) -> None:
        story = self.a_story(taken_over(0, 1), need=8.0)
        change = change_of(story.plan(), "b")
        assert (change.replicas_to, change.minimum) == (2, 2)
