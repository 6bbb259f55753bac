"""Autoscaled targets: minimum and maximum instead of a number, and an HPA that acts by itself inside them."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.snapshot import AutoscalerView
from tests.builders import (
    NOW,
    Replicas,
    a_model,
    a_node,
    a_policy,
    a_pool,
    a_snapshot,
    an_autoscaler,
    an_elastic_pool,
    an_override,
)
from tests.planning.story import Story, change_of, moves, refusal_of, unmet_of


def ours(minimum: int, maximum: int, **overrides: object) -> AutoscalerView:
    """A ScaledObject that we have written to; people had left it at 1 to 10."""
    return an_autoscaler(minimum, maximum, originals=Originals(1, 10), **overrides)


def bounds(story: Story, model: str = "b", pool: str | None = None) -> tuple[int, int]:
    """Minimum and maximum of a target's autoscaler."""
    owner = story.of(model, pool).autoscaler
    assert owner is not None
    return owner.minimum, owner.maximum


def on_a_fixed_pool(held: int, wanted: int, owner: AutoscalerView, actuation: str = "bounds") -> Story:
    """8 GPUs that are all b's own."""
    policy = a_policy(a_model("b", 1, entitlement=8, actuation=actuation), pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, {"b": held}, {"b": {"concurrency": 4.0 * wanted}}, {"b": float(wanted)}))
    story.target("b", autoscaler=owner)
    return story


def on_a_growing_pool(held: int, wanted: int, owner: AutoscalerView, floor: int = 1, work: float = 0.0) -> Story:
    """16 GPUs of 32 are there; nobody else uses them."""
    b = a_model("b", floor, pools=("spot",), entitlement=0 if floor == 0 else floor)
    policy = a_policy(b, pools=(an_elastic_pool(gpus=32, gpus_per_node=8),))
    load = {"b": {"concurrency": 4.0 * wanted}}
    story = Story(policy, a_snapshot(policy, {"b": held}, load, {"b": work}, nodes={"spot": 2}))
    story.target("b", autoscaler=owner)
    return story


@pytest.mark.parametrize(("owner", "asked"), [(None, 16), (ours(16, 16), 6)])
def test_beside_an_autoscaler_nodes_are_asked_for_as_many_as_demand_lacks_since_it_may_leave_the_others_open(
    owner: AutoscalerView | None, asked: int
) -> None:
    # All of 32 would gain, demand (work 16 and room for bursts) is 22: for more no pod may ever wait.
    story = on_a_growing_pool(16, 16, an_autoscaler(), floor=0, work=16.0)
    story.target("b", autoscaler=owner)
    story.foresee("b", {count: 50.0 * (32 - count) for count in range(33)}, level=16.0)
    story.turn()
    change = change_of(story.plans[-1], "b")
    assert (change.replicas_to - change.replicas_from, change.minimum) == (asked, 16 + asked)


class TestTakenDown:
    def test_a_minimum_is_not_set_back_above_what_runs_in_a_pool_that_is_over(self) -> None:
        # Somebody set our minimum of 6 to 1, the HPA went down to 4, and the node says that it has four GPUs by now.
        story = on_a_fixed_pool(6, 6, ours(6, 6))
        story.plan()
        story.target("b", replicas=4, pods=story.of("b").pods[:4], autoscaler=ours(1, 6))
        story.pool("a100", nodes=(a_node("a100-1", 4, labels={"pool": "a100"}, fell_at=NOW),))
        assert change_of(story.plan(), "b").minimum <= 4

    def test_a_release_sets_no_minimum_above_what_runs_in_a_pool_that_is_over(self) -> None:
        # c holds 6 of the 8 GPUs that there are; b was asked for 6, runs 2 since somebody let it, and shall have 4.
        policy = a_policy(a_model("b", 1, entitlement=6), a_model("c", 1, entitlement=6), pools=(a_pool(gpus=16),))
        load = {"b": {"concurrency": 8.0}, "c": {"concurrency": 24.0}}
        world = a_snapshot(policy, {"b": 2, "c": 6}, load, {"b": 2.0, "c": 6.0}, nodes={"a100": 1})
        story = Story(policy, replace(world, overrides=(an_override("cap", value=4),)))
        story.target("b", autoscaler=ours(1, 6))
        story.pool("a100", nodes=(a_node("a100-1", 8, labels={"pool": "a100"}, fell_at=NOW),))
        change = change_of(story.plan(), "b")
        assert (change.kind, change.replicas_to, change.minimum) == ("release", 4, 2)


