"""Prefill and decode, one for half to two of the other: one model to its users, two to the planner, moved together."""

from rebalancer.domain.couples import Couple
from rebalancer.planning.shares.curves import Curve
from rebalancer.planning.shares.places import Claim
from rebalancer.planning.shares.together import join
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_autoscaler, an_elastic_pool, an_override
from tests.planning import oracle
from tests.planning.outlooks import Shape
from tests.planning.story import Story, decision_of, moves, refusal_of, unmet_of
from tests.planning.worlds import feel, offer

RATIO = {"to": "decode", "min": 0.5, "max": 2.0}


def roles(gpus: int = 16, prefill: int = 1, decode: int = 1, chat: int = 10, **ratio: object) -> Story:
    """Prefill and decode beside chat, which uses one replica, on one pool of one-GPU replicas; all look ahead."""
    policy = a_policy(
        a_model("prefill", 1, ratio=RATIO | ratio), a_model("decode", 1), a_model("chat", 1), pools=(a_pool(gpus=gpus),)
    )
    story = Story(policy, a_snapshot(policy, {"prefill": prefill, "decode": decode, "chat": chat}))
    for name, level in (("prefill", 4.0), ("decode", 4.0), ("chat", 1.0)):
        story.shapes[name] = Shape()
        offer(story, name, level)
    return story


def turn(story: Story, turns: int = 1, seconds: float = 10.0) -> None:
    for _ in range(turns):
        plan = story.plan()
        oracle.judge_plan(story.snapshot, story.policy, plan)
        oracle.carry_out(story, plan)
        story.settle()
        story.wait(seconds)
        feel(story)


def by_votes(prefill: int, decode: int, loads: tuple[float, float], gpus: int = 16, **ratio: object) -> Story:
    """The same without a look-ahead and without chat: `loads` are requests in flight, of which a replica carries 4."""
    policy = a_policy(a_model("prefill", 1, ratio=RATIO | ratio), a_model("decode", 1), pools=(a_pool(gpus=gpus),))
    story = Story(policy, a_snapshot(policy, {"prefill": prefill, "decode": decode}))
    for name, load in zip(("prefill", "decode"), loads, strict=True):
        story.load(name, {"concurrency": load}, load / 4.0)
    return story


class TestRatio:
    def test_both_are_raised_in_one_plan_as_far_as_either_bears_the_other_where_it_is(self) -> None:
        # From 1 and 1 either may go to 2, whatever becomes of the other's write; the rest follows in the next plans.
        story = roles()
        assert moves(story.plan()) == {"prefill": (1, 2), "decode": (1, 2)}
        turn(story, 8)
        assert (story.replicas("prefill"), story.replicas("decode")) == (5, 5)

    def test_what_waits_for_the_other_role_says_so(self) -> None:
        plan = roles().plan()
        times = "0.5 to 2 times"
        assert refusal_of(plan, "ratio", "prefill").why == f"its replicas are {times} those of decode, which has 1"
        assert refusal_of(plan, "ratio", "decode").why == f"replicas of prefill are {times} its own, and there are 1"
        (step,) = [step for step in decision_of(plan, "prefill").steps if step.stage == "ratio"]
        assert step.said == f"its replicas are {times} those of decode, which has 1: 1 to 2 here"

    def test_a_narrow_ratio_moves_one_role_at_a_time(self) -> None:
        # 1 to 1.5: prefill goes first, decode follows once it is there.
        story = roles(prefill=2, decode=2, min=1.0, max=1.5)
        assert moves(story.plan())["prefill"] == (2, 3)
        assert "decode" not in moves(story.plan())
        turn(story)
        assert moves(story.plan())["decode"] == (2, 3)

    def test_as_donors_both_give(self) -> None:
        story = roles(prefill=7, decode=7, chat=2)
        for name, level in (("prefill", 0.5), ("decode", 0.5), ("chat", 8.0)):
            offer(story, name, level)
        turn(story, 30)
        assert story.replicas("chat") > 6
        assert 0.5 <= story.replicas("prefill") / story.replicas("decode") <= 2.0

    def test_under_autoscalers_of_a_pool_that_grows_both_are_pinned(self) -> None:
        # An HPA between a minimum and a maximum would choose a ratio of its own.
        pools = (an_elastic_pool(gpus=32, gpus_per_node=8),)
        both = [a_model(name, 1, pools=("spot",), entitlement=1) for name in ("prefill", "decode")]
        both[0] = a_model("prefill", 1, pools=("spot",), entitlement=1, ratio=RATIO)
        policy = a_policy(*both, pools=pools)
        story = Story(policy, a_snapshot(policy, {"prefill": 3, "decode": 3}, nodes={"spot": 2}))
        for name in ("prefill", "decode"):
            story.target(name, "spot", autoscaler=an_autoscaler(1, 3, name=name))
            story.load(name, {"concurrency": 4.0}, 1.0)
        for _ in range(8):
            story.turn()
            bounds = [story.of(name, "spot").autoscaler for name in ("prefill", "decode")]
            assert all(one is not None and one.minimum == one.maximum for one in bounds)
            story.wait(310.0)  # the guard step lets one of a few go in 5 minutes
        assert (story.replicas("prefill"), story.replicas("decode")) == (1, 1)  # surplus costs money, and goes

    def test_no_autoscaler_may_take_what_only_the_other_role_needs(self) -> None:
        # prefill needs two by itself, and three beside decode's six: a minimum of 2 would leave the ratio.
        pools = (an_elastic_pool(gpus=32, gpus_per_node=8),)
        both = (
            a_model("prefill", 1, pools=("spot",), ratio=RATIO),
            a_model("decode", 1, pools=("spot",)),
        )
        policy = a_policy(*both, pools=pools)
        story = Story(policy, a_snapshot(policy, {"prefill": 3, "decode": 6}, nodes={"spot": 2}))
        for name, level in (("prefill", 0.3), ("decode", 4.0)):
            replicas = story.replicas(name)
            story.target(name, "spot", autoscaler=an_autoscaler(1, replicas, name=name))
            story.shapes[name] = Shape()
            offer(story, name, level)
        turn(story)
        owner = story.of("prefill", "spot").autoscaler
        assert owner is not None
        assert (owner.minimum, owner.maximum) == (3, 3)


