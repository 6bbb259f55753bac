"""When a surge begins and ends, what it hastens, and what it does not."""

import pytest

from rebalancer.domain.readings import Work
from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, decision_of, moves, refusal_of


class TestSurge:
    # Enter: 15-s work >= 1.5 x 5-min work and a replica more. Leave: below 1.2 x for 60 s.
    def a_surging_pair(self, short: float, long: float) -> Story:
        """Model b wants 6 of 16 GPUs with an entitlement of 2: the rest is borrowed from a, which idles."""
        policy = a_policy(a_model("a", entitlement=8), a_model("b", entitlement=2), pools=(a_pool(gpus=16),))
        readings = {"a": {"concurrency": 0.0}, "b": {"concurrency": 24.0}}
        story = Story(policy, a_snapshot(policy, {"a": 1, "b": 2}, readings))
        self.offer(story, short, long)
        return story

    def offer(self, story: Story, short: float, long: float) -> None:
        story.load("b", {"concurrency": 24.0}, Work(short=short, last_60s=long, long=long, slow=long))

    def test_a_surge_borrows_at_once(self) -> None:
        story = self.a_surging_pair(short=6.0, long=2.0)
        plan = story.plan()
        assert decision_of(plan, "b").surge
        assert moves(plan) == {"b": (2, 6)}

    def test_without_a_surge_borrowing_waits_one_planning_period(self) -> None:
        story = self.a_surging_pair(short=2.0, long=2.0)
        assert moves(story.turn(9.0)) == {}
        assert moves(story.turn(1.0)) == {}
        assert moves(story.turn()) == {"b": (2, 6)}

    def test_one_noisy_sample_borrows_nothing(self) -> None:
        story = self.a_surging_pair(short=2.0, long=2.0)
        story.turn()
        story.load("b", {"concurrency": 8.0}, 2.0)
        assert moves(story.turn()) == {}
        story.load("b", {"concurrency": 24.0}, 2.0)
        assert moves(story.turn()) == {}

    def test_what_is_its_own_never_waits(self) -> None:
        policy = a_policy(a_model("b", entitlement=6), pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"b": 2}, {"b": {"concurrency": 24.0}}, {"b": 2.0}))
        assert moves(story.plan()) == {"b": (2, 6)}

    @pytest.mark.parametrize(
        ("short", "long"),
        [
            (2.9, 2.0),  # 1.45 x, though a replica more
            (0.9, 0.1),  # 9 x, but one replica carries both
        ],
    )
    def test_less_than_one_and_a_half_times_or_no_replica_more_is_none(self, short: float, long: float) -> None:
        assert not decision_of(self.a_surging_pair(short, long).plan(), "b").surge

    def test_it_begins_at_one_and_a_half_times_and_a_replica_more(self) -> None:
        assert decision_of(self.a_surging_pair(3.0, 2.0).plan(), "b").surge

    def test_it_ends_after_a_minute_below_1_2_times(self) -> None:
        story = self.a_surging_pair(short=6.0, long=2.0)
        story.plan()
        self.offer(story, 2.3, 2.0)  # 1.15 x
        for seconds in (30.0, 29.0):
            assert decision_of(story.plan(), "b").surge
            story.wait(seconds)
        assert decision_of(story.plan(), "b").surge
        story.wait(1.0)
        assert not decision_of(story.plan(), "b").surge

    def test_a_second_rise_within_the_minute_keeps_it(self) -> None:
        story = self.a_surging_pair(short=6.0, long=2.0)
        story.plan()
        for short, seconds in ((2.3, 50.0), (2.5, 1.0), (2.3, 59.0)):
            self.offer(story, short, 2.0)
            assert decision_of(story.plan(), "b").surge
            story.wait(seconds)
        assert decision_of(story.plan(), "b").surge

    @pytest.mark.parametrize("readings", [{}, {"concurrency": 24.0}])
    def test_unknown_work_begins_none_and_ends_it_after_the_usual_time_and_takes_nothing(
        self, readings: dict[str, float]
    ) -> None:
        story = self.a_surging_pair(short=6.0, long=2.0)
        story.turn()
        story.load("b", readings, Work())
        for _ in range(6):  # a minute, longer than the cooldown
            decided = decision_of(story.turn(), "b")
            assert decided.surge
            assert "in surge, which ends once its work has been unknown" in str(decided.steps)
        for plan in story.turns(6):
            assert not decision_of(plan, "b").surge
            assert (plan.changes, story.replicas("b")) == ((), 6)

    def test_work_that_is_known_again_and_high_keeps_it(self) -> None:
        story = self.a_surging_pair(short=6.0, long=2.0)
        story.turn()
        story.load("b", {}, Work())
        story.turns(5)
        self.offer(story, 6.0, 2.0)
        story.turn()
        story.load("b", {}, Work())
        assert all(decision_of(plan, "b").surge for plan in story.turns(6))

    def test_it_changes_waiting_and_no_guard(self) -> None:
        # Neither owns what a borrows; b's priority is higher. a needs all 7 (ceil(7 + 1.5 x 2.65) = 11), so the guard
        # shift lets half of the 6 above its floor go, surge or not.
        models = (a_model("a", priority=10), a_model("b", priority=900))
        policy = a_policy(*models, pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 7, "b": 1}, {"a": {"concurrency": 28.0}}, {"a": 7.0}))
        self.offer(story, 6.0, 2.0)
        plan = story.plan()
        assert decision_of(plan, "b").surge
        assert moves(plan) == {"a": (7, 4)}
        assert refusal_of(plan, "shift", "a").numbers["limit"] == 3