class TestTakeover:
    def test_on_a_fixed_pool_the_first_write_pins_what_runs(self) -> None:
        # min = max: position must not be given away by an HPA that sees less.
        story = on_a_fixed_pool(4, 4, an_autoscaler(1, 10))
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.kind, change.replicas_from, change.replicas_to, change.minimum) == ("bounds", 4, 4, 4)
        assert change.reason == "keeps its replicas; its bounds go from 1-10 to 4-4, and ScaledObject b is taken over"
        story.write(plan)
        assert story.plan().empty

    def test_on_a_growing_pool_the_minimum_is_demand(self) -> None:
        story = on_a_growing_pool(4, 4, an_autoscaler(1, 10))
        change = change_of(story.plan(), "b")
        assert (change.replicas_to, change.minimum) == (4, 4)

    def test_a_minimum_of_theirs_above_demand_falls_only_past_the_guards(self) -> None:
        # People keep 8 of 8; demand is 4, and all 8 are needed by the guards' measure (work 8): step lets 1 of 8 go
        # (20 % = 1.6), fleet 1 (10 % of 7).
        story = on_a_growing_pool(8, 4, an_autoscaler(8, 10), work=8.0)
        story.turns(3)
        assert bounds(story) == (8, 8)
        plan = story.turn()
        assert bounds(story) == (7, 8)
        assert refusal_of(plan, "step", "b").replicas_to == 4

    def test_an_idle_one_is_left_alone(self) -> None:
        # Its maximum would have to be 1: a grant that nobody asked for.
        story = on_a_fixed_pool(0, 0, an_autoscaler(0, 10))
        story.policy = a_policy(a_model("b", 0, entitlement=8), pools=(a_pool(gpus=8),))
        assert story.plan().empty

    def test_an_idle_one_that_is_wanted_is_taken_over_by_the_grant(self) -> None:
        story = on_a_fixed_pool(0, 2, an_autoscaler(0, 10))
        change = change_of(story.plan(), "b")
        assert (change.kind, change.replicas_to, change.minimum) == ("grant", 2, 2)

    def test_one_that_climbs_to_its_own_minimum_is_awaited(self) -> None:
        assert on_a_fixed_pool(2, 2, an_autoscaler(5, 10)).plan().empty

    def test_a_paused_one_is_not_touched(self) -> None:
        story = on_a_fixed_pool(2, 6, an_autoscaler(1, 10, paused=True))
        plan = story.plan()
        assert plan.empty
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "autoscaler-paused"

    def test_with_actuation_scale_a_paused_one_leaves_the_number_to_us(self) -> None:
        story = on_a_fixed_pool(2, 6, an_autoscaler(1, 10, paused=True), actuation="scale")
        assert moves(story.turn()) == {"b": (2, 6)}
        assert story.replicas("b") == 6
        assert story.plan().empty

    def test_with_actuation_scale_a_live_one_is_foreign(self) -> None:
        plan = on_a_fixed_pool(2, 6, an_autoscaler(1, 10), actuation="scale").plan()
        assert plan.empty
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "foreign"


