"""Numbers that come back as doomed pods leave: believed only of the target that was asked, while it is asked for that.

Memory may be older than the cluster: a start from a checkpoint, with the decisions since then or without them.
"""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Memory, ModelMemory, Replaced
from rebalancer.domain.outcome import Outcome
from rebalancer.planning import Memo
from rebalancer.planning.memory.outcomes import call_pools_as_now, recall
from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, change_of, moves


def replaced_on_a_doomed_node() -> Story:
    """Model b, floor 1, needs its 3 replicas; they were on a100-1, and 3 more run on a100-2 beside them."""
    policy = a_policy(a_model("b", 1, entitlement=3), pools=(a_pool(gpus=24),))
    story = Story(policy, a_snapshot(policy, {"b": 3}, {"b": {"concurrency": 12.0}}, {"b": 3.0}))
    story.plan()
    story.notice("a100-1", karpenter=True)
    story.write(story.plan())
    story.settle()
    assert story.replicas("b") == 6
    story.plan()
    return story


def needs(story: Story, replicas: int) -> None:
    """From now on so many are needed."""
    story.load("b", {"concurrency": 4.0 * replicas}, float(replicas))


def lives_on(story: Story, needed: int, turns: int = 12) -> tuple[Outcome, ...]:
    """The node goes, the number comes back, and load rises to `needed`; what was written meanwhile."""
    story.evict("a100-1")
    written: list[Outcome] = []
    for turn in range(turns):
        if turn == 2:
            story.lose("a100-1")
            needs(story, needed)
        story.write(story.plan())
        written += story.snapshot.outcomes
        story.settle()
        story.wait(10.0)
    assert story.replicas("b") == needed
    return tuple(written)


def starts_again(story: Story, memory: Memory) -> None:
    """A process that knows no more than `memory`."""
    story.memory, story.kept = memory, Memo()
    story.snapshot = replace(story.snapshot, outcomes=())


def test_a_number_that_came_back_meanwhile_is_not_taken_back_again() -> None:
    story = replaced_on_a_doomed_node()
    older = story.memory
    lives_on(story, needed=5)
    starts_again(story, older)
    assert moves(story.plan()) == {}
    assert story.memory.models["b"].replaced == ()


def test_an_older_memory_and_the_decisions_since_give_the_truth() -> None:
    # Six are needed again, as many as were asked for before: only the decisions tell the two sixes apart.
    story = replaced_on_a_doomed_node()
    older = story.memory
    since = lives_on(story, needed=6)
    starts_again(story, recall(older, since, story.policy, story.snapshot.at))
    assert story.memory.models["b"].replaced == ()
    assert moves(story.plan()) == {}


def test_a_write_between_that_nobody_tells_of_breaks_the_belief() -> None:
    story = replaced_on_a_doomed_node()
    older = story.memory
    since = lives_on(story, needed=6)
    last = since[-1:]  # the settle, and whatever came before the last raise, are lost
    assert last[0].intent.replicas_to == 6
    assert recall(older, last, story.policy, story.snapshot.at).models["b"].replaced == ()


def test_a_target_made_anew_owes_no_number() -> None:
    story = replaced_on_a_doomed_node()
    story.lose("a100-1")
    story.target("b", uid="uid-another")
    assert moves(story.plan()) == {}


def test_a_number_that_somebody_else_wrote_is_not_taken_back() -> None:
    story = replaced_on_a_doomed_node()
    story.lose("a100-1")
    story.target("b", replicas=4)
    needs(story, 4)
    assert moves(story.plan()) == {}


def test_what_was_asked_and_stands_comes_back_after_a_start_too() -> None:
    story = replaced_on_a_doomed_node()
    starts_again(story, story.memory)
    story.evict("a100-1")
    change = change_of(story.plan(), "b")
    assert (change.kind, change.replicas_from, change.replicas_to) == ("settle", 6, 3)


def test_replicas_whose_number_comes_back_are_said_to_be_ready_until_that_is_written() -> None:
    story = replaced_on_a_doomed_node()
    story.evict("a100-1")
    story.settle()  # nothing is written, say a webhook refuses: their ReplicaSet has made new ones
    plan = story.plan()
    assert moves(plan) == {"b": (6, 3)}
    assert [model.ready for model in plan.models if model.model == "b"] == [6]


@pytest.mark.parametrize("owned", [5, 3])
def test_replicas_that_serve_and_that_their_model_needs_are_not_taken_for_those_that_went(owned: int) -> None:
    story = replaced_on_a_doomed_node()
    story.policy = a_policy(a_model("b", 1, entitlement=owned), pools=(a_pool(gpus=24),))
    needs(story, 5)
    remembered = replace(story.memory.models["b"], demand=5)
    story.memory = replace(story.memory, models={"b": remembered})
    story.evict("a100-1")
    story.settle()  # their ReplicaSet has made new ones, as in a rollout, before the number came back
    assert moves(story.plan()) == {"b": (6, 5)}


def test_the_others_go_on_under_the_number_that_is_left() -> None:
    story = replaced_on_a_doomed_node()
    first = next(pod for pod in story.of("b").pods if pod.node == "a100-1")
    story.target("b", pods=tuple(pod for pod in story.of("b").pods if pod is not first))
    story.write(story.plan())
    assert story.replicas("b") == 5
    story.settle()
    story.plan()
    assert {Replaced.of(entry).replicas for entry in story.memory.models["b"].replaced} == {5}
    story.evict("a100-1")
    assert moves(story.plan()) == {"b": (5, 3)}


def test_an_old_spelling_is_dropped() -> None:
    story = replaced_on_a_doomed_node()
    gone = tuple(f"a100/uid-b-{number}" for number in range(3))
    story.lose("a100-1")
    starts_again(story, Memory(models={"b": ModelMemory(replaced=gone)}))
    assert moves(story.plan()) == {}
    assert story.memory.models["b"].replaced == ()


@pytest.mark.parametrize("spelled", ["a100/uid-b/6/uid-b-1", "a100/uid-b-1", "a100", "a100/uid-b/six/uid-b-1"])
def test_whatever_is_spelled_can_be_read(spelled: str) -> None:
    one = Replaced.of(spelled)
    assert (one.pool, one.replicas) == ("a100", 6 if spelled == str(one) else -1)


def test_a_pool_that_is_renamed_keeps_the_replacements_that_stand_beside_its_doomed_pods() -> None:
    """No further ones are asked for, and the number comes back as the doomed node goes."""
    story = replaced_on_a_doomed_node()
    story.policy, view = (
        a_policy(a_model("b", 1, entitlement=3, pools=("h",)), pools=(a_pool("h", gpus=24),)),
        story.snapshot,
    )
    models = (replace(each, targets=tuple(replace(one, pool="h") for one in each.targets)) for each in view.models)
    pools = (replace(each, name="h") for each in view.pools)
    story.snapshot, story.compares = replace(view, models=tuple(models), pools=tuple(pools), outcomes=()), False
    assert story.plan().changes == ()
    assert {Replaced.of(entry).pool for entry in story.memory.models["b"].replaced} == {"h"}
    lives_on(story, needed=3)


def test_replacements_in_a_pool_that_left_the_policy_are_forgotten() -> None:
    story = replaced_on_a_doomed_node()
    policy = a_policy(a_model("b", 1, entitlement=3, pools=("h",)), pools=(a_pool("h", gpus=24),))
    memory = call_pools_as_now(story.memory, replace(story.snapshot, models=()), policy)
    assert memory.models["b"] == replace(story.memory.models["b"], replaced=())
    assert call_pools_as_now(story.memory, story.snapshot, story.policy) == story.memory
