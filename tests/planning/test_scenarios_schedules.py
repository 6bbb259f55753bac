"""Schedules: a floor asked for in time, a cap, what stands above them, and an end like any other decrease.

NOW is Friday 2027-01-15, 08:00 in UTC and 09:00 in Berlin. Model b holds 2 of 8 GPUs and needs them, floor 1; it is
Ready after 60 s. A plan is made every 10 s.
"""

from msgspec.structs import replace

from rebalancer.domain.codec import to_bytes
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.timetable import Schedule
from rebalancer.planning import plan as decide
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_override
from tests.planning.story import Story, change_of, decision_of, moves, refusal_of, unmet_of


def a_schedule(begin: str, until: str, low: int | None = None, high: int | None = None, **fields: object) -> Schedule:
    said = {"name": "rush", "from": begin, "until": until, "timeZone": "Europe/Berlin"}
    return Schedule.model_validate(said | {"minReplicas": low, "maxReplicas": high} | fields)


def a_story(*schedules: Schedule, held: int = 2, wanted: float = 2.0, other: int = 1, owned: int = 6) -> Story:
    """Model a holds `other` and needs as many; `owned` are its own."""
    a = a_model("a", 1, entitlement=owned, priority=200)
    policy = a_policy(a, a_model("b", 1, entitlement=2, schedules=schedules), pools=(a_pool(gpus=8),))
    readings = {"a": {"concurrency": 4.0 * other}, "b": {"concurrency": 4.0 * wanted}}
    return Story(policy, a_snapshot(policy, {"a": other, "b": held}, readings, {"a": float(other), "b": wanted}))


def said(plan: Plan, model: str = "b", stage: str = "schedule") -> str:
    return next((step.said for step in decision_of(plan, model).steps if step.stage == stage), "")


def overridden(story: Story, *overrides: Override) -> Plan:
    story.override(*overrides)
    return story.plan()


class TestFloor:
    def test_it_is_asked_for_one_start_and_one_planning_period_before_its_window(self) -> None:
        story = a_story(a_schedule("09:10", "10:00", 6))
        assert [moves(plan) for plan in story.turns(53)] == [{}] * 53  # until 08:08:40
        assert moves(story.turn()) == {"b": (2, 6)}  # 08:08:50, so the ask of 08:09:00 is not missed

    def test_the_measured_start_counts_in_place_of_the_prior(self) -> None:
        story = a_story(a_schedule("09:10", "10:00", 6))
        views = (replace(view, load_seconds=290.0) for view in story.snapshot.models)
        story.snapshot = replace(story.snapshot, models=tuple(views))
        assert [moves(plan) for plan in story.turns(30)] == [{}] * 30
        assert moves(story.turn()) == {"b": (2, 6)}

    def test_explanations_say_which_schedule_and_until_when_and_what_comes_next(self) -> None:
        story = a_story(a_schedule("08:00", "10:00", 6, 7, reason="tenders"))
        plan = story.plan()
        words = "floor 6 by schedule rush until 10:00 Europe/Berlin (09:00 UTC) (tenders)"
        said_of_b = "its votes ask for 2 replicas; waits for 4 more: this plan asks for them"
        assert decision_of(plan, "b").why == f"{words}; {said_of_b}"
        assert said(plan, stage="demand") == f"{words}; its votes ask for 2 replicas"
        cap = words.replace("floor 6", "cap 7")
        assert said(plan) == f"{words}; {cap}; next 10:00 Europe/Berlin (09:00 UTC): floor 1, no cap"
        assert change_of(plan, "b").reason.endswith(f"{words}; its votes ask for 2 replicas")

    def test_before_its_window_they_say_from_when(self) -> None:
        plan = a_story(a_schedule("09:01", "10:00", 6)).plan()
        assert said(plan).startswith(
            "floor 6 by schedule rush from 09:01 Europe/Berlin (08:01 UTC), asked for one start earlier"
        )

    def test_a_change_on_another_day_is_told_with_its_date(self) -> None:
        plan = a_story(a_schedule("07:30", "10:00", 6, days=("mon",))).plan()
        date = "Mon 2027-01-18"
        assert said(plan) == f"next {date} 07:28 Europe/Berlin ({date} 06:28 UTC): floor 6, no cap"

    def test_while_it_lasts_nobody_gets_below_it(self) -> None:
        story = a_story(a_schedule("08:00", "10:00", 5), held=5)
        story.load("b", {"concurrency": 0.0}, 0.0)
        story.load("a", {"concurrency": 24.0}, 6.0)
        story.turns(60)
        assert (story.replicas("a"), story.replicas("b")) == (3, 5)

    def test_every_change_says_the_floor_in_force_so_that_the_write_keeps_it_too(self) -> None:
        rush = a_story(a_schedule("08:00", "10:00", 3), held=6, wanted=6.0, other=1)
        assert change_of(overridden(rush, an_override("cap", "b", 4)), "b").floor == 3
        assert change_of(overridden(rush, an_override("pin", "b", 2)), "b").floor == 1

    def test_it_is_met_before_what_others_own_down_to_their_floors(self) -> None:
        story = a_story(a_schedule("08:00", "12:00", 5), other=6)
        story.turns(120)
        assert (story.replicas("a"), story.replicas("b")) == (3, 5)

    def test_what_does_not_fit_is_said_and_alarms_nobody_whose_requests_are_in_time(self) -> None:
        story = a_story(a_schedule("08:00", "12:00", 9))
        plan = story.turns(3)[-1]
        assert unmet_of(plan, "b") is None
        assert decision_of(plan, "b").headroom == 2
        assert "waits for 2 more: a replica needs 1 GPU" in decision_of(plan, "b").why

    def test_when_it_ends_the_owner_of_the_gpus_gets_them_back(self) -> None:
        story = a_story(a_schedule("08:00", "09:01", 7), held=7)
        story.load("a", {"concurrency": 24.0}, 6.0)
        assert [moves(plan) for plan in story.turns(6)] == [{}] * 6
        change = change_of(story.turn(), "b")
        assert (change.replicas_from, change.replicas_to, change.passes) == (7, 2, "reclaim")

    def test_when_it_ends_it_gives_to_others_no_faster_than_guards_let_it(self) -> None:
        story = a_story(a_schedule("08:00", "09:01", 7), held=7, owned=1)
        story.load("a", {"concurrency": 24.0}, 6.0)
        story.turns(6)
        story.load("b")  # nobody sees it
        plan = story.turn()
        assert not moves(plan)
        assert refusal_of(plan, "blind", "b").replicas_from == 7

    def test_when_it_ends_and_nobody_wants_them_they_stay_where_they_are(self) -> None:
        story = a_story(a_schedule("08:00", "09:01", 7), held=7)
        assert all(plan.empty for plan in story.turns(20))


