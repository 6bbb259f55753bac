"""A start whose memory is older than the cluster holds back where it does not know."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.planning.guarded.release import Purpose
from rebalancer.planning.recall import recall
from rebalancer.planning.resume import resume
from tests.builders import NOW, a_policy
from tests.planning.judged import a_needed_model, verdicts

WINDOWED = {"step": 300.0, "shift": 10.0}  # seconds, as the builders' policy has them


@pytest.mark.parametrize("guard", ["step", "shift"])
def test_a_window_that_reaches_back_before_a_start_that_does_not_know_counts_as_used_up(guard: str) -> None:
    story = a_needed_model()
    before = verdicts(story)
    story.memory = replace(story.memory, unknown_before=story.snapshot.at - WINDOWED[guard] + 1.0)
    held = {purpose for purpose, by in verdicts(story).items() if by == guard and before[purpose] is None}
    assert held
    assert Purpose.DRAIN not in held
    assert Purpose.OVERRIDE not in held
    story.memory = replace(story.memory, unknown_before=story.snapshot.at - WINDOWED[guard])
    assert guard not in verdicts(story).values()


def test_it_is_forgotten_when_no_window_reaches_back_there() -> None:
    memory = Memory(unknown_before=NOW)
    assert recall(memory, (), a_policy(), NOW + 299.0).unknown_before == NOW
    assert recall(memory, (), a_policy(), NOW + 300.0).unknown_before is None


def test_memory_of_the_last_cycle_is_believed_as_it_is() -> None:
    memory = Memory(models={"b": ModelMemory(demand=3, replaced=("a100/u/3/p",))})
    assert resume(memory, NOW, behind=False, gaps=False) is memory


def test_what_counts_how_long_something_lasts_begins_anew() -> None:
    kept = ModelMemory(demand=3, lower_since=NOW - 100.0, lower_peak=2, last_move_at=NOW - 50.0, unmet_since=NOW)
    begun = resume(Memory(models={"b": kept}), NOW, behind=True, gaps=False).models["b"]
    assert begun == ModelMemory(last_move_at=NOW - 50.0, unmet_since=NOW, begun_anew=True)


@pytest.mark.parametrize(("gaps", "gave_at"), [(False, NOW - 50.0), (True, NOW)])
def test_where_writes_are_unknown_everybody_may_just_have_given_a_replica(gaps: bool, gave_at: float) -> None:  # noqa: FBT001
    kept = ModelMemory(gave_at=NOW - 50.0, spare_since=NOW - 100.0)
    begun = resume(Memory(models={"b": kept}), NOW, behind=True, gaps=gaps).models["b"]
    assert (begun.gave_at, begun.spare_since) == (gave_at, None)


def test_nothing_goes_for_want_of_demand_before_a_cooldown_has_passed() -> None:
    story = a_needed_model()
    before = verdicts(story)
    story.memory = replace(story.memory, resumed_at=story.snapshot.at - 69.0)  # interactive: twice 30 s, and 10
    held = {purpose for purpose, by in verdicts(story).items() if by == "start"}
    assert held == set(Purpose) - {Purpose.DRAIN, Purpose.OVERRIDE, Purpose.RECLAIM}
    story.memory = replace(story.memory, resumed_at=story.snapshot.at - 70.0)
    assert verdicts(story) == before