class TestWorth:
    def test_a_replica_of_one_role_alone_is_worth_nothing_beyond_the_ratio(self) -> None:
        # decode is idle and prefill, of which all would help, is given no more than twice decode's one.
        story = roles(prefill=1, decode=1)
        offer(story, "prefill", 10.0)
        offer(story, "decode", 0.0)
        turn(story, 10)
        assert story.replicas("prefill") <= 2 * story.replicas("decode")

    def test_a_role_that_gains_nothing_by_itself_gets_what_the_other_gains_by_it(self) -> None:
        # prefill idles on one; decode gains from five, which three of prefill bear.
        story = roles()
        offer(story, "prefill", 0.3)
        turn(story, 10)
        assert story.replicas("decode") >= 5
        assert 2 * story.replicas("prefill") >= story.replicas("decode")

    def test_the_best_pair_for_some_gpus_is_what_they_are_worth(self) -> None:
        # Prefill of 1 GPU, decode of 2: with 5 GPUs 1 and 2, or 3 and 1. The worth of both together decides.
        prefill = Claim(Curve(1, (30.0, 10.0, 8.0), 1), frozenset({"a100"}))
        decode = Claim(Curve(1, (40.0, 5.0), 2), frozenset({"a100"}), 2)
        joint = join(prefill, decode, (0, 0), Couple("prefill", "decode", 0.5, 2.0))
        assert joint is not None
        assert joint.claim.curve == Curve(3, (70.0, 50.0, 35.0, 15.0, 13.0), 1)
        assert joint.pairs == ((1, 1), (2, 1), (1, 2), (2, 2), (3, 2))
        assert joint.claim.pod_gpus == 2

    def test_roles_in_different_pools_are_valued_each_by_itself(self) -> None:
        prefill = Claim(Curve(1, (3.0, 1.0), 1), frozenset({"h100"}))
        decode = Claim(Curve(1, (3.0, 1.0), 1), frozenset({"a100"}))
        assert join(prefill, decode, (0, 0), Couple("prefill", "decode", 0.5, 2.0)) is None

    def test_by_votes_the_role_that_needs_less_goes_along_with_the_other(self) -> None:
        # decode's votes ask for 6, prefill's for 1: half as many as decode's it needs all the same.
        story = by_votes(1, 1, (1.0, 24.0))
        for _ in range(6):
            story.turn()
        assert (story.replicas("prefill"), story.replicas("decode")) == (3, 6)


class TestHeld:
    def test_a_role_that_a_person_pins_takes_the_other_one_along(self) -> None:
        story = by_votes(4, 4, (16.0, 16.0))
        story.override(an_override("pin", "prefill", 1))
        turn(story, 6, seconds=301.0)  # of decode's 4, all in use, the guard step lets one go in 5 minutes
        assert (story.replicas("prefill"), story.replicas("decode")) == (1, 2)

    def test_a_frozen_role_bounds_the_other_one_and_a_refusal_says_so(self) -> None:
        story = by_votes(2, 2, (8.0, 40.0))
        story.override(an_override("freeze", "prefill"))
        turn(story, 4)
        assert (story.replicas("prefill"), story.replicas("decode")) == (2, 4)
        plan = story.plan()
        assert refusal_of(plan, "ratio", "decode").replicas_to == 10
        unmet = unmet_of(plan, "decode")
        assert unmet is not None
        assert unmet.constraint == "ratio"
        assert unmet.why == "replicas of prefill are 0.5 to 2 times its own, and there are 2"

    def test_after_a_lost_node_nothing_takes_the_two_further_apart(self) -> None:
        # All of decode stands on a100-1, which goes at once: its replacements come first, prefill keeps what it has.
        story = by_votes(2, 2, (8.0, 8.0))
        node = story.of("decode").pods[0].node
        assert node is not None
        story.notice(node, 120.0)
        turn(story, 2)
        assert oracle.beyond(story.policy.models[0], oracle.staying(story.snapshot, story.policy)) == 0.0

    def test_a_role_that_others_write_is_waited_for(self) -> None:
        story = by_votes(1, 1, (16.0, 16.0))
        story.target("prefill", "a100", missing=True)
        turn(story)  # beyond the entitlement votes must stand for one plan
        plan = story.plan()
        assert "decode" not in moves(plan)
        assert refusal_of(plan, "ratio", "decode").replicas_to == 4