class TestCap:
    def test_it_holds_demand_down_and_says_so(self) -> None:
        plan = a_story(a_schedule("08:00", "10:00", None, 3), wanted=6.0).turns(2)[-1]
        assert decision_of(plan, "b").granted == 3
        assert said(plan, stage="demand").startswith("cap 3 by schedule rush until 10:00 Europe/Berlin (09:00 UTC);")

    def test_it_begins_with_its_window_and_not_before(self) -> None:
        story = a_story(a_schedule("09:01", "10:00", None, 3), wanted=6.0)
        story.turns(3)
        assert story.replicas("b") == 6

    def test_what_is_above_it_goes_through_the_guards(self) -> None:
        story = a_story(a_schedule("08:00", "12:00", None, 2), held=7, wanted=7.0)
        first = story.plan()
        assert moves(first) == {"b": (7, 6)}  # a fifth of 7 in 5 min
        assert change_of(first, "b").counts == "step"
        assert refusal_of(first, "step", "b").replicas_from == 6
        story.turns(200)
        assert story.replicas("b") == 2

    def test_unseen_is_not_taken_down(self) -> None:
        story = a_story(a_schedule("08:00", "12:00", None, 2), held=7)
        story.load("b")
        plan = story.plan()
        assert not moves(plan)
        assert refusal_of(plan, "blind", "b").replicas_from == 7

    def test_a_floor_above_it_wins_and_that_is_told(self) -> None:
        story = a_story(a_schedule("08:00", "10:00", 5), a_schedule("08:00", "12:00", None, 3, name="cap"), wanted=7.0)
        plan = story.turns(2)[-1]
        assert decision_of(plan, "b").granted == 5
        assert "cap 3 by schedule cap until 12:00 Europe/Berlin (11:00 UTC), outweighed by the floor 5" in said(plan)


class TestBelowPeople:
    """Floor 5, cap 6 until 10:00 by schedule; 7 needed."""

    @staticmethod
    def granted(*overrides: Override) -> int:
        story = a_story(a_schedule("08:00", "10:00", 5, 6), wanted=7.0)
        story.override(*overrides)
        return decision_of(story.turns(2)[-1], "b").granted

    def test_without_people_the_cap_counts(self) -> None:
        assert self.granted() == 6

    def test_a_pin_takes_the_place_of_both(self) -> None:
        assert self.granted(an_override("pin", value=2)) == 2
        assert self.granted(an_override("pin", value=7)) == 7

    def test_a_cap_takes_the_place_of_the_cap_and_lowers_the_floor(self) -> None:
        assert self.granted(an_override("cap", value=3)) == 3
        assert self.granted(an_override("cap", value=7)) == 7

    def test_but_never_under_the_policys_floor(self) -> None:
        story = a_story(a_schedule("08:00", "10:00", 5, 6))
        assert moves(overridden(story, an_override("pin", value=0))) == {"b": (2, 1)}

    def test_a_floor_above_the_cap_wins(self) -> None:
        assert self.granted(an_override("floor", value=7)) == 7

    def test_a_floor_under_the_scheduled_one_changes_nothing(self) -> None:
        story = a_story(a_schedule("08:00", "10:00", 5, 6))
        story.override(an_override("floor", value=3))
        assert decision_of(story.turns(2)[-1], "b").granted == 5

    def test_a_pause_and_a_freeze_leave_the_number_alone(self) -> None:
        assert self.granted(an_override("pause")) == 2
        assert self.granted(an_override("freeze")) == 2

    def test_the_explanation_names_who_stands_above(self) -> None:
        story = a_story(a_schedule("08:00", "10:00", 5))
        assert said(overridden(story, an_override("pin", value=2))).endswith(
            "; pin 2 by override pin-b stands above it"
        )
        capped = overridden(story, an_override("cap", value=4))
        assert "floor 5 by schedule rush" in said(capped, stage="demand")
        assert "cap 4 by override cap-b" in said(capped, stage="demand")


def test_a_decision_is_made_again_from_the_policy_that_the_journal_keeps() -> None:
    story = a_story(a_schedule("08:00", "10:00", 5, 6, firstDate="2027-01-01"))
    kept = Policy.model_validate(story.policy.to_mapping(), strict=False)
    assert kept == story.policy
    first = decide(story.snapshot, story.policy, story.memory)
    assert to_bytes(decide(story.snapshot, kept, story.memory)) == to_bytes(first)


def test_a_model_without_schedules_is_told_nothing_of_them() -> None:
    assert said(a_story().plan()) == ""