class TestMaximum:
    def test_is_what_is_granted(self) -> None:
        story = on_a_fixed_pool(2, 6, ours(2, 2))
        change = change_of(story.plan(), "b")
        assert (change.kind, change.replicas_from, change.replicas_to, change.minimum) == ("grant", 2, 6, 6)

    def test_counts_before_the_hpa_follows(self) -> None:
        # Granted 6, and 2 pods so far: 6 GPUs are promised, nothing is asked twice.
        story = on_a_fixed_pool(2, 6, ours(2, 2))
        story.write(story.plan())
        plan = story.plan()
        assert plan.empty
        assert plan.pools[0].promised == 6

    def test_a_release_is_done_when_the_hpa_shows_the_new_maximum(self) -> None:
        # a gives 3 to b. While a's HPA still shows 7 its GPUs stay promised, and the release is not planned again.
        policy = a_policy(a_model("a"), a_model("b", entitlement=4), pools=(a_pool(gpus=8),))
        readings = {"a": {"concurrency": 0.0}, "b": {"concurrency": 16.0}}
        story = Story(policy, a_snapshot(policy, {"a": 7, "b": 1}, readings))
        story.target("a", autoscaler=ours(7, 7))
        plan = story.plan()
        assert moves(plan) == {"a": (7, 4)}
        assert change_of(plan, "a").minimum == 4
        story.write(plan)
        assert bounds(story, "a") == (4, 4)
        for _ in range(3):
            plan = story.plan()
            assert moves(plan) == {}
            assert plan.pools[0].promised == 8
        story.settle()
        assert moves(story.plan()) == {"b": (1, 4)}

    def test_the_least_grant_is_1_and_counts_as_1(self) -> None:
        # Nobody needs b any more and its floor is 0, but a maximum of 0 does not exist: a gets 7 of 8.
        policy = a_policy(a_model("a", entitlement=8), a_model("b", 0, entitlement=0), pools=(a_pool(gpus=8),))
        readings = {"a": {"concurrency": 32.0}, "b": {"concurrency": 0.0}}
        story = Story(policy, a_snapshot(policy, {"a": 4, "b": 4}, readings))
        story.target("b", autoscaler=ours(4, 4))
        story.turns(10)
        assert bounds(story) == (1, 1)
        assert (story.replicas("a"), story.replicas("b")) == (7, 1)


