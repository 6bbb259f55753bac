"""A NodePool's limit whose raise was not written is asked for again while replicas wait for its node."""

import pytest
from msgspec.structs import replace

from rebalancer.act.intents import intent_of
from rebalancer.domain.cluster import SavedNodePool
from rebalancer.domain.codec import to_bytes
from rebalancer.domain.outcome import FAILED, REFUSED, UNKNOWN, Outcome
from rebalancer.domain.plan import Plan
from tests.builders import a_node, an_override
from tests.planning.cluster import become_ready, launch
from tests.planning.story import Story, moves, node_pool_changes, unmet_of
from tests.planning.test_scenarios_handed_on import a_story as handed_on
from tests.planning.test_scenarios_handed_on import refuse
from tests.planning.test_scenarios_nodes import a_story


def write_all_but_the_limit(story: Story, plan: Plan, status: str = FAILED, why: str = "test") -> None:
    """The plan is written, and the raise of the limit ends so."""
    limit = node_pool_changes(plan)["limit"]
    outcome = Outcome(intent_of(limit, plan.cycle, story.snapshot.at), story.snapshot.at, status, why)
    story.write(replace(plan, node_pools=tuple(one for one in plan.node_pools if one is not limit)))
    story.snapshot = replace(story.snapshot, outcomes=(outcome, *story.snapshot.outcomes))
    story.kubernetes()


def limit_of(story: Story, name: str) -> int | None:
    return next(view.gpu_limit for view in story.view("spot").node_pools if view.name == name)


@pytest.mark.parametrize("status", [FAILED, REFUSED, UNKNOWN])
def test_a_limit_that_was_not_written_is_raised_by_the_next_plan_and_the_node_comes(status: str) -> None:
    story = a_story(3)
    write_all_but_the_limit(story, story.plan(), status)
    plan = story.plan()
    limit = node_pool_changes(plan)["limit"]
    assert (limit.limit_from, limit.limit_to, limit.grant) == (0, 8, "g3-b")
    assert moves(plan) == {}
    story.write(plan)
    story.karpenter()
    assert [pod.phase for pod in story.of("b").pods] == ["ready"] * 3
    assert all(later.empty for later in story.turns(5))


def test_it_is_asked_for_until_it_is_written_and_a_person_who_lowers_it_then_is_not_fought_with() -> None:
    story = a_story(3)
    write_all_but_the_limit(story, story.plan())
    write_all_but_the_limit(story, story.plan())
    story.turn()
    assert limit_of(story, "spot") == 8
    story.pool("spot", node_pools=tuple(replace(one, gpu_limit=0) for one in story.view("spot").node_pools))
    assert all(plan.empty for plan in story.turns(20))


def test_while_a_person_drains_the_pool_it_is_not_asked_for_again() -> None:
    story = a_story(3)
    write_all_but_the_limit(story, story.plan())
    story.override(an_override("drain", "spot", subject_kind="pool"))
    assert node_pool_changes(story.plan()) == {}


def test_a_limit_whose_lost_write_reached_the_node_pool_is_not_written_again() -> None:
    story = a_story(3)
    plan = story.plan()
    write_all_but_the_limit(story, plan, UNKNOWN)
    story.pool("spot", node_pools=tuple(replace(one, gpu_limit=8) for one in story.view("spot").node_pools))
    assert story.plan().empty


def test_the_limit_of_the_node_pool_to_which_a_grant_was_handed_on_is_asked_for_again() -> None:
    story = handed_on("s1", "s2")
    refuse(story, "s1")
    write_all_but_the_limit(story, story.plan())
    story.turn()
    assert limit_of(story, "s2") == 8


def test_a_grant_whose_limit_was_written_is_remembered_as_older_versions_spelled_it() -> None:
    story = a_story(3)
    story.turn()
    story.plan()
    assert len(story.grants()) == 1
    assert b"limit" not in to_bytes(story.memory.node_grants)


