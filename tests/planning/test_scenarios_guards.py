"""Every guard with its numbers: what it declines, what passes it, and from when on it lets go.

The mutants of `tests/mutants` break each guard in turn; the tests marked by its name here must then fail.
"""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Loss, Memory, ModelMemory
from rebalancer.domain.readings import Work
from tests.builders import (
    Replicas,
    a_model,
    a_node,
    a_policy,
    a_pool,
    a_snapshot,
    an_elastic_pool,
    an_override,
)
from tests.planning import cluster
from tests.planning.doubts import an_outage
from tests.planning.judged import lost
from tests.planning.story import (
    Story,
    change_of,
    moves,
    refusal_of,
    refused,
    unmet_of,
)


def a_donor_and_a_needy(held: int = 7, floor: int = 1, need: float = 0.0, gpus: int = 8) -> Story:
    """Model a holds `held`, needs `need` of them by its work, and everything beyond its floor may be asked of it.

    b wants the whole pool, with a higher priority.
    """
    models = (a_model("a", floor, priority=1), a_model("b", 1, priority=1000))
    policy = a_policy(*models, pools=(a_pool(gpus=gpus),))
    readings = {"a": {"concurrency": 4.0 * held}, "b": {"concurrency": 4.0 * gpus}}
    story = Story(policy, a_snapshot(policy, {"a": held, "b": 1}, readings, {"a": need, "b": float(gpus)}))
    story.turn()  # borrowing waits one planning period
    return story


class TestFloor:
    def test_no_release_goes_below_it(self) -> None:
        plan = a_donor_and_a_needy(floor=3).plan()
        assert moves(plan) == {"a": (7, 3)}

    def test_nor_does_a_person_who_does_not_say_so(self) -> None:
        policy = a_policy(a_model("b", 2, entitlement=4), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}))
        story.override(an_override("pin", value=0))
        assert moves(story.plan()) == {"b": (4, 2)}

    def test_nor_does_a_drain(self) -> None:
        story = a_donor_and_a_needy(held=3, floor=3, gpus=4)
        story.notice("a100-1", karpenter=True)
        plan = story.plan()
        assert moves(plan) == {}
        assert refusal_of(plan, "floor", "a").numbers == {"floor": 3, "after": 2}

    def test_a_ready_replica_does_not_go_while_another_one_of_the_floor_loads(self) -> None:
        # a has 2 Ready on a100 and 2 that load on spot, its floor is 2: b's claim on a100 waits for the loading ones.
        a = a_model("a", 2, pools=("a100", "spot"), priority=1)
        policy = a_policy(
            a, a_model("b", 1, entitlement=2), pools=(a_pool(gpus=3), an_elastic_pool(gpus=8, node_pools=()))
        )
        readings = {"a": {"concurrency": 8.0}, "b": {"concurrency": 12.0}}
        held: dict[str, Replicas] = {"a": {"a100": 2, "spot": 2}, "b": 1}
        story = Story(policy, a_snapshot(policy, held, readings, nodes={"spot": 1}))
        ready = story.of("a", "spot").pods
        story.target("a", "spot", pods=tuple(replace(pod, phase="loading") for pod in ready))
        plan = story.plan()
        assert moves(plan) == {}
        assert refusal_of(plan, "floor", "a").why == "its floor is 2 and 1 would be Ready"
        story.target("a", "spot", pods=ready)
        assert change_of(story.plan(), "a", "a100").replicas_to == 1


def limit(story: Story, gpus: int) -> None:
    """The policy lets its only pool have so many GPUs from now on."""
    (pool,) = story.policy.pools
    story.policy = story.policy.model_copy(update={"pools": (pool.model_copy(update={"gpu_limit": gpus}),)})


