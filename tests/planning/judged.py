"""One release at a time before the guards: who asks which."""

from collections.abc import Iterable

from msgspec.structs import replace

from rebalancer.domain.memory import Loss, ModelMemory
from rebalancer.planning.guards.guards import judge
from rebalancer.planning.guards.release import Purpose, Release, Tally
from rebalancer.planning.planner import weigh
from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story


def a_needed_model(floor: int = 1, **overrides: object) -> Story:
    """Model a holds 8 of 16 and needs all of them; b beside it holds 8, and needs them too."""
    models = (a_model("a", floor, **overrides), a_model("b", 1))
    policy = a_policy(*models, pools=(a_pool(gpus=16),))
    readings = {name: {"concurrency": 32.0} for name in ("a", "b")}
    return Story(policy, a_snapshot(policy, {"a": 8, "b": 8}, readings, {"a": 8.0, "b": 8.0}))


def lost(story: Story, model: str, replicas: int, counts: str, age: float = 100.0) -> None:
    """`model` lost so many, so long ago, and they used up that window."""
    losses = (Loss(at=story.snapshot.at - age, replicas=replicas, counts=counts),)
    kept = story.memory.models.get(model, ModelMemory())
    models = {**story.memory.models, model: replace(kept, losses=losses)}
    story.memory = replace(story.memory, models=models)


def verdicts(story: Story, model: str = "a", purposes: Iterable[Purpose] = Purpose) -> dict[Purpose, str | None]:
    """By purpose, the guard that declines that one replica of `model` goes; None where it may."""
    scene = weigh(story.snapshot, story.policy, story.memory).scene
    part = scene.models[model].targets[0]
    found: dict[Purpose, str | None] = {}
    for purpose in purposes:
        refusal = judge(Release(scene, Tally.of(scene), part, purpose, part.staying_pods[-1]))
        found[purpose] = None if refusal is None else refusal.guard
    return found


def declined(story: Story, guard: str, model: str = "a") -> set[Purpose]:
    """The purposes for which `guard` declines it; no other guard may have a word in it."""
    said = verdicts(story, model)
    assert set(said.values()) <= {guard, None}, said
    return {purpose for purpose, by in said.items() if by == guard}