class TestMinimum:
    def test_on_a_growing_pool_it_rises_with_demand_in_the_same_write(self) -> None:
        story = on_a_growing_pool(2, 4, ours(2, 2), floor=2)
        story.turn()
        change = change_of(story.plan(), "b")
        assert (change.replicas_to, change.minimum) == (4, 4)

    def test_it_follows_demand_down_after_the_cooldown_as_surplus(self) -> None:
        # Demand falls from 6 to 2 with next to no work (ceil(0.5 + 1.5 x 0.71) = 2): 4 are surplus. The maximum stays:
        # the HPA decides within it.
        story = on_a_growing_pool(6, 2, ours(6, 6), work=0.5)
        story.turns(3)
        assert bounds(story) == (6, 6)
        plan = story.turn()
        assert bounds(story) == (2, 6)
        change = change_of(plan, "b")
        assert (change.kind, change.counts, change.counted) == ("bounds", "exempt", 0)

    def test_below_need_every_replica_counts(self) -> None:
        # 10 needed by the guards' measure, demand 2: fleet lets max(1, 10 % of 9) = 1 go in 5 min.
        story = on_a_growing_pool(10, 2, ours(10, 10), work=10.0)
        story.turns(4)
        assert bounds(story) == (9, 10)
        story.turn()
        assert [(loss.replicas, loss.counts) for loss in story.memory.models["b"].losses] == [(1, "step")]
        story.turns(28)
        assert bounds(story) == (9, 10)
        story.turns(2)
        assert bounds(story) == (8, 10)

    def test_while_a_guard_forbids_decreases_it_stays(self) -> None:
        story = on_a_growing_pool(6, 2, ours(6, 6), work=0.5)
        story.load("b", {"concurrency": 8.0}, 0.5, intervals_live=1)
        story.turns(5)
        assert bounds(story) == (6, 6)
        assert refusal_of(story.plans[-1], "start", "b").replicas_to == 2

    def test_while_demand_is_unknown_it_stays(self) -> None:
        story = on_a_growing_pool(6, 2, ours(4, 6))
        story.load("b")
        assert all(plan.empty for plan in story.turns(10))

    def test_while_a_person_froze_the_model_it_keeps_what_runs(self) -> None:
        # Demand is 2; the HPA may go down to 2, and 5 of at most 6 run when it is frozen.
        story = on_a_growing_pool(5, 2, ours(2, 6), work=0.5)
        story.override(an_override("freeze"))
        story.turn()
        assert bounds(story) == (5, 6)
        assert all(plan.empty for plan in story.turns(10))

    def test_what_replaces_doomed_replicas_of_a_frozen_model_is_waited_for(self) -> None:
        story = on_a_growing_pool(5, 2, ours(5, 5), work=0.5)
        story.override(an_override("freeze"))
        story.notice("spot-1", karpenter=True)
        change = change_of(story.plan(), "b")
        assert (change.replicas_to, change.minimum) == (10, 10)

    def test_a_release_beside_it_lowers_it_no_further_than_the_maximum(self) -> None:
        # c's floor takes 1 of b's 6; b's demand is 2, but what its minimum of 6 loses now is what the maximum loses.
        b, c = a_model("b", 1, pools=("spot",), entitlement=1), a_model("c", 1, pools=("spot",), entitlement=1)
        policy = a_policy(b, c, pools=(an_elastic_pool(gpus=6, gpus_per_node=8),))
        story = Story(policy, a_snapshot(policy, {"b": 6}, {"b": {"concurrency": 8.0}}, nodes={"spot": 1}))
        story.pool("spot", nodes=(replace(story.view("spot").nodes[0], gpus=6),))
        story.target("b", autoscaler=ours(6, 6))
        change = change_of(story.plan(), "b")
        assert (change.kind, change.replicas_to, change.minimum) == ("release", 5, 5)

    def test_the_whole_fleet_shares_one_limit(self) -> None:
        # Ten models of 4 lower their minimums in one plan, all below need: 10 % of 30 above floors is 3, not 10.
        models = tuple(a_model(f"m{n}", 1, pools=("spot",), entitlement=1) for n in range(10))
        policy = a_policy(*models, pools=(an_elastic_pool(gpus=64, gpus_per_node=8),))
        held, load = {model.id: 4 for model in models}, {model.id: {"concurrency": 4.0} for model in models}
        work = {model.id: 4.0 for model in models}
        story = Story(policy, a_snapshot(policy, held, load, work, nodes={"spot": 5}))
        for model in models:
            story.target(model.id, autoscaler=ours(4, 4))
        story.turns(5)
        assert sum(bounds(story, model.id)[0] for model in models) == 37


