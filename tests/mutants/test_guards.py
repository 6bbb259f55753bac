"""A guard that lets everything pass is noticed by the tests that bear its name."""

import pytest

from rebalancer.planning.guards import GUARDS
from tests.mutants.broken import NAMED
from tests.mutants.killed import verdict


@pytest.mark.parametrize("guard", NAMED)
def test_a_broken_guard_fails_the_tests_named_after_it(guard: str) -> None:
    found = verdict(guard)
    assert found.sound
    assert found.killers


def test_every_guard_that_judges_a_release_has_a_mutant() -> None:
    assert set(GUARDS) <= set(NAMED)