def test_a_saved_limit_is_read_as_kubernetes_spells_quantities() -> None:
    story = a_story(0, limit=4000)
    saved = SavedNodePool(limits={"nvidia.com/gpu": "1k"}, budgets=None)
    story.pool("spot", node_pools=(replace(story.view("spot").node_pools[0], saved=saved, gpu_limit=1008),))
    restored = node_pool_changes(story.plan())["restore-limit"]
    assert (restored.limit_from, restored.limit_to) == (1008, 1000)


def test_a_person_who_lowers_a_limit_that_had_room_for_a_grant_handed_on_is_not_fought_with() -> None:
    story = handed_on("s1", "s2")

    def limit(gpus: int) -> None:
        views = story.view("spot").node_pools
        story.pool("spot", node_pools=tuple(replace(one, gpu_limit=gpus) if one.name == "s2" else one for one in views))

    limit(8)
    refuse(story, "s1")
    story.turn()
    assert [grant.node_pool for grant in story.grants()] == ["s2"]
    limit(0)
    assert "limit" not in node_pool_changes(story.plan())


def why_short(story: Story) -> tuple[str, str]:
    """The constraint of model b, and why."""
    unmet = unmet_of(story.plan(), "b")
    assert unmet is not None
    return unmet.constraint, unmet.why


def test_a_model_whose_nodes_do_not_come_is_told_that_the_limit_cannot_be_raised_and_why() -> None:
    story = a_story(3)
    denied = "NodePools are changed in git only"
    write_all_but_the_limit(story, story.plan(), why=denied)
    limit = "its limit is 0 GPUs, 0 are in use, and node grants need 8"
    says = f"NodePool spot brings no node: {limit}; to raise it fails ({denied}); 3 replicas of it have no node"
    constraint, why = why_short(story)
    assert constraint == "nodes"
    assert why.startswith(says)
    write_all_but_the_limit(story, story.plan(), REFUSED, "webhook: it is tried again in 50 s")
    assert why_short(story)[1].startswith(says)
    story.write(story.plan())
    story.kubernetes()
    assert unmet_of(story.plan(), "b") is None  # its node is on its way


def test_and_that_somebody_has_lowered_it_again() -> None:
    story = a_story(3)
    story.write(story.plan())
    story.kubernetes()
    assert unmet_of(story.plan(), "b") is None
    story.pool("spot", node_pools=tuple(replace(one, gpu_limit=0) for one in story.view("spot").node_pools))
    story.wait(10.0)
    constraint, why = why_short(story)
    assert constraint == "nodes"
    assert "node grants need 8; it was raised, and somebody has lowered it again; 3 replicas of it" in why


def test_but_nobody_lowered_it_where_the_node_has_come_that_takes_no_pods_yet() -> None:
    story = a_story(3)
    story.write(story.plan())
    story.kubernetes()
    story.wait(20.0)
    story.add("spot", a_node("spot-1", 8, node_pool="spot", ready=False, created_at=story.snapshot.at))
    story.pool("spot", node_pools=tuple(replace(one, gpus_used=8) for one in story.view("spot").node_pools))
    story.wait(10.0)
    assert limit_of(story, "spot") == 8
    assert unmet_of(story.plan(), "b") is None


def test_that_a_limit_keeps_the_second_of_two_nodes_from_coming_is_told_though_the_first_has_come() -> None:
    story = a_story(16)
    story.write(story.plan())
    story.kubernetes()
    story.wait(20.0)
    story.pool("spot", node_pools=tuple(replace(one, gpu_limit=8) for one in story.view("spot").node_pools))
    story.snapshot = launch(story.snapshot, "spot", 8)
    story.pool("spot", nodes=(replace(story.view("spot").nodes[0], created_at=story.snapshot.at),))
    story.kubernetes()
    story.snapshot = become_ready(story.snapshot)
    story.wait(60.0)
    constraint, why = why_short(story)
    assert constraint == "nodes"
    assert "its limit is 8 GPUs, 8 are in use, and node grants need 16" in why


def test_a_model_whose_limit_was_refused_from_the_start_is_told_why() -> None:
    story = a_story(3)
    why = "installation: nodepool/spot was written by installation blue"
    write_all_but_the_limit(story, story.plan(), REFUSED, why)
    story.wait(10.0)
    assert f"to raise it fails ({why})" in why_short(story)[1]
