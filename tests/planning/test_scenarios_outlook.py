"""What a model that looks ahead needs: its slow level with room for bursts, and as much of a shift as is likely.

Need = ceil(l + 1.5 sqrt(l)), l = level + probability of a shift x (shifted level - level).
"""

import pytest

from rebalancer.domain.readings import NoReading, Reading, Work
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.outlooks import an_outlook
from tests.planning.story import Story, change_of, decision_of, moves, unmet_of

USEFUL = {count: 50.0 * (16 - count) for count in range(1, 17)}  # every replica saves 50 late requests


def a_story(held: int = 4, in_flight: float = 4.0, floor: int = 1, most: int = 100, gpus: int = 16) -> Story:
    """Model b with `held` replicas on GPUs of its own, `in_flight` requests now, 4 per replica."""
    policy = a_policy(a_model("b", floor, entitlement=floor, max_replicas=most), pools=(a_pool(gpus=gpus),))
    return Story(policy, a_snapshot(policy, {"b": held}, {"b": {"concurrency": in_flight}}))


def demand(story: Story) -> int | None:
    return decision_of(story.plan(), "b").demand


class TestLevel:
    @pytest.mark.parametrize(
        ("level", "need"),
        [
            (0.3, 2),  # 0.3 + 1.5 x 0.55 = 1.1
            (1.0, 3),  # 1.0 + 1.5 x 1.00 = 2.5
            (4.0, 7),  # 4.0 + 1.5 x 2.00 = 7.0
            (9.0, 14),  # 9.0 + 1.5 x 3.00 = 13.5
        ],
    )
    def test_need_is_the_level_with_room_for_bursts_shorter_than_a_start(self, level: float, need: int) -> None:
        story = a_story()
        story.foresee("b", USEFUL, level=level)
        assert demand(story) == need

    def test_position_beats_reaction_a_burst_of_this_moment_changes_nothing(self) -> None:
        # 40 requests in flight would be 10 replicas by votes. The level is still 1.0: need 3.
        story = a_story(in_flight=40.0)
        story.foresee("b", USEFUL, level=1.0)
        assert demand(story) == 3

    def test_floor_and_most_bound_it(self) -> None:
        story = a_story(floor=5)
        story.foresee("b", dict.fromkeys(range(5, 17), 0.0), level=0.3)
        assert demand(story) == 5
        story = a_story(most=6)
        story.foresee("b", {count: 50.0 * (6 - count) for count in range(1, 7)}, level=9.0)
        assert demand(story) == 6


class TestShift:
    """The level is 1.0 (need 3); the last half minute says 9.0 (need 14)."""

    @pytest.mark.parametrize(
        ("shift", "need"),
        [
            (0.0, 3),  # l = 1
            (0.25, 6),  # l = 1 + 0.25 x 8 = 3: 3 + 1.5 x 1.73 = 5.6
            (0.95, 13),  # l = 1 + 0.95 x 8 = 8.6: 8.6 + 1.5 x 2.93 = 12.999
        ],
    )
    def test_a_shift_counts_as_far_as_it_is_likely_to_last(self, shift: float, need: int) -> None:
        story = a_story()
        story.look_ahead("b", an_outlook(USEFUL, 4, level=1.0, base=1.0, shift=shift, shifted=9.0))
        assert demand(story) == need

    def test_downwards_too_that_is_how_gpus_come_home(self) -> None:
        # From 9.0 (need 14) to 1.0, likely with 75 %: l = 9 - 0.75 x 8 = 3: need 6.
        story = a_story(held=14)
        story.look_ahead("b", an_outlook(USEFUL, 14, level=9.0, base=9.0, shift=0.75, shifted=1.0))
        assert demand(story) == 6

    def test_what_is_likely_no_longer_needed_goes_at_once_though_the_slow_mean_still_counts_it(self) -> None:
        # The slow mean of 6 needs 10, so half of the 7 above its floor would be 3 in 10 s. A shift to 0.25 is likely
        # with 95 %: l = 6 - 0.95 x 5.75 = 0.54 needs 2, and the other six are nobody's.
        policy = a_policy(a_model("a", 1), a_model("b", 1, entitlement=8), pools=(a_pool(gpus=9),))
        readings = {"a": {"concurrency": 32.0}, "b": {"concurrency": 1.0}}
        work: dict[str, float | Work] = {"a": 3.0, "b": Work(short=0.25, last_60s=0.25, long=0.5, slow=6.0)}
        story = Story(policy, a_snapshot(policy, {"a": 1, "b": 8}, readings, work))
        story.foresee("a", {count: 90.0 * max(0, 7 - count) for count in range(1, 10)}, level=3.0)
        late = {count: 9.0 * (9 - count) for count in range(1, 10)}
        story.look_ahead("b", an_outlook(late, 8, level=6.0, base=6.0, shift=0.95, shifted=0.25))
        assert moves(story.plan())["b"] == (8, 2)


