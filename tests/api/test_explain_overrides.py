"""`explain` of a model whose floor a person raised, and of what soon passes by itself."""

import pytest
from msgspec.structs import replace

from rebalancer.api.text.explain import render_explain
from rebalancer.domain.plan import Refusal
from tests.builders import NOW, an_override
from tests.planning.test_scenarios_overrides import a_story, state_of


def test_a_floor_that_a_person_raised_stands_beside_the_policys() -> None:
    story = a_story(an_override("floor", "b", 3, phase="InForce"))
    story.turn()
    said = render_explain(story.plan(), story.snapshot, "b")
    assert "; floor 2, at least 3 by an override of alice until 09:00:00" in said


def test_one_that_is_outranked_does_not() -> None:
    story = a_story(an_override("floor", "b", 3, phase="Superseded"))
    story.turn()
    assert "; floor 2" in (said := render_explain(story.plan(), story.snapshot, "b"))
    assert "at least 3" not in said


@pytest.mark.parametrize(
    ("kind", "value", "counts"),
    [("pause", None, False), ("freeze", None, False), ("pin", 4, False), ("cap", 2, False), ("cap", 3, True)],
)
def test_a_floor_that_another_override_outranks_is_not_told_as_if_it_counted(
    kind: str, value: int | None, *, counts: bool
) -> None:
    story = a_story(an_override("floor", "b", 3, phase="InForce"), an_override(kind, "b", value, phase="InForce"))
    story.turn()
    assert ("at least 3" in render_explain(story.plan(), story.snapshot, "b")) is counts


def test_an_override_of_the_floor_says_that_it_keeps_and_not_that_it_takes() -> None:
    story = a_story(an_override("floor", "b", 3))
    story.turn()
    assert state_of(story.plan(), "floor-b").message.startswith("b keeps 3 or more: it has 4 replicas; in force since ")


def test_an_override_of_a_node_that_is_called_like_the_model_is_not_its_own() -> None:
    story = a_story(an_override("drain", "b"), an_override("floor", "b", 3))
    story.turn()
    said = render_explain(story.plan(), story.snapshot, "b")
    assert "floor 3 by alice" in said
    assert "drain" not in said


def test_who_is_kept_by_a_guard_for_seconds_is_not_offered_a_cap() -> None:
    story = a_story()
    plan = story.plan()

    def said(until: float) -> str:
        refusal = Refusal("shift", "a", 2, 1, "it has given away 1 of at most 1 replica", until=until)
        return render_explain(replace(plan, refusals=(refusal,)), story.snapshot, "a")

    assert "override add cap" not in said(NOW + 1.0)
    assert "override add cap a 1" in said(NOW + 300.0)


def test_who_lends_is_told_to_whom() -> None:
    story = a_story()
    plan = story.plan()

    def has(borrowed: dict[str, int], unowned: int = 0) -> str:
        models = tuple(
            replace(each, lent=2 if each.model == "a" else 0, borrowed=borrowed.get(each.model, 0), unowned=unowned)
            for each in plan.models
        )
        lines = render_explain(replace(plan, models=models), story.snapshot, "a").splitlines()
        return next(line for line in lines if line.startswith("has"))

    assert "; lends GPUs to 2 replicas of b" in has({"b": 2})
    assert "; lends GPUs to 2 replicas of others" in has({"b": 2}, unowned=2)  # what nobody owns is lent by nobody
