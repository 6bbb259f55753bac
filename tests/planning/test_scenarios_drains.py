"""A person drains a node: nobody else does, and there is no deadline."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.people import Override
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
    an_elastic_pool,
    an_override,
)
from tests.planning.story import Story, change_of, moves, node_pool_changes, refusal_of, refused, unmet_of
from tests.planning.test_scenarios_doomed import a_full_story, a_story


class TestPersonsDrain:
    """Nobody else drains a100-1, and it has no deadline."""

    def test_replicas_serve_until_their_replacements_do(self) -> None:
        story = a_story()
        story.notice("a100-1", 0.0, kind="drain")
        story.write(story.plan())
        story.kubernetes()  # replacements load
        assert story.plan().empty
        story.settle()
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.kind, change.replicas_from, change.replicas_to, change.passes) == ("release", 8, 4, "drain")
        assert change.victims == tuple(f"uid-b-{n}" for n in range(4))
        story.write(plan)
        assert story.plan().empty
        story.settle()
        assert story.plan().empty
        assert {pod.node for pod in story.of("b").pods} == {"a100-2"}
        assert story.memory.models["b"].losses == ()

    def test_none_goes_while_a_replacement_loads(self) -> None:
        # Three of four replacements are Ready: of fewer replicas Kubernetes would end the one that loads first.
        story = a_story()
        story.notice("a100-1", 0.0, kind="drain")
        story.write(story.plan())
        story.kubernetes()
        fresh = [pod for pod in story.of("b").pods if pod.phase == "loading"]
        pods = [replace(pod, phase="ready") if pod in fresh[:3] else pod for pod in story.of("b").pods]
        story.target("b", pods=tuple(pods))
        assert story.plan().empty
        story.settle()
        assert moves(story.plan()) == {"b": (8, 4)}

    def test_only_as_many_as_are_ready_on_another_pool(self) -> None:
        # Their replacements are another Deployment's: one of the four loads, so one of the doomed serves on.
        b = a_model("b", 2, pools=("a100", "spot"), entitlement=4)
        policy = a_policy(b, pools=(a_pool(gpus=8), an_elastic_pool(gpus=8, node_pools=())))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}, nodes={"spot": 1}))
        story.plan()
        story.notice("a100-1", 0.0, kind="drain")
        story.write(story.plan())
        story.settle()
        first, *others = story.of("b", "spot").pods
        story.target("b", "spot", pods=(replace(first, phase="loading"), *others))
        assert moves(story.plan()) == {"b": (4, 1)}

    def test_they_wait_for_a_shift_that_makes_their_room(self) -> None:
        story = a_full_story()
        story.notice("a100-1", 0.0, kind="drain")
        assert moves(story.plan()) == {"a": (8, 4)}

    def test_what_nobody_has_room_for_goes_down_to_the_floor(self) -> None:
        story = a_story(gpus=8)
        story.notice("a100-1", 0.0, kind="drain")
        plan = story.plan()
        assert moves(plan) == {"b": (4, 2)}
        assert ("floor", "b") in refused(plan)

    def test_the_last_one_stays_until_no_autoscaler_may_take_the_others(self) -> None:
        # Its floor is 2: one on the drained node, two asked for on spot by an autoscaler that may go down to 0.
        pools = (a_pool(gpus=2), an_elastic_pool())
        policy = a_policy(a_model("b", 2, pools=("a100", "spot"), max_replicas=2), pools=pools)
        story = Story(policy, a_snapshot(policy, {"b": 1}, {"b": {"concurrency": 0.0}}))
        story.target("b", "spot", replicas=2, autoscaler=an_autoscaler(name="b-spot", minimum=0, maximum=2))
        story.notice("a100-1", 0.0, kind="drain")
        plan = story.plan()
        assert [(change.target.pool, change.kind, change.minimum) for change in plan.changes] == [("spot", "bounds", 2)]
        assert refusal_of(plan, "floor", "b").why == "its floor is 2 and its autoscalers could go down to 0"
        story.write(plan)
        assert (
            refusal_of(story.plan(), "floor", "b").why == "its floor is 2 and its autoscalers could go down to 0"
        )  # not there yet
        story.kubernetes()
        assert moves(story.plan()) == {"b": (1, 0)}

    @pytest.mark.parametrize("gone", [False, True], ids=["they serve", "their node is gone"])
    def test_replaced_ones_count_until_the_autoscaler_of_their_replacements_has_followed(self, gone: bool) -> None:  # noqa: FBT001  # a case
        # Both of b's, its floor, end now. Their places on h100 are asked for, but its HPA still asks for 0 there.
        b = a_model("b", 2, pools=("a100", "h100"), entitlement=2, max_replicas=2)
        policy = a_policy(b, pools=(a_pool(gpus=2), a_pool("h100", gpus=2)))
        held: dict[str, Replicas] = {"b": {"a100": 2}}
        story = Story(policy, a_snapshot(policy, held, {"b": {"concurrency": 8.0}}, {"b": 2.0}, nodes={"h100": 1}))
        story.target("b", "h100", autoscaler=an_autoscaler(1, 1, name="b-h100", originals=Originals(1, 10)))
        story.notice("a100-1", 0.0)
        story.write(story.plan())
        if gone:
            story.lose("a100-1")
        assert moves(story.plan()) == {}
        story.kubernetes()
        assert moves(story.plan()) == {"b": (2, 0)}

    def test_where_new_ones_serve_before_the_replacements_do_the_number_of_the_gone_stays(self) -> None:
        # b's only one is evicted; a ReplicaSet makes a new one, which is Ready. The replacement on h100 has no room.
        b = a_model("b", 1, pools=("a100", "h100"), entitlement=1, max_replicas=1)
        policy = a_policy(b, pools=(a_pool(gpus=2), a_pool("h100", gpus=1)))
        held: dict[str, Replicas] = {"b": {"a100": 1}}
        nodes = {"a100": 1, "h100": 1}
        story = Story(policy, a_snapshot(policy, held, {"b": {"concurrency": 4.0}}, {"b": 1.0}, nodes=nodes))
        story.notice("a100-1", 120.0)
        story.write(story.plan())
        assert story.replicas("b", "h100") == 1
        story.pool("h100", nodes=tuple(replace(node, schedulable=False) for node in story.view("h100").nodes))
        story.evict("a100-1")
        story.add("a100", a_node("a100-2", 1, labels={"pool": "a100"}))
        story.settle()
        assert [(pod.phase, pod.node) for pod in story.of("b", "a100").pods] == [("ready", "a100-2")]
        change = change_of(story.plan(), "b")
        assert (change.target.pool, change.kind, change.replicas_to) == ("h100", "release", 0)

    def test_what_goes_for_two_reasons_passes_by_both_of_their_names(self) -> None:
        # b has borrowed 12, 8 of them on the drained node; a wants its own 6 back, for which 2 more go beside the 8.
        policy = a_policy(a_model("a", 0, entitlement=6), a_model("b", 0, entitlement=0), pools=(a_pool(gpus=16),))
        readings = {"a": {"concurrency": 24.0}, "b": {"concurrency": 48.0}}
        story = Story(policy, a_snapshot(policy, {"b": 12}, readings))
        story.notice("a100-1", 0.0, kind="drain")
        change = change_of(story.plan(), "b")
        assert (change.replicas_to, change.passes) == (2, "reclaim, drain")

    def test_a_spot_notice_elsewhere_ends_the_replaced_before_the_node_does(self) -> None:
        story = a_story()
        story.notice("a100-1", 120.0)
        story.write(story.plan())
        story.settle()
        story.wait(89.0)
        assert story.plan().empty
        story.wait(1.0)
        plan = story.plan()
        assert moves(plan) == {"b": (8, 4)}
        assert change_of(plan, "b").victims == tuple(f"uid-b-{n}" for n in range(4))

    @pytest.mark.parametrize(("seconds", "replicas"), [(59.0, 0), (61.0, 1)])
    def test_who_serves_a_minute_after_the_deadline_waits_for_a_ready_replacement(
        self, seconds: float, replicas: int
    ) -> None:
        # Nothing was done until then: the service was away, or its clock is ahead. The machine is still there.
        b = a_model("b", 2, pools=("a100", "spot"), entitlement=4)
        policy = a_policy(b, pools=(a_pool(gpus=8), an_elastic_pool(gpus=8, node_pools=())))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}, nodes={"spot": 1}))
        story.plan()
        story.notice("a100-1", 5.0)
        story.write(story.plan())
        story.settle()
        first, *others = story.of("b", "spot").pods
        story.target("b", "spot", pods=(replace(first, phase="loading"), *others))
        story.wait(5.0 + seconds)
        assert moves(story.plan()) == {"b": (4, replicas)}


class TestPersonsDrainOfAPool:
    """What would come to the pool is under the same drain as what is there."""

    def a_story(self, drain: Override) -> Story:
        """Model b has a floor of 1 and 4 replicas on the only node of pool spot, has work for 10, and may have them."""
        policy = a_policy(a_model("b", 1, pools=("spot",), entitlement=10), pools=(an_elastic_pool(gpus_per_node=8),))
        load = {"b": {"concurrency": 40.0}}
        story = Story(policy, a_snapshot(policy, {"b": 4}, load, {"b": 10.0}, nodes={"spot": 1}))
        story.override(drain)
        return story

    def test_no_node_is_asked_for_there_and_who_lacks_replicas_is_told_why(self) -> None:
        story = self.a_story(an_override("drain", "spot", subject_kind="pool"))
        story.notice("spot-1", 0.0, kind="drain")
        plan = story.plan()
        assert plan.node_pools == ()
        assert moves(plan) == {"b": (4, 1)}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert (unmet.replicas, unmet.constraint) == (10, "nodes")
        assert "pool spot is being drained by override drain-spot, so no node is asked for there" in unmet.why

    @pytest.mark.parametrize("seconds", [30.0, 90_000.0], ids=["over", "refused: too long"])
    def test_one_that_is_not_in_force_keeps_no_node_away(self, seconds: float) -> None:
        story = self.a_story(an_override("drain", "spot", subject_kind="pool", expires_at=NOW + seconds))
        story.wait(30.0)
        assert node_pool_changes(story.plan())["limit"].limit_to == 16


class TestMarks:
    """The service may not write the deletion cost: Kubernetes chooses among Ready replicas."""

    def test_where_nobody_marks_pods_none_goes_by_the_number_beside_one_that_stays(self) -> None:
        # Asked for 4 of 8 Ready replicas, Kubernetes might end the four replacements.
        story = a_story()
        story.snapshot = replace(story.snapshot, marks_victims=False)
        story.notice("a100-1", 0.0, kind="drain")
        story.write(story.plan())
        story.settle()
        plan = story.plan()
        assert plan.changes == ()
        assert "actuation.deletionCost is off" in refusal_of(plan, "marks", "b").why

    @pytest.mark.parametrize(
        ("gpus", "nodes_of_a", "of_b", "left", "marks"),
        [
            (gpus, nodes_of_a, of_b, left, marks)
            for marks in (True, False)
            # fewer than are doomed, and as many as are
            for gpus, nodes_of_a, of_b, left in (
                ((4, 4), (1, 1, 1, 2, 2, 2, 2), 1, 6),
                ((4, 2, 2), (1, 1, 2, 2, 3, 3), 2, 4),
            )
        ],
    )
    def test_a_decrease_for_others_is_seen_before_another_one_is_asked_for_it(
        self, gpus: tuple[int, ...], nodes_of_a: tuple[int, ...], of_b: int, left: int, *, marks: bool
    ) -> None:
        # b has all that it needs on the first node, which goes: a gives as many, and its autoscaler has not followed
        # yet. Without marks nobody knows whether they are of the doomed; asked again, a gave twice as many.
        policy = a_policy(a_model("a", 1, entitlement=1), a_model("b", of_b, entitlement=of_b), pools=(a_pool(gpus=8),))
        load = {"a": {"concurrency": 16.0}, "b": {"concurrency": 4.0 * of_b}}
        story = Story(policy, a_snapshot(policy, None, load, {"a": 4.0, "b": float(of_b)}, marks_victims=marks))
        nodes = [a_node(f"a100-{n}", each, labels={"pool": "a100"}) for n, each in enumerate(gpus, 1)]
        story.pool("a100", nodes=tuple(nodes))
        pods = tuple(a_pod(f"a-{n}", f"a100-{node}") for n, node in enumerate(nodes_of_a))
        story.target("a", replicas=len(pods), pods=pods)
        story.target("b", replicas=of_b, pods=tuple(a_pod(f"b-{n}", "a100-1") for n in range(of_b)))
        story.notice("a100-1", 300.0)
        plan = story.plan()
        assert moves(plan) == {"a": (len(pods), left)}
        story.write(plan)
        if not marks:
            story.target("a", pods=pods)
        story.wait(10.0)
        assert moves(story.plan()) == {}

    def test_where_nobody_marks_pods_a_target_of_doomed_ones_alone_is_drained(self) -> None:
        b = a_model("b", 2, pools=("a100", "spot"), entitlement=4)
        policy = a_policy(b, pools=(a_pool(gpus=8), an_elastic_pool(gpus=8, node_pools=())))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}, nodes={"spot": 1}))
        story.snapshot = replace(story.snapshot, marks_victims=False)
        story.plan()
        story.notice("a100-1", 0.0, kind="drain")
        story.write(story.plan())
        story.settle()
        assert moves(story.plan()) == {"b": (4, 0)}


class TestUncertain:
    """a100-1 has a fault, or may be taken back: nobody knows when, or whether, it goes."""

    def test_replicas_on_a_node_with_a_fault_end_once_their_replacements_serve(self) -> None:
        story = a_story()
        story.notice("a100-1", 0.0, kind="fault", confidence="likely")
        plan = story.plan()
        assert moves(plan) == {"b": (4, 8)}
        story.write(plan)
        story.kubernetes()  # replacements load
        assert story.plan().empty
        story.settle()
        assert moves(story.plan()) == {"b": (8, 4)}

    def test_only_as_many_end_as_serve_on_another_pool(self) -> None:
        b = a_model("b", 2, pools=("a100", "spot"), entitlement=4)
        policy = a_policy(b, pools=(a_pool(gpus=8), an_elastic_pool(gpus=8, node_pools=())))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}, nodes={"spot": 1}))
        story.plan()
        story.notice("a100-1", 0.0, kind="fault", confidence="likely")
        story.write(story.plan())
        story.settle()
        first, *others = story.of("b", "spot").pods
        story.target("b", "spot", pods=(replace(first, phase="loading"), *others))
        assert moves(story.plan()) == {"b": (4, 1)}

    @pytest.mark.parametrize("seconds", [0.0, 600.0])
    def test_without_room_they_serve_on(self, seconds: float) -> None:
        story = a_story(gpus=8)
        story.notice("a100-1", seconds, kind="fault", confidence="likely")
        for _ in range(5):
            assert story.plan().changes == ()
            story.wait(300.0)

    def test_where_karpenter_drains_it_too_they_end_as_for_any_notice(self) -> None:
        story = a_story(gpus=8)
        story.notice("a100-1", 0.0, kind="fault", confidence="likely", karpenter=True)
        assert moves(story.plan()) == {"b": (4, 2)}

    def test_a_node_that_may_be_taken_back_keeps_what_runs_there_and_gets_nothing_new(self) -> None:
        story = a_story()
        story.notice("a100-1", 0.0, kind="rebalance", confidence="possible")
        for _ in range(5):
            assert story.plan().changes == ()
            story.wait(300.0)
        policy = a_policy(a_model("b", 6, entitlement=6), pools=(a_pool(gpus=8),))
        short = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}))
        assert moves(short.plan()) == {"b": (4, 6)}
        short = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}))
        short.notice("a100-1", 0.0, kind="rebalance", confidence="possible")
        assert short.plan().changes == ()