class TestWhatIsItsOwn:
    """Of 8 GPUs, owner b has 5; a, which has the more certain work, holds what b lent it."""

    def lending(self, held: int, last: float, in_flight: float = 0.0) -> Story:
        policy = a_policy(a_model("a", 1), a_model("b", 1, entitlement=5), pools=(a_pool(gpus=8),))
        readings = {"a": {"concurrency": 20.0}, "b": {"concurrency": in_flight}}
        work: dict[str, float | Work] = {"a": 5.0, "b": Work(short=last, last_60s=last, long=0.5, slow=0.5)}
        story = Story(policy, a_snapshot(policy, {"a": 8 - held, "b": held}, readings, work))
        story.foresee("a", {count: 90.0 * (8 - count) for count in range(1, 9)}, level=5.0)
        story.foresee("b", {count: 9.0 * (8 - count) for count in range(1, 9)}, level=0.5)
        return story

    def test_an_owner_who_comes_back_does_not_wait_for_the_level_to_rise(self) -> None:
        # The level still says 0.5; the last minute kept 4.4 busy, so 5 replicas are owed, all of them its own.
        story = self.lending(held=1, last=4.4)
        plan = story.turn()
        assert decision_of(plan, "b").demand == 5
        assert moves(plan)["a"] == (7, 3)
        story.turn()
        assert story.replicas("b") == 5

    def test_nor_for_the_minute_where_its_votes_stand(self) -> None:
        # 17 requests at 4 per replica are 5 replicas. Bursts end within 20 s: then all of its own come home at once.
        story = self.lending(held=1, last=0.5, in_flight=17.0)
        assert all(story.turn().empty for _ in range(2))
        assert moves(story.plan())["a"] == (7, 3)

    def test_bursts_bring_nothing_home(self) -> None:
        story = self.lending(held=1, last=0.5)
        for second in range(0, 120, 10):
            story.load("b", {"concurrency": 17.0 if second % 30 < 20 else 1.0}, 0.5)
            story.foresee("b", {count: 9.0 * (8 - count) for count in range(1, 9)}, level=0.5)
            assert story.turn().empty

    def test_beyond_what_is_its_own_the_level_decides(self) -> None:
        assert demand(self.lending(held=1, last=9.0)) == 5

    def test_what_the_last_minute_kept_busy_is_not_lent_at_the_next_lull(self) -> None:
        # The last minute's 1.5 keep 2 busy: the other three go, and no more.
        story = self.lending(held=5, last=1.5)
        assert moves(story.plan())["b"] == (5, 2)
        assert story.turns(6)[-1].empty
        assert story.replicas("b") == 2


class TestWhoseWordCounts:
    def test_with_an_outlook_there_is_no_waiting_on_the_way_down(self) -> None:
        # Votes would hold 4 for the cooldown; the level is slow by itself. That nothing goes is another matter: no one
        # else wants the GPUs.
        story = a_story(in_flight=0.0)
        story.foresee("b", {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.0}, level=0.3)
        plan = story.plan()
        assert decision_of(plan, "b").demand == 2
        assert moves(plan) == {}

    def test_without_one_votes_decide(self) -> None:
        assert demand(a_story(held=6, in_flight=22.0)) == 6  # 22 / 4 = 5.5

    @pytest.mark.parametrize(
        "reading",
        [NoReading("never-seen"), Reading(4.0, NOW - 300.0, 1.0), Reading(4.0, NOW - 1.0, 0.5)],
        ids=["never seen", "5 min old", "seen on half of the pods"],
    )
    def test_an_outlook_does_not_speak_for_a_model_that_nobody_sees(self, reading: Reading | NoReading) -> None:
        story = a_story()
        story.load("b", {"concurrency": reading})
        story.foresee("b", {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.0}, level=0.3)
        plan = story.plan()
        assert decision_of(plan, "b").demand is None
        assert moves(plan) == {}


