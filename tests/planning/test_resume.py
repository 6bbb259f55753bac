"""A start whose memory is older than the cluster holds back where it does not know."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.planning.guards.release import Purpose
from rebalancer.planning.memory.outcomes import recall
from rebalancer.planning.memory.resume import resume
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.judged import a_needed_model, verdicts
from tests.planning.story import Story, moves

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
    assert resume(memory, NOW, ("b",), behind=False, gaps=False) is memory


def test_what_counts_how_long_something_lasts_begins_anew() -> None:
    kept = ModelMemory(demand=3, lower_since=NOW - 100.0, lower_peak=2, last_move_at=NOW - 50.0, unmet_since=NOW)
    begun = resume(Memory(models={"b": kept}), NOW, ("b",), behind=True, gaps=False).models["b"]
    assert begun == ModelMemory(last_move_at=NOW - 50.0, unmet_since=NOW, begun_anew=True)


@pytest.mark.parametrize(("gaps", "gave_at"), [(False, NOW - 50.0), (True, NOW)])
def test_where_writes_are_unknown_everybody_may_just_have_given_a_replica(gaps: bool, gave_at: float) -> None:  # noqa: FBT001  # a case
    kept = ModelMemory(gave_at=NOW - 50.0, spare_since=NOW - 100.0)
    begun = resume(Memory(models={"b": kept}), NOW, ("b",), behind=True, gaps=gaps).models["b"]
    assert (begun.gave_at, begun.spare_since) == (gave_at, None)


def test_models_that_memory_does_not_know_begin_anew_as_well() -> None:
    begun = resume(Memory(), NOW, ("b", "c"), behind=True, gaps=False)
    assert begun.models == {"b": ModelMemory(begun_anew=True), "c": ModelMemory(begun_anew=True)}


def test_nothing_goes_for_want_of_demand_before_a_cooldown_has_passed() -> None:
    story = a_needed_model()
    before = verdicts(story)
    story.memory = replace(story.memory, resumed_at=story.snapshot.at - 69.0)  # interactive: twice 30 s, and 10
    held = {purpose for purpose, by in verdicts(story).items() if by == "start"}
    assert held == set(Purpose) - {Purpose.DRAIN, Purpose.OVERRIDE, Purpose.RECLAIM}
    story.memory = replace(story.memory, resumed_at=story.snapshot.at - 70.0)
    assert verdicts(story) == before


def test_a_borrower_keeps_what_it_needs_while_another_has_more_than_it_needs_and_waits() -> None:
    """Of five GPUs a borrows three and needs them, c owns two and needs none; b asks for one of its own."""
    models = (a_model("a", 0), a_model("b", 0, entitlement=2), a_model("c", 0, entitlement=2))
    policy = a_policy(*models, pools=(a_pool(gpus=5),))
    loads = {"a": 3.0, "b": 1.0, "c": 0.0}
    readings = {name: {"concurrency": 4.0 * level} for name, level in loads.items()}
    world = a_snapshot(policy, {"a": 3, "b": 0, "c": 2}, readings, loads)
    started = resume(Memory(), NOW, loads, behind=True, gaps=False)
    story = Story(policy, world, started)
    assert moves(story.plan()) == {}
    story.wait(70.0)  # until c's surplus may go
    assert moves(story.plan()) == {"c": (2, 1)}


def test_what_is_called_home_does_not_wait_where_nobody_else_has_more_than_it_needs() -> None:
    models = (a_model("a", 0), a_model("b", 0, entitlement=2))
    policy = a_policy(*models, pools=(a_pool(gpus=3),))
    world = a_snapshot(
        policy, {"a": 3, "b": 0}, {"a": {"concurrency": 12.0}, "b": {"concurrency": 4.0}}, {"a": 3.0, "b": 1.0}
    )
    story = Story(policy, world, resume(Memory(), NOW, ("a", "b"), behind=True, gaps=False))
    assert moves(story.plan()) == {"a": (3, 2)}
