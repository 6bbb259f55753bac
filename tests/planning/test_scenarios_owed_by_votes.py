"""What an owner is owed by votes does not flap: one replica of its own more or less is believed slowly.

8 GPUs: a owns 5 of them and has 4, b owns 1 and has as many as it can get. Votes are 4 requests per replica.
"""

import pytest

from rebalancer.domain.plan import Plan
from rebalancer.domain.readings import Work
from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, decision_of, moves, unmet_of

HOME = {"b": (4, 3)}  # what a calls home


def a_pair(in_flight: float, a: int = 4, b: int = 4, priority: int = 100) -> Story:
    owner, borrower = a_model("a", 0, entitlement=5, priority=priority), a_model("b", 1, entitlement=1)
    policy = a_policy(owner, borrower, pools=(a_pool(gpus=8),), look_ahead=False)
    readings = {"a": {"concurrency": in_flight}, "b": {"concurrency": 60.0}}
    return Story(policy, a_snapshot(policy, {"a": a, "b": b}, readings, {"b": 15.0}))


def course(story: Story, *in_flight: float) -> list[Plan]:
    """A plan every 5 s, with so many requests of a in flight."""
    plans = []
    for requests in in_flight:
        story.load("a", {"concurrency": requests})
        plans.append(story.turn(5.0))
    return plans


def owned(story: Story) -> int | None:
    """Replicas of a's demand."""
    return decision_of(story.plans[-1], "a").demand


class TestOwed:
    def test_one_replica_more_comes_home_once_votes_have_asked_for_it_throughout_20_s(self) -> None:
        story = a_pair(17.0)
        assert [moves(plan) for plan in story.turns(6, 5.0)] == [{}, {}, {}, {}, HOME, {"a": (4, 5)}]

    def test_a_vote_for_less_in_between_begins_the_20_s_anew(self) -> None:
        plans = course(a_pair(17.0), 17.0, 17.0, 17.0, 16.0, *[17.0] * 5)
        assert [plan.empty for plan in plans] == [True] * 8 + [False]

    def test_so_does_a_moment_in_which_nothing_is_seen(self) -> None:
        story = a_pair(17.0)
        course(story, 17.0, 17.0, 17.0)
        story.load("a", {})
        assert story.turn(5.0).empty
        assert [plan.empty for plan in course(story, *[17.0] * 5)] == [True] * 4 + [False]

    def test_votes_that_hover_at_a_boundary_move_nothing(self) -> None:
        assert all(plan.empty for plan in course(a_pair(17.0), *[17.0, 17.0, 16.0, 17.0, 16.0, 16.0] * 6))

    def test_a_step_of_more_than_one_replica_comes_home_in_the_next_plan(self) -> None:
        assert moves(a_pair(17.0, a=3, b=5).turn()) == {"b": (5, 3)}

    def test_so_does_a_surge(self) -> None:
        story = a_pair(17.0)
        story.load("a", {"concurrency": 17.0}, Work(short=4.2, last_60s=2.0, long=2.0, slow=2.0))
        assert moves(story.turn()) == HOME

    def test_so_does_the_first_replica_of_who_has_none(self) -> None:
        assert moves(a_pair(1.0, a=0, b=8).turn()) == {"b": (8, 7)}

    def test_nor_does_priority_take_it_before(self) -> None:
        story = a_pair(17.0, priority=900)
        assert [moves(plan) for plan in story.turns(5, 5.0)] == [{}, {}, {}, {}, HOME]

    def test_what_is_free_needs_no_claim(self) -> None:
        assert moves(a_pair(17.0, b=3).turn()) == {"a": (4, 5)}

    def test_who_waits_for_it_is_told_until_when(self) -> None:
        row = unmet_of(a_pair(17.0).turn(), "a")
        assert row is not None
        counts = "its votes ask for 5 of the 5 that it owns since 08:00:00, which counts from 08:00:20 on"
        assert row.why.endswith(f"lends 1 GPU to b: its work and its votes claim 4 of its own by now; {counts}")

    def test_the_last_replica_goes_once_votes_asked_for_less_throughout_the_cooldown(self) -> None:
        story = a_pair(20.0, a=5, b=3)
        assert [plan.empty for plan in course(story, 20.0, *[8.0] * 7)] == [True] * 7 + [False]

    @pytest.mark.parametrize(("requests", "stays"), [(16.0, 5), (9.0, 4), (8.0, 3), (4.0, 2), (1.0, 1), (0.0, 0)])
    def test_one_that_requests_may_ask_for_again_by_chance_stays(self, requests: float, stays: int) -> None:
        # 16, 9 and 8 in flight are 24, 15 and 14 by chance, two roots more. Votes ask for 4, 3 and 2; one more stays.
        story = a_pair(20.0, a=5, b=3)
        course(story, 20.0, *[requests] * 14)
        assert owned(story) == stays

    def test_beyond_its_own_none_stays_for_chance(self) -> None:
        story = a_pair(28.0, a=7, b=1)
        story.load("b", {"concurrency": 4.0})
        course(story, 28.0, *[21.0] * 14)
        assert owned(story) == 6

    @pytest.mark.parametrize("after", [Work(short=1.0, last_60s=1.0, long=1.0, slow=1.0), Work()])
    def test_none_of_its_own_goes_in_a_surge_until_that_is_over_or_its_work_unknown(self, after: Work) -> None:
        story = a_pair(20.0, a=5, b=3)
        story.turn()
        story.load("a", {"concurrency": 4.0}, Work(short=4.2, last_60s=2.0, long=2.0, slow=2.0))
        assert all(plan.empty for plan in story.turns(14))
        story.load("a", {"concurrency": 4.0}, after)
        assert not all(plan.empty for plan in story.turns(14))


class TestLending:
    def test_no_replica_goes_home_within_20_s_of_its_grant_whenever_the_votes_begin(self) -> None:
        # c has no work and gives its GPU after a cooldown, for which b waits. About then a calls for its fifth.
        granted = set()
        for begin in range(5, 11):
            models = (a_model("a", 0, entitlement=5), a_model("b", 1, entitlement=1), a_model("c", 0))
            policy = a_policy(*models, pools=(a_pool(gpus=8),), look_ahead=False)
            readings = {"a": {"concurrency": 16.0}, "b": {"concurrency": 60.0}, "c": {"concurrency": 0.0}}
            story = Story(policy, a_snapshot(policy, {"a": 4, "b": 3, "c": 1}, readings, {"b": 15.0}))
            granted_at: float | None = None
            for step in range(18):
                story.load("a", {"concurrency": 17.0 if step >= begin else 16.0})
                plan = story.turn(5.0)
                before, after = moves(plan).get("b", (0, 0))
                if after > before:
                    granted_at = plan.at
                    granted.add(begin)
                if after < before:
                    assert granted_at is None or plan.at - granted_at >= 20.0
            assert story.replicas("a") == 5
        assert 0 < len(granted) < 6, "lent where nobody calls, and not where somebody is about to"
