"""Recipes are made of deeds that there are, and rows name recipes that there are."""

import random

import pytest

from tests.machine.deeds import DEEDS, LATE
from tests.machine.recipes import MISTAKEN, NOTHING, OF_KARPENTER, OWNERS, RECIPES, SLOW_LAUNCHES, WITHOUT_MARKS, deeds
from tests.machine.undone import COOKED


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_deeds_in_their_order(name: str) -> None:
    made = list(deeds(name, 2, random.Random(1)))
    assert [deed.name for deed in made] == [turn.name for turn in RECIPES[name] if turn.name != NOTHING]
    assert made == sorted(made, key=lambda deed: deed.step)
    assert {deed.name for deed in made} <= DEEDS.keys()
    assert {deed.name for deed in made if deed.late} <= {*LATE}


def test_whoever_names_a_recipe_names_one_that_there_is() -> None:
    named = {*OF_KARPENTER, *OWNERS, *SLOW_LAUNCHES, *MISTAKEN, *WITHOUT_MARKS}.union(*COOKED.values())
    assert named <= RECIPES.keys()
