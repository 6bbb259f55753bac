"""What no guard ever does, in any world: let a model under its floor, or let go in a surge what it holds else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.domain.memory import Loss, Memory, ModelMemory
from rebalancer.domain.readings import ModelLoad, Work
from rebalancer.planning.guards.guards import judge
from rebalancer.planning.guards.release import Purpose, Release, Tally
from rebalancer.planning.planner import weigh
from tests.planning import oracle
from tests.planning.doubts import a_jumping_model, an_outage, an_outlook, says
from tests.planning.story import Story, moves
from tests.planning.worlds import stories

Asked = tuple[str, str, Purpose]


@st.composite
def pasts(draw: st.DrawFn, story: Story) -> Memory:
    """Windows partly used up, sometimes an outage."""
    at = story.snapshot.at
    models = {}
    for model in story.policy.models:
        losses = st.builds(
            Loss,
            at=st.floats(at - 400.0, at),
            replicas=st.integers(1, 4),
            counts=st.sampled_from(["step", "shift", "exempt"]),
        )
        models[model.id] = ModelMemory(losses=tuple(draw(st.lists(losses, max_size=3))))
    outages = draw(st.sampled_from([(), (), (an_outage(story, at),)]))
    return Memory(models=models, outages=outages)


def let_go(story: Story, memory: Memory) -> dict[Asked, bool]:
    """Whether one replica of each part may go, by purpose."""
    scene = weigh(story.snapshot, story.policy, memory).scene
    tally = Tally.of(scene)
    return {
        (*part.key, purpose): judge(Release(scene, tally, part, purpose, part.staying_pods[-1])) is None
        for holder in scene.models.values()
        for part in holder.targets
        if part.staying_pods
        for purpose in Purpose
    }


def in_a_surge(memory: Memory, at: float) -> Memory:
    """Every model has been in one for ten seconds."""
    return replace(memory, models={name: replace(kept, surge_since=at - 10.0) for name, kept in memory.models.items()})


def busier(load: ModelLoad) -> ModelLoad:
    """Its last minute brought three times as much and one replica more; the long windows hardly know yet."""
    work = load.work
    short, minute = (None if mean is None else 3.0 * mean + 1.0 for mean in (work.short, work.last_60s))
    return replace(load, work=Work(short=short, last_60s=minute, long=work.long, slow=work.slow))


@given(stories(), st.data())
def test_no_guard_lets_go_in_a_surge_what_it_holds_without_one(story: Story, data: st.DataObject) -> None:
    memory = data.draw(pasts(story))
    calm = let_go(story, memory)
    assert let_go(story, in_a_surge(memory, story.snapshot.at)) == calm
    memory = replace(memory, outages=())  # one rise ends an outage: all who are busier speak against it
    calm = let_go(story, memory)
    story.snapshot = replace(story.snapshot, loads=tuple(busier(load) for load in story.snapshot.loads))
    surging = let_go(story, in_a_surge(memory, story.snapshot.at))
    assert [asked for asked, may in surging.items() if may and not calm[asked]] == []


@given(stories(), st.data())
def test_whatever_windows_and_outages_say_no_plan_goes_under_a_floor(story: Story, data: st.DataObject) -> None:
    story.memory = data.draw(pasts(story))
    for _ in range(3):
        snapshot = story.snapshot
        plan = story.plan()
        oracle.judge_plan(snapshot, story.policy, plan)
        oracle.carry_out(story, plan)
        story.settle()
        story.wait(10.0)


@given(stories(), st.data())
def test_an_outage_takes_nothing_from_anybody_of_its_own_accord(story: Story, data: st.DataObject) -> None:
    memory = data.draw(pasts(story))
    at = story.snapshot.at
    story.memory = replace(memory, outages=(an_outage(story, at),))
    for change in story.plan().changes:
        passed = (change.passes or "").startswith(("drain", "reclaim", "override", "withdraw"))
        assert change.replicas_to >= change.replicas_from or passed or change.kind == "settle", change


@pytest.mark.parametrize("requests", [84.0, 100.0, 4000.0, 4e9])
@given(means=st.lists(st.floats(0.0, 1e9), min_size=4, max_size=4))
def test_the_more_of_a_jump_one_sample_claims_the_less_is_it_believed(requests: float, means: list[float]) -> None:
    story = a_jumping_model()
    says(story, requests)
    short, minute, slow, level = means
    story.load(
        "b",
        {"concurrency": requests},
        Work(short=short, last_60s=minute, long=slow, slow=slow),
        outlook=an_outlook(1.0, level, current=2),
    )
    assert moves(story.plan()) == {}
