"""Two installations in one cluster see each other's overrides: each answers those that concern its own policy."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.people import Override
from tests.builders import NOW, a_model, a_policy, a_pool, an_override
from tests.planning.test_scenarios_overrides import a_story, state_of

ELSEWHERE = [
    an_override("pin", "theirs", 3),
    an_override("pin", "b", 3, namespace="theirs"),
    an_override("drain", "their-node"),
    an_override("exclude", "their-node"),
    an_override("drain", "their-pool", subject_kind="pool"),
]


@pytest.mark.parametrize("one", ELSEWHERE, ids=lambda one: f"{one.kind} {one.namespace}/{one.subject}")
def test_what_it_answers_gets_no_answer_of_ours(one: Override) -> None:
    story = a_story(replace(one, phase="InForce", message="b has 3 replicas"))
    story.turn()
    assert story.plan().overrides == ()


@pytest.mark.parametrize("one", ELSEWHERE, ids=lambda one: f"{one.kind} {one.namespace}/{one.subject}")
def test_what_nobody_answers_is_answered_once(one: Override) -> None:
    story = a_story(one)
    (state,) = story.plan().overrides
    story.turn()
    story.override(replace(one, phase=state.phase, message=state.message))
    assert story.plan().overrides == ()


def test_what_was_ours_is_answered_when_its_model_leaves_the_policy() -> None:
    one = an_override("pin", "b", 3)
    story = a_story(one)
    story.turn()
    story.policy = a_policy(a_model("a"), pools=(a_pool(gpus=8),))
    story.override(replace(one, phase="InForce", message="b has 3 replicas"))
    assert state_of(story.plan(), "pin-b").message == "no model 'b' in the policy"


def test_that_one_has_expired_is_the_same_for_all() -> None:
    one = an_override("exclude", "their-node", phase="InForce", message="since then", expires_at=NOW - 1.0)
    assert state_of(a_story(one).plan(), "exclude-their-node").phase == "Expired"
