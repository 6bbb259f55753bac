"""Every day some leaders that die at a side effect; `python -m tests.schedules.killed` plays each of them."""

import pytest

from rebalancer.app.effects import EFFECTS
from tests.machine.killed import Death
from tests.schedules.killed import a_disturbed_world, passing, play_killed

SEED = 1  # of a dozen disturbances


@pytest.mark.parametrize(
    "death",
    [
        Death("kafka/decisions/cycle", 1, "after"),
        Death("kube/patch/leases", 2, "before"),
        Death("kube/update/scale", 1, "after"),
        Death("kafka/decisions/intent", 2, "after"),
        Death("kafka/decisions/outcome", 1, "before"),
        Death("kafka/state/memory", 1, "before"),
        Death("kafka/state/rings", 2, "after"),
    ],
    ids=str,
)
def test_a_leader_that_dies_at_an_effect_is_followed_and_no_rule_is_broken(death: Death) -> None:
    played, deaths = play_killed(a_disturbed_world(SEED), death)
    assert played.verdict is None
    assert deaths > 0, "else nothing is shown"
    assert played.counts["terms"] > 1, "another one has led and written"


def test_what_passes_in_these_worlds_are_effects_of_the_service() -> None:
    names = {*passing(1)}
    assert names <= EFFECTS.keys()
    assert {"kube/patch/leases", "kube/create/events", "kafka/decisions/frame", "kafka/state/policy"} <= names