class TestBudget:
    def test_no_raise_is_promised_beyond_it(self) -> None:
        # 8 GPUs free on the node, but the policy lets us use 5: b holds 1 and gets 4.
        policy = a_policy(a_model("b", entitlement=5), pools=(a_pool(gpus=5),))
        story = Story(policy, a_snapshot(policy, {"b": 1}, {"b": {"concurrency": 100.0}}))
        story.pool("a100", nodes=(a_node("a100-1", 8, labels={"pool": "a100"}),))
        story.turns(3)
        assert story.replicas("b") == 5

    def test_what_terminates_or_surges_is_promised_though_nobody_asks_for_it(self) -> None:
        # a was asked from 6 to 2 and its 4 pods terminate on a node that has left the list of Ready ones: by the asked
        # numbers 5 GPUs are free, by the promised ones 1.
        policy = a_policy(a_model("a", 2), a_model("b", entitlement=5), pools=(a_pool(gpus=8),))
        story = Story(
            policy, a_snapshot(policy, {"a": 6, "b": 1}, {"a": {"concurrency": 8.0}, "b": {"concurrency": 20.0}})
        )
        gone = "a100-2"
        pods = [
            replace(pod, phase="terminating", node=gone) if n >= 2 else pod for n, pod in enumerate(story.of("a").pods)
        ]
        story.target("a", replicas=2, pods=tuple(pods))
        story.pool("a100", nodes=(a_node("a100-1", 8, labels={"pool": "a100"}),))
        plan = story.plan()
        assert moves(plan) == {"b": (1, 2)}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "waiting"
        assert "room in pool a100, where 8 of 8 GPUs are promised" in unmet.why

    def test_foreign_pods_shrink_it(self) -> None:
        policy = a_policy(a_model("b", entitlement=8), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"b": 1}, {"b": {"concurrency": 100.0}}))
        story.pool("a100", nodes=(a_node("a100-1", 8, foreign_gpus=3, labels={"pool": "a100"}),))
        story.turns(3)
        assert story.replicas("b") == 5
        assert story.plans[-1].pools[0].budget == 5

    def test_when_it_shrinks_releases_are_owed_surplus_first_then_what_is_borrowed_then_by_priority(self) -> None:
        # The policy's limit goes from 16 GPUs down to 8, 16 are promised. c's 3 idle ones go first; then what low and
        # high borrow, low first; entitlements last. None of it is needed (no work), so no limit asks.
        models = (
            a_model("c", 1, entitlement=1, priority=500),
            a_model("high", 1, entitlement=4, priority=900),
            a_model("low", 1, entitlement=2, priority=10),
        )
        policy = a_policy(*models, pools=(a_pool(gpus=16),))
        readings = {"c": {"concurrency": 4.0}, "high": {"concurrency": 28.0}, "low": {"concurrency": 20.0}}
        story = Story(policy, a_snapshot(policy, {"c": 4, "high": 7, "low": 5}, readings))
        story.plan()
        story.wait(30.0)
        limit(story, 13)
        assert moves(story.plan()) == {"c": (4, 1)}
        limit(story, 10)
        assert moves(story.plan()) == {"c": (4, 1), "low": (5, 2)}
        limit(story, 8)
        assert moves(story.plan()) == {"c": (4, 1), "low": (5, 2), "high": (7, 5)}
        limit(story, 4)
        assert moves(story.plan()) == {"c": (4, 1), "low": (5, 1), "high": (7, 2)}

    def test_down_to_floors_and_the_rest_is_unmet(self) -> None:
        policy = a_policy(a_model("b", 4, entitlement=8), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"b": 8}, {"b": {"concurrency": 32.0}}))
        limit(story, 2)
        plan = story.turn()
        assert moves(plan) == {"b": (8, 4)}
        assert change_of(plan, "b").reason.startswith(
            "gives up 4 replicas, since pool a100 has 2 GPUs in its budget and 8 promised"
        )
        assert all(moves(later) == {} for later in story.turns(3))
        assert unmet_of(story.plans[-1], "b") is not None

    def test_unknown_it_moves_nothing(self) -> None:
        # No node is seen while pods run there: neither up nor down, neither for demand nor for a floor.
        policy = a_policy(a_model("a", 3), a_model("b", entitlement=8), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 2, "b": 3}, {"b": {"concurrency": 100.0}}))
        story.pool("a100", nodes=())
        plans = story.turns(3)
        assert all(moves(plan) == {} for plan in plans)
        assert plans[-1].pools[0].budget is None
        unmet = unmet_of(plans[-1], "b")
        assert unmet is not None
        assert (unmet.constraint, unmet.why) == (
            "budget",
            "the budget of pool a100 is unknown: no node of pool a100 is seen while pods run there",
        )

    def test_an_empty_pool_without_pods_is_just_empty(self) -> None:
        policy = a_policy(a_model("b", entitlement=8), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 100.0}}, nodes={"a100": 0}))
        plan = story.plan()
        assert plan.empty
        assert plan.pools[0].budget == 0


