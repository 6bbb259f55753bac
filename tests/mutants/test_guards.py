"""A guard that lets everything pass, or whose limit is one off, is noticed by the tests that bear its name."""

import pytest

from rebalancer.domain.policy import Guards
from rebalancer.planning.guards.guards import GUARDS
from tests.mutants.around import AROUND
from tests.mutants.broken import MUTANTS
from tests.mutants.killed import fails, named_after, verdict
from tests.mutants.mutant import Mutant
from tests.mutants.rules import RULES

pytestmark = pytest.mark.slow  # minutes: those around a plan take a second to half a minute each

ALL = {*GUARDS, *Guards.model_fields, "budget", "stop"}


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_guard_fails_the_tests_named_after_it(mutant: Mutant) -> None:
    assert verdict(mutant).killers


@pytest.mark.parametrize("guard", sorted({*ALL, *(one.guard for one in (*RULES, *AROUND))}))
def test_the_tests_named_after_a_guard_find_nothing_in_a_sound_one(guard: str) -> None:
    assert named_after(guard)
    assert [name for name, test in named_after(guard) if fails(test)] == []


def test_every_guard_has_a_mutant_that_never_refuses_and_every_number_of_the_policy_one_that_is_moved() -> None:
    assert {one.guard for one in MUTANTS if one.what == "never refuses"} == ALL
    moved = {(one.guard, one.what.split()[0]) for one in MUTANTS}
    for guard, field in Guards.model_fields.items():
        for number in type(field.default).model_fields if guard not in {"step", "fleet", "shift"} else ("limit",):
            assert (guard, number) in moved
