"""People's decisions: what each kind does, which wins, what does not fit, and when it ends."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Loss, Memory, ModelMemory
from rebalancer.domain.people import Override
from rebalancer.domain.plan import OverrideState, Plan
from tests.builders import (
    NOW,
    a_model,
    a_policy,
    a_pool,
    a_snapshot,
    a_write_stop,
    an_autoscaler,
    an_elastic_pool,
    an_override,
)
from tests.planning.story import Story, change_of, decision_of, moves, refusal_of, refused, unmet_of


def a_story(*overrides: Override, held: int = 4, wanted: int = 4, gpus: int = 8) -> Story:
    """Model b holds 4 of 8 GPUs, needs them all (work 4), floor 2; a idles on 2, floor 1."""
    policy = a_policy(a_model("a"), a_model("b", 2, entitlement=4), pools=(a_pool(gpus=gpus),))
    readings = {"a": {"concurrency": 0.0}, "b": {"concurrency": 4.0 * wanted}}
    story = Story(policy, a_snapshot(policy, {"a": 2, "b": held}, readings, {"b": float(wanted)}))
    story.override(*overrides)
    return story


def state_of(plan: Plan, name: str) -> OverrideState:
    """What an override is told."""
    return next(state for state in plan.overrides if state.name == name)


class TestPause:
    def test_nothing_of_the_model_is_written(self) -> None:
        story = a_story(an_override("pause"), wanted=6)
        story.turn()
        plan = story.plan()
        assert plan.empty
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert (unmet.constraint, unmet.why) == ("pause", "pause by override pause-b leaves it as it is")

    def test_its_replicas_still_hold_their_gpus(self) -> None:
        story = a_story(an_override("pause"))
        story.load("a", {"concurrency": 100.0})
        story.turns(3)
        assert (story.replicas("a"), story.replicas("b")) == (4, 4)

    def test_a_cap_is_no_number_to_be_reached(self) -> None:
        story = a_story(an_override("cap", value=8), wanted=9)
        story.load("a", {"concurrency": 8.0}, work=2.0)
        story.turn()
        plan = story.plan()
        row = decision_of(plan, "b")
        assert (row.demand or 0) > row.granted
        assert "is not reached" not in state_of(plan, "cap-b").message

    def test_others_get_nothing_of_it(self) -> None:
        story = a_story(an_override("pause", "a"), held=6, wanted=8)
        story.policy = a_policy(a_model("a"), a_model("b", 2, entitlement=7), pools=(a_pool(gpus=8),))
        assert story.plan().empty

    def test_its_autoscaler_is_not_taken_over(self) -> None:
        story = a_story(an_override("pause"))
        story.target("b", autoscaler=an_autoscaler(1, 10))
        assert story.plan().empty


class TestFreeze:
    def test_neither_up(self) -> None:
        story = a_story(an_override("freeze"), wanted=6)
        story.turn()
        plan = story.plan()
        assert plan.empty
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "freeze"

    def test_nor_down_for_others(self) -> None:
        story = a_story(an_override("freeze", "a"), held=6, wanted=8)
        story.policy = a_policy(a_model("a"), a_model("b", 2, entitlement=7), pools=(a_pool(gpus=8),))
        assert story.plan().empty

    def test_nor_down_as_surplus_that_costs(self) -> None:
        b = a_model("b", 0, pools=("spot",), entitlement=0)
        policy = a_policy(b, pools=(an_elastic_pool(gpus=16, gpus_per_node=8),))
        story = Story(policy, a_snapshot(policy, {"b": 8}, {"b": {"concurrency": 0.0}}, nodes={"spot": 1}))
        story.override(an_override("freeze"))
        assert all(plan.empty for plan in story.turns(10))

    def test_doomed_replicas_are_replaced_all_the_same(self) -> None:
        # Frozen is the number, not the node.
        story = a_story(an_override("freeze"), gpus=16)
        story.notice("a100-1", karpenter=True)
        assert moves(story.plan())["b"] == (4, 8)


class TestPin:
    def test_up_at_once_past_demand(self) -> None:
        plan = a_story(an_override("pin", value=6)).plan()
        assert moves(plan) == {"b": (4, 6)}
        assert change_of(plan, "b").passes == "override pin-b"
        assert state_of(plan, "pin-b").message == "b has 4 replicas and goes to 6; in force since 08:00:00"

    def test_down_at_once_past_step_and_fleet(self) -> None:
        # 4 needed (work 4), pinned to 2: no limit asks, the release counts for none.
        plan = a_story(an_override("pin", value=2)).plan()
        change = change_of(plan, "b")
        assert (change.replicas_to, change.passes, change.counts) == (2, "override pin-b", "exempt")

    def test_down_while_blind_and_before_the_start_is_over(self) -> None:
        story = a_story(an_override("pin", value=2))
        story.load("b", intervals_live=0)
        assert moves(story.plan()) == {"b": (4, 2)}

    def test_never_below_the_floor(self) -> None:
        plan = a_story(an_override("pin", value=0)).plan()
        assert moves(plan) == {"b": (4, 2)}
        said = state_of(plan, "pin-b").message
        assert said == (
            "b has 4 replicas and goes to 2; in force since 08:00:00; applied at the floor 2; set "
            "allowBelowFloor to go below it"
        )

    def test_below_the_floor_only_when_it_says_so_by_name(self) -> None:
        plan = a_story(an_override("pin", value=0, allow_below_floor=True)).plan()
        assert moves(plan) == {"b": (4, 0)}
        assert change_of(plan, "b").passes == "override pin-b allowBelowFloor"

    def test_the_floor_comes_back_when_it_ends(self) -> None:
        story = a_story(an_override("pin", value=0, allow_below_floor=True, expires_at=NOW + 60.0), wanted=0)
        story.turns(6)
        assert story.replicas("b") == 0
        story.turn()
        assert story.replicas("b") == 2

    def test_donors_keep_their_guards(self) -> None:
        # 7 are pinned and 2 GPUs are free. a idles on one above its floor, but nobody sees it: it keeps it.
        story = a_story(an_override("pin", value=7))
        story.load("a")
        plan = story.plan()
        assert moves(plan) == {"b": (4, 6)}
        assert decision_of(plan, "b").headroom == 3
        assert unmet_of(plan, "b") is None  # its requests are in time with 4

    def test_what_does_not_fit_is_applied_as_far_as_it_fits_and_says_so(self) -> None:
        story = a_story(an_override("pin", value=20))
        story.load("a", {"concurrency": 8.0}, work=2.0)
        plan = story.plan()
        assert moves(plan) == {"b": (4, 6)}
        said = state_of(plan, "pin-b").message
        assert said.startswith(
            "b has 4 replicas and goes to 6; in force since 08:00:00; pin 20 is not reached: a replica needs 1 GPU"
        )

    def test_a_floor_that_it_is_above_is_not_said_to_be_missed(self) -> None:
        story = a_story(an_override("floor", value=3), wanted=9)
        story.load("a", {"concurrency": 8.0}, work=2.0)
        story.turn()
        plan = story.plan()
        row = decision_of(plan, "b")
        assert (row.demand or 0) > row.granted >= 3
        assert "is not reached" not in state_of(plan, "floor-b").message

    def test_others_get_nothing_of_it(self) -> None:
        story = a_story(an_override("pin", "a", value=2), held=6, wanted=8)
        story.policy = a_policy(a_model("a"), a_model("b", 2, entitlement=7), pools=(a_pool(gpus=8),))
        assert story.plan().empty

    def test_at_most_max_replicas(self) -> None:
        story = a_story(an_override("pin", value=8))
        story.policy = a_policy(a_model("a"), a_model("b", 2, entitlement=4, max_replicas=5), pools=(a_pool(gpus=8),))
        plan = story.plan()
        assert moves(plan) == {"b": (4, 5)}
        assert (
            state_of(plan, "pin-b").message
            == "b has 4 replicas and goes to 5; in force since 08:00:00; applied at maxReplicas 5"
        )

    def test_minimum_and_maximum_are_pinned_on_a_growing_pool_too(self) -> None:
        b = a_model("b", 1, pools=("spot",), entitlement=1)
        policy = a_policy(b, pools=(an_elastic_pool(gpus=16, gpus_per_node=8),))
        story = Story(policy, a_snapshot(policy, {"b": 2}, {"b": {"concurrency": 4.0}}, nodes={"spot": 1}))
        story.target("b", autoscaler=an_autoscaler(1, 10))
        story.override(an_override("pin", value=4))
        change = change_of(story.plan(), "b")
        assert (change.replicas_to, change.minimum) == (4, 4)


class TestCap:
    def test_lets_nothing_beyond_it_be_granted(self) -> None:
        story = a_story(an_override("cap", value=5), wanted=8)
        story.turns(3)
        assert story.replicas("b") == 5

    def test_takes_what_is_beyond_it_at_once(self) -> None:
        plan = a_story(an_override("cap", value=3)).plan()
        change = change_of(plan, "b")
        assert (change.replicas_to, change.passes) == (3, "override cap-b")

    def test_takes_it_also_where_the_shift_guard_holds_what_another_model_wants_of_it(self) -> None:
        policy = a_policy(
            a_model("a", 2, entitlement=4, priority=200), a_model("b", 1, entitlement=2), pools=(a_pool(gpus=8),)
        )
        readings = {"a": {"concurrency": 24.0}, "b": {"concurrency": 8.0}}
        story = Story(policy, a_snapshot(policy, {"a": 5, "b": 3}, readings, {"a": 6.0, "b": 2.0}))
        lost = ModelMemory(losses=(Loss(NOW - 100.0, 1, "shift"),))
        story.memory = Memory(models={"a": ModelMemory(demand=6), "b": lost})
        story.override(an_override("cap", value=2))
        change = change_of(story.plan(), "b")
        assert (change.replicas_to, change.passes, change.counts) == (2, "override cap-b", "exempt")

    def test_takes_no_more_than_that(self) -> None:
        # Demand is 2, the cap 6: what is between them is nobody's order.
        story = a_story(an_override("cap", value=6), wanted=2)
        assert all(moves(plan) == {} for plan in story.turns(6))

    def test_on_a_pool_that_costs_the_rest_is_surplus_with_all_its_guards(self) -> None:
        # 8 held, cap 6, demand 0, all of it needed by the guards' measure (work 8): 2 go by the cap, 1 by the fleet's
        # 10 % of 8, the rest waits.
        b = a_model("b", 0, pools=("spot",), entitlement=0)
        policy = a_policy(b, pools=(an_elastic_pool(gpus=16, gpus_per_node=8),))
        load = {"b": {"concurrency": 0.0}}
        story = Story(policy, a_snapshot(policy, {"b": 8}, load, {"b": 8.0}, nodes={"spot": 1}))
        story.plan()
        story.wait(30.0)
        story.override(an_override("cap", value=6, created_at=NOW + 30.0))
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.replicas_from, change.replicas_to, change.counts, change.counted) == (8, 5, "step", 1)
        assert ("step", "b") in refused(plan)


class TestFloorOverride:
    def test_raises_what_is_asked_for(self) -> None:
        assert moves(a_story(an_override("floor", value=6)).plan()) == {"b": (4, 6)}

    def test_only_raises(self) -> None:
        story = a_story(an_override("floor", value=0))
        assert story.plan().empty
        assert decision_of(story.plan(), "b").floor == 2

    def test_is_not_given_away_to_a_higher_priority(self) -> None:
        # a wants everything with ten times b's priority. b's entitlement is 2; a person wants 4 there.
        policy = a_policy(
            a_model("a", priority=1000), a_model("b", 2, entitlement=2, priority=100), pools=(a_pool(gpus=8),)
        )
        readings = {"a": {"concurrency": 100.0}, "b": {"concurrency": 20.0}}
        story = Story(policy, a_snapshot(policy, {"a": 3, "b": 5}, readings))
        story.override(an_override("floor", value=4))
        story.turns(10)
        assert (story.replicas("a"), story.replicas("b")) == (4, 4)


class TestExclude:
    def test_a_node_gets_no_new_grants(self) -> None:
        story = a_story(wanted=6, gpus=16)
        story.override(an_override("exclude", "a100-1"))
        story.turn()
        assert change_of(story.plan(), "b").nodes == ("a100-2",)

    def test_only_for_the_model_it_names(self) -> None:
        story = a_story(an_override("exclude", "a100", subject_kind="pool", model="a"), wanted=6)
        story.load("a", {"concurrency": 100.0})
        story.turn()
        assert moves(story.plan()) == {"b": (4, 6)}

    def test_what_is_there_stays(self) -> None:
        assert a_story(an_override("exclude", "a100", subject_kind="pool")).plan().empty

    def test_no_shift_frees_gpus_on_it(self) -> None:
        policy = a_policy(a_model("a", 0), a_model("b", 2, entitlement=4), pools=(a_pool(gpus=8),))
        readings = {"a": {"concurrency": 0.0}, "b": {"concurrency": 16.0}}
        story = Story(policy, a_snapshot(policy, {"a": 6, "b": 2}, readings))
        story.override(an_override("exclude", "a100-1"))
        assert story.plan().empty


class TestDrain:
    def test_a_pool_or_node_is_drained_as_by_a_notice_and_the_override_is_told(self) -> None:
        # state turns it into a notice; here both are seen.
        story = a_story(an_override("drain", "a100-1"), gpus=16)
        story.notice("a100-1", 0.0, kind="drain", source="override/serving/drain-a100-1")
        plan = story.plan()
        assert moves(plan)["b"] == (4, 8)
        said = state_of(plan, "drain-a100-1").message
        assert said == "node a100-1 is being drained, 6 replicas are left there; in force since 08:00:00"


class TestPrecedence:
    """pause, freeze, pin, cap, floor: in this order."""

    @pytest.mark.parametrize(
        ("kinds", "replicas"),
        [
            (("pause", "pin"), 4),
            (("freeze", "pin"), 4),
            (("pin", "cap"), 6),  # cap says 5
            (("pin", "floor"), 6),  # floor says 8
            (("cap", "floor"), 5),  # floor says 8
        ],
    )
    def test_the_first_of_two_kinds_decides(self, kinds: tuple[str, str], replicas: int) -> None:
        values = {"pin": 6, "cap": 5, "floor": 8}
        story = a_story(*(an_override(kind, value=values.get(kind)) for kind in kinds))
        story.turns(3)
        assert story.replicas("b") == replicas

    def test_the_newest_of_a_kind_wins_and_the_loser_is_told(self) -> None:
        old = an_override("pin", value=3, name="old", created_at=NOW - 100.0)
        new = an_override("pin", value=6, name="new", created_at=NOW - 10.0)
        plan = a_story(old, new).plan()
        assert moves(plan) == {"b": (4, 6)}
        assert (state_of(plan, "old").phase, state_of(plan, "old").message) == (
            "Superseded",
            "by new, which is newer",
        )
        assert state_of(plan, "new").phase == "InForce"

    def test_of_two_at_the_same_instant_the_name_decides(self) -> None:
        one, two = (an_override("pin", value=n, name=name) for name, n in (("one", 5), ("two", 6)))
        assert moves(a_story(two, one).plan()) == {"b": (4, 5)}
        assert moves(a_story(one, two).plan()) == {"b": (4, 5)}


class TestEnd:
    def test_an_override_ends_by_itself(self) -> None:
        story = a_story(an_override("pin", value=6, expires_at=NOW + 25.0))
        story.turns(2)
        assert story.replicas("b") == 6
        story.wait(5.0)
        plan = story.plan()
        assert state_of(plan, "pin-b").phase == "Expired"
        assert decision_of(plan, "b").why != "pin 6"

    def test_at_its_very_instant(self) -> None:
        assert a_story(an_override("pin", value=6, expires_at=NOW)).plan().empty

    def test_one_that_outlasts_the_policys_bound_is_refused(self) -> None:
        plan = a_story(an_override("pin", value=6, expires_at=NOW + 86_400.0)).plan()  # made 60 s ago
        assert plan.empty
        assert state_of(plan, "pin-b").phase == "Refused"
        assert "86400 s" in state_of(plan, "pin-b").message

    @pytest.mark.parametrize(
        "one",
        [
            an_override("pin", "nobody", 3),
            an_override("exclude", "nowhere", subject_kind="pool"),
            an_override("exclude", "a100", subject_kind="pool", model="nobody"),
        ],
    )
    def test_one_about_something_that_is_not_there_is_refused(self, one: Override) -> None:
        plan = a_story(one).plan()
        assert plan.empty
        assert state_of(plan, one.name).phase == "Refused"


class TestNeverPasses:
    def test_the_budget(self) -> None:
        story = a_story(an_override("pin", value=8))
        story.turns(5)
        assert story.plans[-1].pools[0].promised <= 8

    def test_an_empty_pool(self) -> None:
        # The nodes are not seen while pods run there: nothing moves, not even for a person.
        story = a_story(an_override("pin", value=2))
        story.pool("a100", nodes=())
        plan = story.plan()
        assert plan.empty
        assert refusal_of(plan, "empty", "b").why == "no node of pool a100 is seen while pods run there"

    def test_a_rollout(self) -> None:
        story = a_story(an_override("pin", value=2))
        story.target("b", rolling=True)
        assert story.plan().empty

    def test_the_write_stop(self) -> None:
        story = a_story(an_override("pin", value=6))
        story.snapshot = replace(story.snapshot, write_stop=a_write_stop())
        plan = story.plan()
        assert plan.empty
        assert refusal_of(plan, "stop", "b").replicas_to == 6
        said = state_of(plan, "pin-b").message
        assert said.startswith(
            "b has 4 replicas; in force since 08:00:00; pin 6 is not reached: alice stopped the writes"
        )
