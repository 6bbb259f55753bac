"""All demands meet the GPUs there are: floors, entitlements, priority, lending and reclaiming, shifts."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from rebalancer.domain.policy import Policy
from rebalancer.domain.sync import Sync
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.story import (
    Story,
    change_of,
    decision_of,
    moves,
    node_pool_changes,
    refusal_of,
    unmet_of,
)


def in_flight(**replicas: int) -> dict[str, dict[str, float]]:
    """Requests in flight that keep so many replicas of each model busy (4 per replica)."""
    return {model: {"concurrency": 4.0 * count} for model, count in replicas.items()}


def a_story(
    policy: Policy,
    held: Mapping[str, int | Mapping[str, int]],
    wanted: dict[str, int],
    nodes: Mapping[str, int] | None = None,
) -> Story:
    """Models that hold `held` Ready replicas and want `wanted`; none of them presently needs what it has."""
    return Story(policy, a_snapshot(policy, held, in_flight(**wanted), nodes=nodes))


class TestFloors:
    def test_floors_come_before_everything_else(self) -> None:
        # 8 GPUs: a holds 7 and wants 8 with the highest priority there is, b has 1 of its floor of 3. a gives 2.
        a, b = a_model("a", entitlement=5, priority=1000), a_model("b", 3, priority=1)
        policy = a_policy(a, b, pools=(a_pool(gpus=8),))
        plan = a_story(policy, {"a": 7, "b": 1}, {"a": 8, "b": 0}).plan()
        assert moves(plan) == {"a": (7, 5)}
        assert change_of(plan, "a").recipients == ("b",)

    def test_a_floor_is_asked_for_without_any_demand(self) -> None:
        policy = a_policy(a_model("b", 2), pools=(a_pool(gpus=4),))
        assert moves(a_story(policy, {"b": 0}, {"b": 0}).plan()) == {"b": (0, 2)}

    def test_a_floor_is_asked_for_while_the_model_is_unseen(self) -> None:
        policy = a_policy(a_model("b", 2), pools=(a_pool(gpus=4),))
        assert moves(Story(policy, a_snapshot(policy, {"b": 1})).plan()) == {"b": (1, 2)}

    def test_no_donor_gives_below_its_own_floor(self) -> None:
        # b's floor is 6 and it has 0; a gives everything above its own floor of 3: 5 of 8.
        policy = a_policy(a_model("a", 3), a_model("b", 6, priority=1000), pools=(a_pool(gpus=8),))
        story = a_story(policy, {"a": 8}, {"a": 8, "b": 8})
        assert moves(story.turn()) == {"a": (8, 3)}
        story.turns(12)
        assert (story.replicas("a"), story.replicas("b")) == (3, 5)

    def test_every_floor_comes_before_any_entitlement(self) -> None:
        # 6 free GPUs, three floors of 1 and a's entitlement of 6: 1 + 1 + 1, and what is left is a's.
        a = a_model("a", entitlement=6, priority=1000)
        policy = a_policy(a, a_model("b"), a_model("c"), pools=(a_pool(gpus=6),))
        assert moves(a_story(policy, {}, {"a": 6}).plan()) == {"a": (0, 4), "b": (0, 1), "c": (0, 1)}


class TestEntitlements:
    def test_a_wanted_entitlement_comes_before_anybodys_borrowing(self) -> None:
        # 4 free GPUs. b owns 4 and wants 4; a owns 1 and wants 8 with ten times the priority.
        policy = a_policy(
            a_model("a", priority=1000), a_model("b", entitlement=5, priority=100), pools=(a_pool(gpus=6),)
        )
        assert moves(a_story(policy, {"a": 1, "b": 1}, {"a": 8, "b": 5}).plan()) == {"b": (1, 5)}

    def test_an_entitlement_that_is_not_wanted_is_nobodys_claim(self) -> None:
        policy = a_policy(a_model("b", entitlement=6), pools=(a_pool(gpus=6),))
        assert a_story(policy, {"b": 2}, {"b": 2}).plan().empty

    def test_the_owner_is_served_on_its_primary_pool_before_an_elastic_one(self) -> None:
        # b prefers spot, but what it owns is on a100.
        b = a_model("b", pools=("spot", "a100"), entitlement=2)
        policy = a_policy(b, pools=(a_pool(gpus=4), an_elastic_pool(gpus=8)))
        plan = a_story(policy, {"b": {"spot": 0, "a100": 1}}, {"b": 4}, nodes={"spot": 1}).plan()
        assert change_of(plan, "b", "a100").replicas_to == 2


class TestPriority:
    def test_the_higher_priority_is_served_first(self) -> None:
        # 3 GPUs are free, both want 3 more.
        policy = a_policy(a_model("a", priority=10), a_model("b", priority=20), pools=(a_pool(gpus=5),))
        story = a_story(policy, {"a": 1, "b": 1}, {"a": 4, "b": 4})
        story.turn()
        assert moves(story.turn()) == {"b": (1, 4)}

    def test_equals_take_turns(self) -> None:
        # 5 GPUs are free, both want 4 more: 3 and 2, the first id first.
        policy = a_policy(a_model("a"), a_model("b"), pools=(a_pool(gpus=7),))
        story = a_story(policy, {"a": 1, "b": 1}, {"a": 5, "b": 5})
        story.turn()
        assert moves(story.turn()) == {"a": (1, 4), "b": (1, 3)}

    def test_nobody_robs_an_equal(self) -> None:
        policy = a_policy(a_model("a"), a_model("b"), pools=(a_pool(gpus=8),))
        story = a_story(policy, {"a": 7, "b": 1}, {"a": 7, "b": 7})
        assert all(plan.empty for plan in story.turns(40))
        unmet = unmet_of(story.plans[-1], "b")
        assert unmet is not None
        assert (unmet.replicas, unmet.constraint, unmet.since) == (6, "budget", NOW + 10.0)

    def test_lower_priority_gives_what_it_borrowed(self) -> None:
        # a needs nothing of what it holds (no offered work): all 5 beyond its entitlement of 2 go at once.
        policy = a_policy(a_model("a", entitlement=2, priority=1), a_model("b", priority=2), pools=(a_pool(gpus=8),))
        story = a_story(policy, {"a": 7, "b": 1}, {"a": 7, "b": 8})
        story.turn()
        assert moves(story.turn()) == {"a": (7, 2)}

    def test_lower_priority_keeps_what_it_owns(self) -> None:
        policy = a_policy(a_model("a", entitlement=7, priority=1), a_model("b", priority=1000), pools=(a_pool(gpus=8),))
        story = a_story(policy, {"a": 7, "b": 1}, {"a": 7, "b": 8})
        assert all(plan.empty for plan in story.turns(40))

    def test_more_priority_takes_from_the_lowest_first(self) -> None:
        policy = a_policy(
            a_model("a", priority=30), a_model("b", priority=20), a_model("c", priority=900), pools=(a_pool(gpus=8),)
        )
        held, load = {"a": 3, "b": 4, "c": 1}, in_flight(a=3, b=4, c=3)
        story = Story(policy, a_snapshot(policy, held, load, {"a": 0.0, "b": 0.0, "c": 1.0}))
        story.turn()
        assert moves(story.turn()) == {"b": (4, 2)}


class TestLendAndReclaim:
    """16 GPUs, a and b own 8 each."""

    def a_pair(self, held: dict[str, int], wanted: dict[str, int]) -> Story:
        policy = a_policy(a_model("a", entitlement=8), a_model("b", entitlement=8), pools=(a_pool(gpus=16),))
        return a_story(policy, held, wanted)

    def test_idle_gpus_are_lent_and_booked_to_the_owner_with_most_unused_entitlement(self) -> None:
        story = self.a_pair({"a": 2, "b": 8}, {"a": 2, "b": 12})
        story.turns(3)
        assert story.replicas("b") == 12
        assert [(loan.borrower, loan.owner, loan.gpus) for loan in story.memory.loans] == [("b", "a", 1)] * 4
        plan = story.plan()
        assert decision_of(plan, "b").borrowed == 4
        assert decision_of(plan, "a").lent == 4
        assert decision_of(plan, "a").why == "lends 4 GPUs to b; has 0 replicas of work on 2"

    def test_a_returning_owner_gets_its_gpus_home_in_its_next_cycle(self) -> None:
        # a wants its 8 back: 2 are its own now, 2 are free, 4 are lent. The borrower's limits do not ask.
        story = self.a_pair({"a": 2, "b": 12}, {"a": 8, "b": 12})
        story.load("b", {"concurrency": 48.0}, work=12.0)
        plan = story.plan()
        assert moves(plan) == {"b": (12, 8), "a": (2, 4)}
        back = change_of(plan, "b")
        assert (back.passes, back.recipients, back.counts) == ("reclaim", ("a",), "exempt")
        assert back.reason.startswith("returns 4 borrowed replicas to a: a has ")

    def test_it_goes_no_further_than_the_borrowers_entitlement(self) -> None:
        # a wants 12: 8 are its own, the other 4 b owns and needs.
        story = self.a_pair({"a": 2, "b": 12}, {"a": 12, "b": 12})
        story.load("b", {"concurrency": 48.0}, work=12.0)
        story.turns(20)
        assert (story.replicas("a"), story.replicas("b")) == (8, 8)

    def test_a_blind_borrower_gives_back_all_the_same(self) -> None:
        story = self.a_pair({"a": 2, "b": 12}, {"a": 8})
        assert moves(story.plan()) == {"b": (12, 8), "a": (2, 4)}

    def test_but_the_owners_own_vote_must_be_usable(self) -> None:
        # a is unseen and below its floor: what it takes then is a shift, and the blind b is protected from it.
        policy = a_policy(a_model("a", 4, entitlement=8), a_model("b", entitlement=8), pools=(a_pool(gpus=16),))
        story = a_story(policy, {"a": 2, "b": 14}, {})
        plan = story.plan()
        assert moves(plan) == {}
        assert refusal_of(plan, "blind", "b").replicas_from == 14

    def test_loans_end_last_in_first_out(self) -> None:
        story = self.a_pair({"a": 2, "b": 8}, {"a": 2, "b": 10})
        story.turns(3)
        story.load("b", {"concurrency": 48.0})
        story.turns(3)
        granted = [loan.at for loan in story.memory.loans]
        assert granted == sorted(granted)
        assert len(set(granted)) == 2
        story.load("a", {"concurrency": 24.0})  # a wants 6: 2 of the 4 lent ones come home
        story.turns(3)
        assert [loan.at for loan in story.memory.loans] == granted[:2]

    def test_elastic_gpus_are_nobodys(self) -> None:
        b = a_model("b", pools=("a100", "spot"), entitlement=2)
        policy = a_policy(b, pools=(a_pool(gpus=2), an_elastic_pool(gpus=8)))
        story = Story(policy, a_snapshot(policy, {"b": {"a100": 2, "spot": 2}}, in_flight(b=4), nodes={"spot": 1}))
        story.plan()
        assert [(loan.pool, loan.owner) for loan in story.memory.loans] == [("spot", None)] * 2


class TestLender:
    def test_a_loan_goes_on_in_the_name_of_who_lends_when_its_owner_uses_all_of_its_own(self) -> None:
        # 14 GPUs, 4 each of a and c and 6 of b. c holds 5: one more than its own, lent by a, which holds 3.
        models = [a_model("a", entitlement=4), a_model("b", entitlement=6), a_model("c", entitlement=4)]
        story = a_story(a_policy(*models, pools=(a_pool(gpus=14),)), {"a": 3, "b": 5, "c": 5}, {"a": 3, "b": 5, "c": 5})
        story.turn()
        assert [(loan.borrower, loan.owner) for loan in story.memory.loans] == [("c", "a")]
        since = story.memory.loans[0].at
        story.load("a", {"concurrency": 16.0}, work=4.0)  # a takes the free GPU, and has 4 of 4
        story.turns(3)
        assert story.replicas("a") == 4
        plan = story.plan()
        assert [(loan.borrower, loan.owner, loan.at) for loan in story.memory.loans] == [("c", "b", since)]
        assert (decision_of(plan, "a").lent, decision_of(plan, "b").lent) == (0, 1)
        assert (decision_of(plan, "b").why, decision_of(plan, "a").why) == (
            "lends 1 GPU to c; has 0 replicas of work on 5",
            "has 4 replicas of work on 4",
        )

    def test_what_is_lent_counts_in_gpus(self) -> None:
        # a owns 2 replicas of 2 GPUs and holds 1; b borrows both GPUs of the other.
        models = [a_model("a", entitlement=2, gpus_per_replica=2), a_model("b", entitlement=4)]
        story = a_story(a_policy(*models, pools=(a_pool(gpus=8),)), {"a": 1, "b": 6}, {"a": 1, "b": 6})
        plan = story.plan()
        assert [loan.owner for loan in story.memory.loans] == ["a", "a"]
        assert decision_of(plan, "a").why == "lends 2 GPUs to b; has 0 replicas of work on 1"


class TestShift:
    """8 GPUs; a idles on 7 of them, b has 1 and wants 4."""

    def a_pair(self) -> Story:
        policy = a_policy(a_model("a"), a_model("b", entitlement=4), pools=(a_pool(gpus=8),))
        return a_story(policy, {"a": 7, "b": 1}, {"a": 0, "b": 4})

    def test_releases_come_first_and_grants_follow_into_gpus_that_are_free(self) -> None:
        story = self.a_pair()
        plan = story.plan()
        assert moves(plan) == {"a": (7, 4)}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert (unmet.replicas, unmet.constraint) == (3, "waiting")
        assert unmet.why == "it waits for GPUs of a on a100-1; lends 3 GPUs to a: those come home"

        story.write(plan)
        assert story.plan().empty  # written, but no pod has moved
        story.kubernetes()
        assert story.plan().empty  # three pods terminate: their GPUs are not free
        story.settle()
        plan = story.plan()
        assert moves(plan) == {"b": (1, 4)}
        assert change_of(plan, "b").shift == "s1-b-a100"
        assert change_of(plan, "b").nodes == ("a100-1",)

        story.write(plan)
        story.settle()
        assert story.plan().empty

    def test_no_more_is_granted_than_has_become_free(self) -> None:
        story = self.a_pair()
        story.write(story.plan())
        story.kubernetes()
        gone = next(pod for pod in story.of("a").pods if pod.phase == "terminating")
        story.target("a", pods=tuple(pod for pod in story.of("a").pods if pod is not gone))
        assert moves(story.plan()) == {"b": (1, 2)}

    def test_surplus_goes_at_once_whatever_the_limits_say(self) -> None:
        # a needs 1 replica (work 0.1: ceil(0.1 + 1.5 x 0.32) = 1): 6 are surplus, step's 20 % of 7 would be 1.
        policy = a_policy(a_model("a"), a_model("b", entitlement=7), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 7, "b": 1}, in_flight(a=7, b=7), {"a": 0.1}))
        assert moves(story.plan()) == {"a": (7, 1)}

    def test_a_rollout_is_neither_donor_nor_recipient(self) -> None:
        story = self.a_pair()
        story.target("a", rolling=True)
        plan = story.plan()
        assert plan.empty
        story = self.a_pair()
        story.target("b", rolling=True)
        plan = story.plan()
        assert plan.empty
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "rollout"

    def test_a_missing_target_is_neither(self) -> None:
        story = self.a_pair()
        story.target("b", missing=True, pods=(), replicas=0)
        plan = story.plan()
        assert plan.empty
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "missing"

    def test_surge_pods_of_a_rollout_are_promised(self) -> None:
        # a's rollout runs a surge pod beside its 6: 8 GPUs are used up though 7 are asked for, so b gets none.
        policy = a_policy(a_model("a"), a_model("b", entitlement=2), pools=(a_pool(gpus=8),))
        story = a_story(policy, {"a": 7, "b": 1}, {"a": 7, "b": 2})
        story.target("a", replicas=6, rolling=True)
        plan = story.plan()
        assert moves(plan) == {}
        assert plan.pools[0].promised == 8

    def test_the_shift_ends_when_the_last_granted_replica_is_ready(self) -> None:
        story = self.a_pair()
        story.turn()
        story.plan()
        (shift,) = story.memory.shifts
        assert (shift.recipient, shift.donors, shift.replicas, shift.granted_at) == ("b", ("a",), 3, None)
        story.write(story.plan())
        story.kubernetes()
        story.plan()
        assert story.memory.shifts[0].granted_at == story.snapshot.at
        story.settle()
        story.plan()
        assert story.memory.shifts == ()

    def test_two_shifts_of_one_plan_stay_two_though_their_names_joined_are_one(self) -> None:
        # chat on x-a100 and chat-x on a100: both are called chat-x-a100.
        models = (
            a_model("chat", 1, pools=("x-a100",), entitlement=3),
            a_model("chat-x", 1, entitlement=3),
            a_model("d", pools=("x-a100",)),
            a_model("e"),
        )
        policy = a_policy(*models, pools=(a_pool(gpus=8), a_pool("x-a100", gpus=8)))
        held = {"chat": 1, "chat-x": 1, "d": 7, "e": 7}
        story = a_story(policy, held, {"chat": 3, "chat-x": 3, "d": 1, "e": 1})
        story.turn()
        story.plan()
        shifts = [(shift.recipient, shift.pool, shift.donors) for shift in story.memory.shifts]
        assert sorted(shifts) == [("chat", "x-a100", ("d",)), ("chat-x", "a100", ("e",))]

    def test_victims_go_as_kubernetes_deletes(self) -> None:
        # First whose image is still on the way, then who is not Ready, then the youngest.
        story = self.a_pair()
        pods = [replace(pod, created_at=NOW - 100.0 * (n + 1)) for n, pod in enumerate(story.of("a").pods)]
        pods[4] = replace(pods[4], phase="loading")
        pods[5] = replace(pods[5], phase="loading", begun=False)
        story.target("a", pods=tuple(pods))
        change = change_of(story.plan(), "a")
        assert change.victims == tuple(pods[n].uid for n in (5, 4, 0))
        assert change.victim_names == tuple(pods[n].name for n in (5, 4, 0))

    def test_a_replica_that_is_no_pod_yet_goes_before_one_that_serves(self) -> None:
        # c was just asked for one more that nobody has seen; a serves. Both have one beyond their demand. What b
        # votes for has to stand for 20 s.
        policy = a_policy(
            a_model("a", priority=1), a_model("b", entitlement=2), a_model("c", priority=900), pools=(a_pool(gpus=8),)
        )
        story = a_story(policy, {"a": 4, "b": 1, "c": 2}, {"a": 0, "b": 2, "c": 0})
        story.target("c", replicas=3)
        assert moves(story.plan()) == {}
        story.wait(20.0)
        assert moves(story.plan()) == {"c": (3, 2)}

    def test_consolidation_is_held_from_the_release_to_the_last_ready_replica(self) -> None:
        # The same shift on a pool with a NodePool behind it.
        pool = a_pool(gpus=8, node_pools=("a100",), gpus_per_node=8)
        policy = a_policy(a_model("a"), a_model("b", entitlement=4), pools=(pool,))
        story = a_story(policy, {"a": 7, "b": 1}, {"a": 4, "b": 4}, nodes={"a100": 1})
        story.load("a", {"concurrency": 16.0}, work=4.0)
        plan = story.plan()
        assert list(node_pool_changes(plan)) == ["hold"]
        story.write(plan)
        story.settle()
        assert story.view("a100").node_pools[0].held
        plan = story.plan()
        assert node_pool_changes(plan) == {}
        story.write(plan)
        story.kubernetes()
        assert story.plan().empty  # bound, and loading
        story.settle()
        plan = story.plan()
        assert list(node_pool_changes(plan)) == ["end-hold"]
        story.write(plan)
        assert story.plan().empty

    @pytest.mark.parametrize("sync", [Sync(missing=("pods",)), Sync(stale=("nodes",), synced_at=NOW)])
    def test_nothing_is_taken_before_everything_is_listed_and_fresh(self, sync: Sync) -> None:
        story = self.a_pair()
        story.snapshot = replace(story.snapshot, sync=sync)
        plan = story.plan()
        assert moves(plan) == {}
        assert refusal_of(plan, "start", "a").replicas_to < 7
