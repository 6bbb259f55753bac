"""A figure that planning cannot work with holds its model alone, which keeps what it has; the others are planned."""

import math

import pytest
from msgspec.structs import replace

from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, decision_of, moves

USEFUL = {count: 50.0 * (8 - count) for count in range(1, 9)}
WORDS = "its demand is unknown: load is not to be worked with (ValueError: cannot convert float NaN to integer)"


def a_story() -> Story:
    """Three models on 8 GPUs; a has 3 of its 2, b 2 of its 4, c 1; b needs 4, and a by its load 1 alone."""
    models = (a_model("a", 1, entitlement=2), a_model("b", 1, entitlement=4), a_model("c", 1, entitlement=1))
    policy = a_policy(*models, pools=(a_pool(gpus=8),))
    loads = {"a": {"concurrency": 2.0}, "b": {"concurrency": 14.0}, "c": {"concurrency": 2.0}}
    return Story(policy, a_snapshot(policy, {"a": 3, "b": 2, "c": 1}, loads))


@pytest.mark.parametrize("level", [math.nan, math.inf, -math.inf])
def test_a_level_that_is_no_number_holds_its_model_and_all_others_are_planned(level: float) -> None:
    story = a_story()
    for model, its in (("a", level), ("b", 2.0), ("c", 0.4)):
        story.foresee(model, USEFUL, level=its)
    plan = story.plan()
    assert moves(plan) == {"b": (2, 4)}, "b is granted the two free GPUs of its own, and nothing of a goes"
    told = decision_of(plan, "a")
    assert (told.demand, told.granted) == (None, 3)


def test_it_is_told_with_the_words_of_the_fault() -> None:
    story = a_story()
    story.foresee("a", USEFUL, level=math.nan)
    told = decision_of(story.plan(), "a")
    assert (told.why, told.demand) == (WORDS, None), "so `rebalancer_model_blind` is 1"
    assert told.steps[0].said == f"{WORDS.removeprefix('its demand is unknown: ')}, so it has no vote"


def test_a_reading_that_is_none_holds_its_model_alone_too() -> None:
    story = a_story()
    loads = tuple(
        replace(one, signals={"concurrency": None}) if one.model == "a" else one for one in story.snapshot.loads
    )
    story.snapshot = replace(story.snapshot, loads=loads)
    plan = story.plan()
    assert moves(plan) == {"b": (2, 4)}
    assert decision_of(plan, "a").demand is None
