"""Readings become votes, votes become demand: what a model needs, and what has no say in it."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.readings import NOT_LEARNT, Carries, NoReading, Reading, Work
from rebalancer.domain.snapshot import PodView
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, decision_of, moves, refusal_of, unmet_of

UTILISATION = {"utilisation": True}
BOTH = {"concurrency": {"per_replica": 4.0}, "utilisation": True}


def a_story(
    readings: dict[str, float | Reading | NoReading], signals: object, ready: int = 4, floor: int = 1, **model: object
) -> Story:
    """Model b with `ready` replicas, floor 1, entitlement 8, on 16 GPUs of its own; nobody else wants any."""
    b = a_model("b", floor, signals=signals, entitlement=8, **model)
    policy = a_policy(b, pools=(a_pool(gpus=16),))
    return Story(policy, a_snapshot(policy, {"b": ready}, {"b": readings}, {"b": 0.0}))


def demand(story: Story) -> int | None:
    return decision_of(story.plan(), "b").demand


class TestConcurrency:
    def test_demand_is_requests_in_flight_over_what_one_replica_carries_rounded_up(self) -> None:
        # 22 requests running or waiting, 4 per replica: ceil(5.5) = 6.
        assert demand(a_story({"concurrency": 22.0}, {"concurrency": {"per_replica": 4.0}})) == 6

    def test_exactly_full_replicas_need_no_further_one(self) -> None:
        # 24 / 4 = 6, not 7; 24.0000001 is 24 on planning's grid.
        assert demand(a_story({"concurrency": 24.0000001}, {"concurrency": {"per_replica": 4.0}})) == 6

    @pytest.mark.parametrize(("learnt", "replicas"), [(5.5, 4), (2.75, 8)])
    def test_what_a_replica_was_seen_to_carry_takes_the_place_of_the_policys_figure(
        self, learnt: float, replicas: int
    ) -> None:
        # 22 requests: ceil(22 / 5.5) = 4 and ceil(22 / 2.75) = 8 in place of ceil(22 / 4) = 6.
        story = a_story({}, {"concurrency": {"per_replica": 4.0}})
        story.load("b", {"concurrency": 22.0}, carries=Carries(prior=4.0, learnt=learnt, readings=3600))
        assert demand(story) == replicas

    def test_a_model_without_ready_replicas_can_still_ask_for_some(self) -> None:
        story = a_story({"concurrency": 9.0}, {"concurrency": {"per_replica": 4.0}}, ready=0, floor=0)
        assert moves(story.plan()) == {"b": (0, 3)}

    def test_while_it_is_unknown_what_a_replica_carries_nothing_is_taken_and_no_vote_cast(self) -> None:
        # Two others agree that two replicas are enough; that the model is kept in time says nothing of what fewer do.
        signals = {"concurrency": {}, "utilisation": True, "queue": {"high": 4.0}}
        story = a_story({"concurrency": 3.0, "utilisation": 0.1, "queue": 0.0}, signals)
        plan = list(story.turns(60))[-1]
        assert decision_of(plan, "b").demand == 4
        assert (
            "concurrency says nothing while what a replica carries is not learnt"
            in decision_of(plan, "b").steps[0].said
        )
        (demanded,) = (step.said for step in decision_of(plan, "b").steps if step.stage == "demand")
        assert demanded == (
            "a vote asks for only 1 replica; none goes until it is known what one of its replicas carries "
            "(signals.concurrency.perReplica in the policy says it at once)"
        )
        story.load("b", {"concurrency": 3.0, "utilisation": 0.1, "queue": 0.0}, carries=Carries(None, 8.0, 12))
        assert decision_of(list(story.turns(60))[-1], "b").demand == 1

    def test_while_it_is_unknown_what_a_replica_carries_many_requests_kept_in_time_are_not_given_the_pool(self) -> None:
        # 14 GPUs lie idle beside 500 requests that are all within the SLO, for the ten minutes of learning.
        seen: dict[str, float | Reading | NoReading] = {"concurrency": 500.0, "latency": 1.0}
        story = a_story(seen, {"concurrency": {}, "latency": True}, ready=2, slo={"latency_seconds": 2.0})
        story.load("b", seen, work=Work(why_not_better=NOT_LEARNT))
        assert {decision_of(plan, "b").granted for plan in story.turns(60)} == {2}
        story.load("b", seen, carries=Carries(None, 50.0, 12))
        assert decision_of(list(story.turns(10))[-1], "b").granted == 10

    def test_one_that_nobody_asks_anything_gives_after_ten_minutes_whatever_a_replica_carries(self) -> None:
        # A class that falls after 30 s: ten minutes are the time in which it might be learnt.
        story = a_story({"concurrency": 0.0}, {"concurrency": {}})
        story.load("b", {"concurrency": 0.0}, work=Work(why_not_better=NOT_LEARNT))
        demands = [decision_of(plan, "b").demand for plan in story.turns(62)]
        assert demands[:60] == [4] * 60
        assert demands[-1] == 1

    def test_one_that_is_asked_anything_meanwhile_keeps_what_it_has(self) -> None:
        story = a_story({"concurrency": 0.0}, {"concurrency": {}})
        for flight in [0.0] * 40 + [1.0] + [0.0] * 40:
            story.load("b", {"concurrency": flight}, work=Work(why_not_better=NOT_LEARNT))
            assert decision_of(story.turn(), "b").granted == 4


class TestWatermarks:
    # class -> (high, low, cooldown): realtime 70/30 % 60 s, interactive 60/25 % 30 s, batch 85/40 % 300 s.
    @pytest.mark.parametrize(
        ("kind", "use", "replicas"),
        [
            ("realtime", 0.70, 4),  # ceil(4 x 0.70 / 0.70)
            ("realtime", 0.71, 5),  # ceil(4.06)
            ("interactive", 0.90, 6),  # ceil(4 x 0.90 / 0.60)
            ("batch", 0.84, 4),  # between 40 and 85 %: hold
            ("batch", 1.00, 5),  # ceil(4.7)
        ],
    )
    def test_utilisation_at_the_high_watermark_asks_for_more(self, kind: str, use: float, replicas: int) -> None:
        assert demand(a_story({"utilisation": use}, UTILISATION, workload_class=kind)) == replicas

    @pytest.mark.parametrize(
        ("kind", "use", "cooldown", "replicas"),
        [
            ("realtime", 0.30, 60.0, 2),  # ceil(4 x 0.30 / 0.70 = 1.7)
            ("interactive", 0.10, 30.0, 1),  # ceil(4 x 0.10 / 0.60 = 0.7)
            ("batch", 0.40, 300.0, 2),  # ceil(4 x 0.40 / 0.85 = 1.9)
        ],
    )
    def test_utilisation_at_the_low_watermark_asks_for_fewer_after_one_cooldown(
        self, kind: str, use: float, cooldown: float, replicas: int
    ) -> None:
        story = a_story({"utilisation": use}, UTILISATION, workload_class=kind)
        assert demand(story) == 4
        story.wait(cooldown - 1.0)
        assert demand(story) == 4
        story.wait(1.0)
        assert demand(story) == replicas

    def test_low_utilisation_never_asks_for_less_than_the_floor(self) -> None:
        # ceil(4 x 0.05 / 0.60) = 1, the floor is 3.
        story = a_story({"utilisation": 0.05}, UTILISATION, floor=3)
        story.plan()
        story.wait(30.0)
        assert demand(story) == 3

    def test_between_the_watermarks_nothing_changes(self) -> None:
        story = a_story({"utilisation": 0.45}, UTILISATION)
        story.plan()
        story.wait(3600.0)
        assert demand(story) == 4

    def test_use_above_the_low_watermark_for_a_moment_starts_the_cooldown_again(self) -> None:
        story = a_story({"utilisation": 0.10}, UTILISATION)
        story.plan()
        story.wait(20.0)
        story.load("b", {"utilisation": 0.40})
        story.plan()
        story.wait(5.0)
        story.load("b", {"utilisation": 0.10})
        story.plan()
        story.wait(29.0)
        assert demand(story) == 4
        story.wait(1.0)
        assert demand(story) == 1

    def test_a_move_starts_the_cooldown_again(self) -> None:
        story = a_story({"utilisation": 0.70}, UTILISATION)
        assert moves(story.turn(1.0)) == {"b": (4, 5)}  # ceil(4 x 0.70 / 0.60)
        story.load("b", {"utilisation": 0.10})
        story.turn(28.0)  # 1 s after the move
        assert demand(story) == 5  # 29 s after it
        story.wait(2.0)
        assert demand(story) == 1  # 31 s after it, 30 s low


class TestOtherSignals:
    def test_queue_asks_for_more_at_its_watermark_per_ready_replica(self) -> None:
        # 24 waiting on 4 replicas = 6 each, watermark 4: ceil(4 x 6 / 4) = 6.
        assert demand(a_story({"queue": 24.0}, {"queue": {"high": 4.0}})) == 6

    def test_kv_cache_asks_for_more_at_its_watermark(self) -> None:
        # ceil(4 x 0.95 / 0.80) = 5.
        assert demand(a_story({"kvCache": 0.95}, {"kv_cache": {"high": 0.8, "low": 0.3}})) == 5

    def test_latency_over_the_slo_asks_for_more_but_never_for_more_than_twice(self) -> None:
        # 3 s against 2 s: ceil(4 x 1.5) = 6. 60 s against 2 s: latency explodes near saturation, so ceil(4 x 2) = 8.
        slo = {"latency_seconds": 2.0}
        assert demand(a_story({"latency": 3.0}, {"latency": True}, slo=slo)) == 6
        assert demand(a_story({"latency": 60.0}, {"latency": True}, slo=slo)) == 8

    @pytest.mark.parametrize(("latency", "short"), [(1.9, None), (2.1, 6)])
    def test_who_keeps_its_latency_is_not_called_short(self, latency: float, short: int | None) -> None:
        # 40 requests, 4 per replica: 10 replicas, says the figure; there are 4 GPUs.
        b = a_model("b", signals={"concurrency": {"per_replica": 4.0}, "latency": True}, slo={"latency_seconds": 2.0})
        policy = a_policy(b, pools=(a_pool(gpus=4),))
        readings = {"b": {"concurrency": 40.0, "latency": latency}}
        unmet = unmet_of(Story(policy, a_snapshot(policy, {"b": 4}, readings, {"b": 0.0})).turns(3)[-1], "b")
        assert (None if unmet is None else unmet.replicas) == short

    def test_the_highest_vote_wins_upwards(self) -> None:
        # concurrency votes ceil(21 / 4) = 6, utilisation ceil(4 x 0.65 / 0.60) = 5.
        assert demand(a_story({"concurrency": 21.0, "utilisation": 0.65}, BOTH)) == 6


class TestNoVote:
    # Each of these readings would ask for 20 replicas if it counted.
    @pytest.mark.parametrize(
        ("reading", "why"),
        [
            (NoReading("never-seen"), "was never seen"),
            (NoReading("absent"), "is not in the samples"),
            (Reading(80.0, NOW - 16.0, 1.0), "is 16 s old"),  # three intervals of 5 s are 15 s
            (Reading(80.0, NOW - 1.0, 0.79), "was seen on 79% of the pods"),
            (Reading(float("nan"), NOW - 1.0, 1.0), "is not a finite number"),
            (Reading(float("inf"), NOW - 1.0, 1.0), "is not a finite number"),
        ],
    )
    def test_a_reading_that_cannot_be_trusted_has_no_vote_and_says_why(
        self, reading: Reading | NoReading, why: str
    ) -> None:
        story = a_story({"concurrency": reading, "utilisation": 0.45}, BOTH)
        plan = story.plan()
        assert decision_of(plan, "b").demand == 4
        assert f"concurrency {why}, so it has no vote" in decision_of(plan, "b").steps[0].said

    def test_80_per_cent_of_the_pods_are_enough(self) -> None:
        assert (
            demand(a_story({"concurrency": Reading(22.0, NOW - 1.0, 0.8)}, {"concurrency": {"per_replica": 4.0}})) == 6
        )

    def test_producers_with_long_intervals_are_stale_after_three_of_them_but_never_later_than_the_policy_says(
        self,
    ) -> None:
        # Interval 60 s: three are 180 s, the policy's staleSeconds is 90 s.
        story = a_story({}, {"concurrency": {"per_replica": 4.0}})
        story.load("b", {"concurrency": Reading(22.0, NOW - 89.0, 1.0)}, interval_seconds=60.0)
        assert demand(story) == 6
        story.load("b", {"concurrency": Reading(22.0, NOW - 91.0, 1.0)}, interval_seconds=60.0)
        assert demand(story) is None

    def test_without_any_vote_demand_is_unknown_and_nothing_changes(self) -> None:
        story = a_story({}, BOTH)
        plan = story.plan()
        assert decision_of(plan, "b").demand is None
        assert plan.empty
        assert "concurrency was never seen" in decision_of(plan, "b").why

    def test_only_ready_replicas_are_averaged(self) -> None:
        # 4 Ready, 2 loading. Utilisation 0.60 at high 0.60 asks for ceil(4 x 1) = 4; counted on six it would be 6.
        story = a_story({"utilisation": 0.60}, UTILISATION, ready=6)
        pods = [pod if n < 4 else _loading(pod) for n, pod in enumerate(story.of("b").pods)]
        story.target("b", pods=tuple(pods))
        step = decision_of(story.plan(), "b").steps[0]
        assert step.numbers == {"utilisation": 4}


class TestDecrease:
    def test_needs_two_votes_that_agree(self) -> None:
        # concurrency asks for 1 and agrees to fewer; utilisation holds at 4: nobody agrees with it.
        story = a_story({"concurrency": 2.0, "utilisation": 0.45}, BOTH)
        story.plan()
        story.wait(3600.0)
        assert demand(story) == 4

    def test_happens_when_two_agree_to_the_higher_of_their_votes(self) -> None:
        # concurrency ceil(6 / 4) = 2, and one more by chance; utilisation ceil(4 x 0.10 / 0.60) = 1: 3.
        story = a_story({"concurrency": 6.0, "utilisation": 0.10}, BOTH)
        story.plan()
        story.wait(30.0)
        assert demand(story) == 3

    def test_needs_two_usable_votes_where_two_signals_are_configured(self) -> None:
        story = a_story({"concurrency": 2.0, "utilisation": NoReading("absent")}, BOTH)
        story.plan()
        story.wait(3600.0)
        assert demand(story) == 4

    def test_one_vote_is_enough_where_one_signal_is_configured(self) -> None:
        story = a_story({"concurrency": 1.0}, {"concurrency": {"per_replica": 4.0}})
        story.plan()
        story.wait(30.0)
        assert demand(story) == 1

    def test_falls_to_the_highest_vote_of_the_cooldown(self) -> None:
        # 1, 3 and 2 replicas with chance within the 30 s: demand falls to 3, and to 2 another cooldown later.
        story = a_story({"concurrency": 1.0}, {"concurrency": {"per_replica": 4.0}})
        for requests, seconds in ((1.0, 10.0), (6.0, 10.0), (3.0, 10.0)):
            story.load("b", {"concurrency": requests})
            assert demand(story) == 4
            story.wait(seconds)
        assert demand(story) == 3
        story.wait(29.0)
        assert demand(story) == 3
        story.wait(1.0)
        assert demand(story) == 2

    def test_surplus_stays_where_it_is_while_nobody_needs_it_and_it_costs_nothing(self) -> None:
        # A fixed pool: an idle replica is position, not money.
        story = a_story({"concurrency": 2.0}, {"concurrency": {"per_replica": 4.0}})
        assert all(plan.empty for plan in story.turns(12))
        assert story.replicas("b") == 4


def test_unknown_demand_of_one_model_costs_no_other_its_plan() -> None:
    policy = a_policy(a_model("a"), a_model("b", entitlement=4), pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, {"a": 2, "b": 1}, {"b": {"concurrency": 16.0}}))
    plan = story.plan()
    assert moves(plan) == {"b": (1, 4)}
    assert decision_of(plan, "a").demand is None


def test_a_blind_model_gives_nothing_and_says_what_it_could_not_see() -> None:
    # b wants its 8; a borrows 3 of them and nobody sees it. Its borrowed ones go home all the same: b's vote decides.
    policy = a_policy(a_model("a", entitlement=1), a_model("b", entitlement=7), pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, {"a": 4, "b": 4}, {"b": {"concurrency": 28.0}}))
    assert moves(story.plan()) == {"a": (4, 1)}
    # Beyond b's entitlement a keeps what it has: no vote speaks for it.
    policy = a_policy(a_model("a", entitlement=1), a_model("b", entitlement=1, priority=900), pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, {"a": 4, "b": 4}, {"b": {"concurrency": 28.0}}, {"b": 4.0}))
    story.turn()
    plan = story.plan()
    assert moves(plan) == {}
    assert refusal_of(plan, "blind", "a").why == "no signal has a usable vote: concurrency was never seen"


def _loading(pod: PodView) -> PodView:
    return replace(pod, phase="loading")
