"""What people are told of their overrides, in words."""

import pytest

from tests.builders import NOW, an_override
from tests.planning.test_scenarios_overrides import a_story, state_of

TWO = (
    "b went from 4 to 2 replicas; in force since 08:00:00; "
    "without this override b would have 2 replicas more; as it is: 4 replicas of work on 2"
)
THREE = (
    "b went from 4 to 3 replicas; in force since 08:00:00; "
    "without this override b would have 1 replica more; as it is: 4 replicas of work on 3"
)


class TestTold:
    """Every override's status says what it did since when, or what keeps it from it."""

    def test_what_it_did_stays_told_after_it_is_done(self) -> None:
        story = a_story(an_override("pin", value=2))
        story.turns(2)
        assert state_of(story.plan(), "pin-b").message == TWO

    def test_since_when_survives_a_superseder(self) -> None:
        old = an_override("pin", value=3, name="old", created_at=NOW - 100.0)
        story = a_story(old)
        story.turns(2)
        story.override(old, an_override("pin", value=5, name="new", created_at=NOW))
        story.turn()
        story.override(old)
        story.turn()
        assert state_of(story.plan(), "old").message == THREE

    def test_memory_of_it_goes_with_the_object(self) -> None:
        story = a_story(an_override("pin", value=3))
        story.turn()
        assert [each.uid for each in story.memory.overrides] == ["uid-pin-b"]
        story.override()
        story.turn()
        assert story.memory.overrides == ()

    @pytest.mark.parametrize(
        ("kinds", "loser", "winner"),
        [
            (("pause", "freeze"), "freeze", "pause"),
            (("freeze", "pin"), "pin", "freeze"),
            (("pin", "cap"), "cap", "pin"),
            (("pin", "floor"), "floor", "pin"),
            (("cap", "floor"), "floor", "cap"),
        ],
    )
    def test_one_that_another_kind_outranks_is_told_which(
        self, kinds: tuple[str, str], loser: str, winner: str
    ) -> None:
        values = {"pin": 6, "cap": 5, "floor": 8}
        plan = a_story(*(an_override(kind, value=values.get(kind)) for kind in kinds)).plan()
        assert state_of(plan, f"{loser}-b").message == f"it waits, since {winner} by override {winner}-b outranks it"

    def test_a_floor_under_the_cap_is_not_outranked(self) -> None:
        plan = a_story(an_override("cap", value=5), an_override("floor", value=5)).plan()
        assert (
            state_of(plan, "floor-b").message
            == "b keeps 5 or more: it has 4 replicas and goes to 5; in force since 08:00:00"
        )

    def test_pause_freeze_and_exclude(self) -> None:
        assert (
            state_of(a_story(an_override("pause")).plan(), "pause-b").message
            == "b is left alone; in force since 08:00:00"
        )
        assert (
            state_of(a_story(an_override("freeze")).plan(), "freeze-b").message
            == "b has 4 replicas; in force since 08:00:00"
        )
        one = an_override("exclude", "a100", subject_kind="pool", model="b")
        said = state_of(a_story(one).plan(), one.name).message
        assert said == "b is granted nothing new on pool a100; in force since 08:00:00"

    def test_a_drain_of_a_node_that_nobody_sees(self) -> None:
        plan = a_story(an_override("drain", "gone-1")).plan()
        assert state_of(plan, "drain-gone-1").message == "node gone-1: no such node is seen"

    def test_when_it_ended(self) -> None:
        plan = a_story(an_override("pin", value=6, expires_at=NOW - 5.0)).plan()
        assert state_of(plan, "pin-b").message == "ended at 07:59:55"

    def test_a_right_in_one_namespace_does_not_reach_a_model_of_another(self) -> None:
        for one in (
            an_override("pin", value=6, namespace="elsewhere"),
            an_override("exclude", "a100", subject_kind="pool", model="b", namespace="elsewhere"),
        ):
            plan = a_story(one).plan()
            state = state_of(plan, one.name)
            assert plan.empty
            assert (state.phase, state.message) == (
                "Refused",
                "model b is in namespace serving; create the override there",
            )