class TestStep:
    """A growing pool where surplus costs; b holds 10, its floor is 0, all of it is needed by its work."""

    def a_story(self, held: int = 10, work: float = 10.0, share: float = 1.0) -> Story:
        b = a_model("b", 0, pools=("spot",), entitlement=0)
        guards = {"fleet": {"share": share, "window_seconds": 300.0}}
        policy = a_policy(b, pools=(an_elastic_pool(gpus=64, gpus_per_node=8),), guards=guards)
        load = {"b": {"concurrency": 0.0}}
        story = Story(policy, a_snapshot(policy, {"b": held}, load, {"b": work}, nodes={"spot": 2}))
        story.plan()
        story.wait(30.0)
        return story

    def test_a_model_loses_at_most_a_fifth_in_five_minutes(self) -> None:
        story = self.a_story()
        plan = story.turn()
        assert moves(plan) == {"b": (10, 8)}
        refusal = refusal_of(plan, "step", "b")
        assert (refusal.replicas_from, refusal.replicas_to) == (8, 0)
        assert refusal.numbers == {"lost": 2, "limit": 2, "base": 10, "window_seconds": 300.0, "need": 15}
        assert refusal.why.startswith(
            "it has lost 2 of at most 2 replicas in 300 s, and the slow mean of its last 20 minutes, 10 replicas of"
        )

    def test_the_window_slides(self) -> None:
        story = self.a_story()
        story.turn()
        assert all(moves(plan) == {} for plan in story.turns(29))
        assert refusal_of(story.plans[-1], "step", "b").until == story.snapshot.at
        assert moves(story.turn()) == {"b": (8, 7)}  # max(1, 20 % of 8)

    def test_one_always_may_go(self) -> None:
        assert moves(self.a_story(held=3, work=3.0).turn()) == {"b": (3, 2)}

    def test_what_is_above_present_need_goes_at_once_and_counts_for_nothing(self) -> None:
        # Work 1: ceil(1 + 1.5) = 3 are needed, 7 of 10 are surplus; below that 2 more.
        story = self.a_story(work=1.0)
        change = change_of(story.turn(), "b")
        assert (change.replicas_to, change.counts, change.counted) == (1, "step", 2)

    def test_unknown_work_is_need(self) -> None:
        story = self.a_story()
        story.snapshot = replace(
            story.snapshot, loads=tuple(replace(load, work=Work()) for load in story.snapshot.loads)
        )
        assert moves(story.turn()) == {"b": (10, 8)}

    def test_it_holds_across_a_restart(self) -> None:
        # Memory is what a restart keeps: 2 lost 100 s ago are 2 of at most floor(20 % of 10) = 2.
        story = self.a_story(held=8)
        lost = (Loss(at=story.snapshot.at - 100.0, replicas=2, counts="step"),)
        models = {"b": replace(story.memory.models["b"], losses=lost)}
        story.memory = Memory(models=models)
        plan = story.plan()
        assert moves(plan) == {}
        assert refusal_of(plan, "step", "b").until == story.snapshot.at + 200.0

    def test_the_promised_instant_is_the_one_at_which_the_next_may_go(self) -> None:
        # 3 lost of the 10 that it had: with each loss that leaves the window the base shrinks, too, so all three must.
        story = self.a_story(held=7)
        now = story.snapshot.at
        losses = tuple(Loss(at=now - ago, replicas=1, counts="step") for ago in (200.0, 100.0, 50.0))
        story.memory = Memory(models={"b": replace(story.memory.models["b"], losses=losses)})
        promised = refusal_of(story.plan(), "step", "b").until
        assert promised == now + 250.0
        for _ in range(25):  # at 0 s to 240 s
            plan = story.turn()
            assert moves(plan) == {}
            assert refusal_of(plan, "step", "b").until == promised
        assert moves(story.turn()) == {"b": (7, 6)}

    def test_what_this_very_plan_takes_leaves_the_window_last(self) -> None:
        story = self.a_story()
        plan = story.turn()
        assert refusal_of(plan, "step", "b").until == plan.at + 300.0