class TestWhatIsTold:
    def test_the_forecast_its_error_and_what_a_plain_mean_would_have_erred(self) -> None:
        story = a_story()
        story.look_ahead("b", an_outlook(USEFUL, 4, level=2.0, base=1.8, shift=0.3, shifted=5.0))
        steps = {step.stage: step for step in decision_of(story.plan(), "b").steps}
        assert steps["outlook"].said == (
            "a level of 2 replicas of work; the next 150 s are foreseen by 30 replays of its past; with a chance of "
            "30% the level has moved to 5, so 2.9 is expected; in the last hour it was off by 0.2, where a plain slow "
            "mean was off by 0.3"
        )
        assert steps["outlook"].numbers["slowMean"] == 1.8

    def test_a_correction_that_errs_more_than_a_plain_mean_is_told_to_be_left_out(self) -> None:
        story = a_story()
        story.look_ahead("b", an_outlook(USEFUL, 4, level=2.0, error=0.4, plain_error=0.3))
        said = next(step.said for step in decision_of(story.plan(), "b").steps if step.stage == "outlook")
        assert said.endswith("it was off by 0.4, where a plain slow mean was off by 0.3 and is used")

    def test_the_share_and_what_its_neighbours_would_cost(self) -> None:
        # 16 GPUs of its own, each saves 50: all of them.
        story = a_story(held=16)
        story.foresee("b", USEFUL, level=4.0)
        plan = story.plan()
        share = next(step for step in decision_of(plan, "b").steps if step.stage == "share")
        each = "100 with 14, 50 with 15, 0 with 16"
        late = f"late requests in the next 150 s: {each}; cost, with what waits then, times the priority: {each}"
        assert share.said == f"16 replicas of the GPUs there are; {late}"
        assert unmet_of(plan, "b") is None

    def test_late_in_the_share_is_counted_as_in_the_sentence_of_who_is_short_and_the_cost_has_its_own_word(
        self,
    ) -> None:
        story = a_story(held=4)
        story.load("b", {"concurrency": 20.0}, Work(5.0, 5.0, 5.0, 5.0))
        costs = {count: 80.0 * (17 - count) for count in range(1, 17)}
        arriving = tuple(10.0 * (17 - count) for count in range(1, 17))
        story.look_ahead("b", an_outlook(costs, 4, level=6.0, shifted=6.0, late_arrivals=arriving))
        decision = decision_of(plan := story.plan(), "b")
        share = next(step for step in decision.steps if step.stage == "share")
        assert (share.numbers["lateAt16"], share.numbers["costAt16"]) == (10.0, 80.0)
        assert "10 with 16; cost, with what waits then, times the priority: " in share.said
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.lateness.startswith(
            "5 replicas of work on 4, about 130 of 900 requests late in the next 150 s at a level of 6"
        )

    def test_a_donors_change_tells_what_its_gpus_keep_here_and_there_and_a_wait_for_several_is_told_once(self) -> None:
        # Two of a's four replicas are worth 30 late requests each to b, and 1 here.
        calm = {"concurrency": 4.0}
        policy = a_policy(a_model("a", 0, entitlement=0), a_model("b", 0, entitlement=0), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 4, "b": 4}, {"a": calm, "b": calm}))
        story.foresee("a", {1: 40.0, 2: 2.0, 3: 1.0, 4: 0.0, 5: 0.0, 6: 0.0, 7: 0.0, 8: 0.0})
        story.foresee("b", {1: 400.0, 2: 300.0, 3: 200.0, 4: 60.0, 5: 30.0, 6: 0.0, 7: 0.0, 8: 0.0})
        plan = story.plan()
        assert change_of(plan, "a").reason.startswith(
            "gives 2 replicas to b: b has 0 replicas of work on 4, a 0 on 4; "
            "one replica saves b a cost of about 30 late requests in 150 s, and a about 1"
        )
        waits = next(step.said for step in decision_of(plan, "b").steps if step.stage == "shift")
        assert waits == "2 replicas wait for GPUs of a on a100-1"

    def test_where_minutes_were_promised_late_seconds_are_told(self) -> None:
        story = a_story(held=16)
        story.look_ahead("b", an_outlook(USEFUL, 16, level=4.0, by_minute=True))
        share = next(step for step in decision_of(story.plan(), "b").steps if step.stage == "share")
        each = "100 with 14, 50 with 15, 0 with 16"
        late = f"late seconds in the next 150 s: {each}; cost, with what waits then, times the priority: {each}"
        assert share.said == f"16 replicas of the GPUs there are; {late}"
