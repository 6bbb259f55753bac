"""What an owner's votes are about to call home is lent to nobody: it would go home while it still loads.

Pool of 8 GPUs. a owns 1 of them and gains from every replica; b owns 5. Votes are 4 requests per replica and are owed
once they have stood for 20 s; b's level of 2.0 by itself keeps 2 busy.
"""

from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Model
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_override
from tests.planning.story import Story, decision_of, moves
from tests.planning.test_scenarios_shares import flat, steep

CALLED = 20.0  # requests in flight: 5 replicas


def a_lender(a: int, b: int, in_flight: float = CALLED, *others: Model) -> Story:
    policy = a_policy(a_model("a", 1, entitlement=1), a_model("b", 1, entitlement=5), *others, pools=(a_pool(gpus=8),))
    held = {"a": a, "b": b, **{model.id: 1 for model in others}}
    readings = {name: {"concurrency": in_flight if name == "b" else 24.0} for name in held}
    return Story(policy, a_snapshot(policy, held, readings))


def looks(story: Story) -> Story:
    for model in story.policy.models:
        story.foresee(model.id, flat(1, 8) if model.id == "b" else steep(1, 8), level=2.0)
    return story


def turn(story: Story, seconds: float = 5.0) -> Plan:
    return looks(story).turn(seconds)


class TestLending:
    def test_free_gpus_wait_for_the_owner_whose_votes_ask_for_them(self) -> None:
        story = a_lender(a=3, b=3)
        plans = [turn(story) for _ in range(4)]  # 0, 5, 10 and 15 s
        assert all(plan.empty for plan in plans)
        waits = next(step for step in decision_of(plans[0], "a").steps if "call home" in step.said)
        assert "GPUs that their owner's votes are about to call home" in waits.said
        assert moves(turn(story)) == {"b": (3, 5)}  # at 20 s, into GPUs that nobody has to give back

    def test_what_they_do_not_ask_for_is_lent_meanwhile(self) -> None:
        assert moves(turn(a_lender(a=1, b=3))) == {"a": (1, 3)}  # 4 are free, 2 of them called
        assert moves(turn(a_lender(a=3, b=3, in_flight=8.0))) == {"b": (3, 2), "a": (3, 5)}  # nobody calls

    def test_nor_does_the_owner_give_a_replica_that_its_votes_ask_for(self) -> None:
        assert turn(a_lender(a=3, b=5)).empty  # owed 2, asked 5: none goes to a
        assert moves(turn(a_lender(a=3, b=5, in_flight=16.0))) == {"b": (5, 4)}  # asked 4

    def test_a_burst_that_ends_holds_nothing_back(self) -> None:
        story = a_lender(a=3, b=3)
        assert turn(story).empty
        story.load("b", {"concurrency": 4.0})
        assert moves(turn(story))["a"][1] > 3

    def test_what_the_owners_of_the_pool_are_owed_waits_for_nobodys_votes(self) -> None:
        story = a_lender(2, 3, CALLED, a_model("c", 1, entitlement=2))
        assert moves(turn(story)) == {"c": (1, 2)}  # its own; the other free GPU is called

    def test_a_person_lends_what_they_like(self) -> None:
        story = a_lender(a=3, b=3)
        story.override(an_override("pin", "a", 5))
        assert moves(turn(story))["a"] == (3, 5)

    def test_no_replica_goes_home_within_20_s_of_its_grant_whenever_the_votes_begin(self) -> None:
        for begin in range(6):
            story = a_lender(a=3, b=3, in_flight=4.0)
            granted_at: float | None = None
            for step in range(12):
                if step == begin:
                    story.load("b", {"concurrency": CALLED})
                plan = turn(story)
                before, after = moves(plan).get("a", (0, 0))
                if after > before:
                    granted_at = plan.at
                if after < before:
                    assert granted_at is None or plan.at - granted_at >= 20.0
            assert story.replicas("b") == 5