class TestFleet:
    def test_all_together_lose_at_most_a_tenth_of_what_is_above_floors_in_five_minutes(self) -> None:
        # Five models of 8, floors of 2: 30 above floors, so 3 in 5 min, whoever they are; each alone could lose 1.
        models = tuple(a_model(f"m{n}", 2, pools=("spot",), entitlement=2) for n in range(5))
        policy = a_policy(*models, pools=(an_elastic_pool(gpus=64, gpus_per_node=8),))
        held = {model.id: 8 for model in models}
        readings = {model.id: {"concurrency": 0.0} for model in models}
        work = {model.id: 8.0 for model in models}
        story = Story(policy, a_snapshot(policy, held, readings, work, nodes={"spot": 5}))
        story.plan()
        story.wait(30.0)
        plan = story.turn()
        assert sum(before - after for before, after in moves(plan).values()) == 3
        refusal = refusal_of(plan, "fleet", "m4")
        assert (refusal.numbers["lost"], refusal.numbers["limit"], refusal.numbers["base"]) == (3, 3, 30)
        assert all(moves(later) == {} for later in story.turns(29))


class TestShift:
    def test_a_donor_gives_at_most_half_of_what_it_holds_above_its_floor_in_ten_seconds(self) -> None:
        # 7 held, floor 1, all needed: half of 6 is 3.
        story = a_donor_and_a_needy(need=7.0)
        plan = story.turn(2.0)
        assert moves(plan) == {"a": (7, 4)}
        assert change_of(plan, "a").counts == "shift"
        refusal = refusal_of(plan, "shift", "a")
        assert refusal.why.startswith(
            "it has given away 3 of at most 3 replicas in 10 s, and the slow mean of its last 20 minutes, 7 replicas"
        )
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "shift"
        assert all("a" not in moves(later) for later in story.turns(4, 2.0))
        assert moves(story.turn())["a"] == (4, 3)  # 3 lost long ago; half of 3 above the floor, at least 1

    def large_and_small(self, floor: int, owned: int) -> Story:
        """Model a holds the 4 GPUs of a node, owns `owned` and needs all; b has none and needs 2 on one node.

        Half of the 2 that a has above its floor of 2 is 1: by that alone b would never come.
        """
        b = a_model("b", floor, gpus_per_replica=2, priority=1000)
        policy = a_policy(a_model("a", 2, priority=1, entitlement=owned), b, pools=(a_pool(gpus=4),))
        readings = {"a": {"concurrency": 16.0}, "b": {"concurrency": 4.0}}
        story = Story(policy, a_snapshot(policy, {"a": 4}, readings, {"a": 4.0}))
        story.turn()
        return story

    def test_as_many_go_as_make_room_for_one_replica_of_a_model_under_its_floor(self) -> None:
        story = self.large_and_small(floor=1, owned=4)
        assert moves(story.plans[0]) == {"a": (4, 2)}
        story.settle()
        assert moves(story.turn()) == {"b": (0, 1)}

    def test_for_other_models_too_but_in_as_many_windows_as_one_by_one(self) -> None:
        # Half of the 6 that a has above its floor of 2 is 3, and b needs 4 on one node: in 20 s no more than those.
        b = a_model("b", 0, gpus_per_replica=4, priority=1000)
        policy = a_policy(a_model("a", 2, priority=1, entitlement=0), b, pools=(a_pool(gpus=8),))
        readings = {"a": {"concurrency": 32.0}, "b": {"concurrency": 8.0}}
        story = Story(policy, a_snapshot(policy, {"a": 8}, readings, {"a": 8.0}))
        story.turn()  # who borrows waits 10 s
        assert moves(story.turn()) == {"a": (8, 4)}
        assert moves(story.turn(1.0))["b"] == (0, 1)

    def test_what_went_one_by_one_counts_against_those_that_go_together(self) -> None:
        story = self.large_and_small(floor=0, owned=0)
        assert moves(story.plan()) == {"a": (4, 2)}
        again = self.a_pair_that_waits(lost_seconds_ago=15.0)
        assert moves(again.plan()) == {}
        assert refusal_of(again.plans[-1], "shift", "a").why == (
            "it has given away 2 of at most 2 replicas in 20 s, and the slow mean of its last 20 minutes, "
            "4 replicas of work, needs 7, with room for bursts"
        )
        assert moves(self.a_pair_that_waits(lost_seconds_ago=25.0).plan()) == {"a": (4, 2)}

    def a_pair_that_waits(self, lost_seconds_ago: float) -> Story:
        """The same pair, of which a gave one away so long ago."""
        b = a_model("b", 0, gpus_per_replica=2, priority=1000)
        policy = a_policy(a_model("a", 2, priority=1, entitlement=0), b, pools=(a_pool(gpus=4),))
        readings = {"a": {"concurrency": 16.0}, "b": {"concurrency": 4.0}}
        story = Story(policy, a_snapshot(policy, {"a": 4}, readings, {"a": 4.0}))
        story.turn()
        lost(story, "a", 1, "shift", lost_seconds_ago)
        return story

    def test_surplus_is_not_limited(self) -> None:
        assert moves(a_donor_and_a_needy(need=0.1).turn()) == {"a": (7, 1)}

    def test_it_does_not_use_up_step_and_fleet(self) -> None:
        story = a_donor_and_a_needy(need=7.0)
        story.turn()
        story.plan()
        assert [loss.counts for loss in story.memory.models["a"].losses] == ["shift"]

    def test_all_victims_of_one_replica_go_or_none(self) -> None:
        # b needs 4 GPUs on one node; a gives 3 of its 7 and c, of which nothing is known yet, none.
        models = (
            a_model("a", 4, priority=1),
            a_model("b", 0, gpus_per_replica=4, entitlement=0, priority=1000),
            a_model("c", 0, priority=1),
        )
        policy = a_policy(*models, pools=(a_pool(gpus=8),))
        readings = {"a": {"concurrency": 28.0}, "b": {"concurrency": 4.0}, "c": {"concurrency": 4.0}}
        story = Story(policy, a_snapshot(policy, {"a": 7, "c": 1}, readings, {"a": 7.0, "c": 1.0}))
        story.load("c", {"concurrency": 4.0}, 1.0, intervals_live=0)
        story.turn()
        plan = story.plan()
        assert moves(plan) == {}
        assert refused(plan) == {("start", "c")}

    def test_none_goes_before_one_that_loads_and_is_kept(self) -> None:
        # The budget shrank by the GPU that a's last replica loads on; after an outage nothing goes for that. What goes
        # home to b in the same plan would be that replica, not the one whose GPU b is promised.
        policy = a_policy(a_model("a", 0, entitlement=0), a_model("b", 0, entitlement=2), pools=(a_pool(gpus=8),))
        readings = {"a": {"concurrency": 32.0}, "b": {"concurrency": 8.0}}
        story = Story(policy, a_snapshot(policy, {"a": 8}, readings, {"a": 8.0, "b": 2.0}))
        story.target("a", pods=(*story.of("a").pods[:-1], replace(story.of("a").pods[-1], phase="loading")))
        story.pool("a100", nodes=tuple(replace(one, foreign_gpus=1) for one in story.view("a100").nodes))
        story.memory = Memory(outages=(an_outage(story),))
        plan = story.plan()
        assert moves(plan) == {}
        assert ("sudden", "a") in refused(plan)
        story.settle()
        assert moves(story.plan()) == {"a": (8, 6)}


@pytest.mark.parametrize("blind", ["a", "b"])
def test_memory_of_a_model_that_left_the_policy_is_forgotten(blind: str) -> None:
    story = a_donor_and_a_needy()
    story.memory = Memory(models={"gone": ModelMemory(demand=3), blind: ModelMemory(demand=1)})
    story.plan()
    assert sorted(story.memory.models) == ["a", "b"]


def test_a_plan_never_changes_what_it_was_given() -> None:
    story = a_donor_and_a_needy(need=7.0)
    before = (story.snapshot, story.memory)
    kept = (cluster.later(story.snapshot, 0.0), replace(story.memory))
    story.plan()
    assert before[1] == kept[1]
    assert before[0].models == kept[0].models