class TestSeveralTargets:
    """Model b has a fixed a100 and a growing spot; its floor is 4."""

    def a_story(self, held: dict[str, int], wanted: int, a100: AutoscalerView, spot: AutoscalerView) -> Story:
        b = a_model("b", 4, pools=("a100", "spot"), entitlement=4)
        policy = a_policy(b, pools=(a_pool(gpus=8), an_elastic_pool(gpus=32, gpus_per_node=8)))
        load = {"b": {"concurrency": 4.0 * wanted}}
        story = Story(policy, a_snapshot(policy, {"b": held}, load, {"b": 0.5}, nodes={"spot": 2}))
        story.target("b", "a100", autoscaler=a100)
        story.target("b", "spot", autoscaler=spot)
        return story

    def test_the_sum_of_minimums_holds_the_floor_the_primary_pool_first(self) -> None:
        # 3 on a100 are fixed; 6 on spot follow demand 4: 4 - 3 = 1 of them must stay.
        story = self.a_story({"a100": 3, "spot": 6}, 4, ours(3, 3), ours(6, 6))
        story.turns(10)
        assert bounds(story, pool="a100") == (3, 3)
        assert bounds(story, pool="spot") == (1, 6)

    def test_what_loads_elsewhere_holds_nothing_yet(self) -> None:
        # The 3 on a100 are not Ready: spot's minimum stays where its Ready ones hold the floor alone.
        story = self.a_story({"a100": 3, "spot": 6}, 4, ours(3, 3), ours(6, 6))
        story.target("b", "a100", pods=tuple(replace(pod, phase="loading") for pod in story.of("b", "a100").pods))
        for _ in range(8):
            story.write(story.plan())
            story.wait(10.0)
        assert bounds(story, pool="spot") == (4, 6)
        assert refusal_of(story.plans[-1], "floor", "b").why == "its floor is 4"

    def test_a_release_does_not_count_on_what_an_hpa_may_take(self) -> None:
        # a wants its GPUs: b's 3 on a100 and 6 on spot are 9, but spot's HPA may go down to 2 by itself. 2 + 3 is one
        # above the floor: one goes home.
        models = (a_model("a", 1, entitlement=4), a_model("b", 4, pools=("a100", "spot"), entitlement=4))
        policy = a_policy(*models, pools=(a_pool(gpus=4), an_elastic_pool(gpus=32, gpus_per_node=8)))
        readings = {"a": {"concurrency": 16.0}, "b": {"concurrency": 20.0}}
        held: dict[str, Replicas] = {"a": 1, "b": {"a100": 3, "spot": 6}}
        story = Story(policy, a_snapshot(policy, held, readings, {"b": 0.5}, nodes={"spot": 1}))
        story.target("b", "a100", autoscaler=ours(3, 3))
        story.target("b", "spot", autoscaler=ours(2, 6))
        plan = story.plan()
        assert change_of(plan, "b", "a100").replicas_to == 2
        assert refusal_of(plan, "floor", "b").why == "its floor is 4 and its autoscalers could go down to 3"

    def test_a_raised_minimum_counts_once_the_hpa_has_followed_it(self) -> None:
        # Its floor is 2. Spot has no node left, so the one asked for there is to go; on a100 the minimum has just been
        # raised from 1 to 3, and the HPA, which looks every 15 s, still asks for 1: 1 + 0 is below the floor.
        b = a_model("b", 2, pools=("a100", "spot"), entitlement=2)
        policy = a_policy(b, pools=(a_pool(gpus=8), an_elastic_pool(gpus=8, gpus_per_node=8)))
        held: dict[str, Replicas] = {"b": {"a100": 1, "spot": 1}}
        story = Story(policy, a_snapshot(policy, held, {"b": {"concurrency": 8.0}}, {"b": 2.0}))
        story.target("b", "a100", autoscaler=ours(3, 3))
        nowhere = tuple(replace(pod, node=None, phase="pending") for pod in story.of("b", "spot").pods)
        story.target("b", "spot", pods=nowhere)
        story.pool("spot", nodes=())
        plan = story.plan()
        assert refusal_of(plan, "floor", "b").why == (
            "its floor is 2 and its autoscalers could go down to 1; pool spot shrank, "
            "it has 0 GPUs in its budget and 1 promised"
        )
        assert moves(plan) == {}
        story.kubernetes()
        assert change_of(story.plan(), "b", "spot").replicas_to == 0

    def test_an_hpa_left_to_itself_never_takes_the_model_below_its_floor(self) -> None:
        # Whatever the plans do, the HPAs go to their minimums at once: 4 stay at every moment.
        story = self.a_story({"a100": 3, "spot": 6}, 1, ours(3, 3), ours(6, 6))
        for _ in range(40):
            story.write(story.plan())
            for pool in ("a100", "spot"):
                story.target("b", pool, replicas=bounds(story, pool=pool)[0])
            assert story.replicas("b") >= 4
            story.settle()
            story.wait(10.0)
