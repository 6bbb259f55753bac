"""Node grants whose replicas cannot be taken back: those of a floor are asked of the next NodePool, if there is one."""

from msgspec.structs import replace

from tests.builders import a_model, a_node_claim, a_policy, a_snapshot, a_write_stop, an_elastic_pool, an_override
from tests.planning.story import Story, moves, node_pool_changes, unmet_of


def a_story(*node_pools: str) -> Story:
    """Model b has a floor of 2 and no replica; a node for both was asked of the first NodePool."""
    pool = an_elastic_pool("spot", gpus=16, gpus_per_node=8, node_pools=node_pools)
    policy = a_policy(a_model("b", 2, pools=("spot",), entitlement=2), pools=(pool,))
    story = Story(policy, a_snapshot(policy, {"b": 0}, {"b": {"concurrency": 8.0}}, {"b": 2.0}, nodes={"spot": 0}))
    story.turn()
    assert asked(story) == ["s1"]
    return story


def asked(story: Story) -> list[str]:
    """The NodePools of which nodes are asked."""
    story.plan()
    return [grant.node_pool for grant in story.grants()]


def refuse(story: Story, name: str, created_at: float | None = None) -> None:
    """The cloud has nothing for that NodePool: a claim that was made by now, or at `created_at`, failed."""
    created_at = story.snapshot.at if created_at is None else created_at
    claim = a_node_claim(f"{name}-x", created_at=created_at, failed="InsufficientCapacity")
    views = story.view("spot").node_pools
    story.pool("spot", node_pools=tuple(replace(one, claims=(claim,)) if one.name == name else one for one in views))


class TestHandedOn:
    def test_when_its_claim_fails_the_next_node_pool_is_asked_at_once_and_no_replica_goes(self) -> None:
        story = a_story("s1", "s2")
        refuse(story, "s1")
        plan = story.turn()
        changes = node_pool_changes(plan)
        assert (changes["limit"].name, changes["limit"].limit_to) == ("s2", 8)
        assert (changes["restore-limit"].name, changes["restore-limit"].limit_to) == ("s1", 0)
        assert moves(plan) == {}
        assert story.replicas("b") == 2
        assert asked(story) == ["s2"]
        assert [(one.node_pool, one.rest_seconds) for one in story.memory.grant_failures] == [("s1", 60.0)]

    def test_a_claim_that_failed_is_seen_though_the_api_servers_clock_is_three_seconds_behind(self) -> None:
        story = a_story("s1", "s2")
        (grant,) = story.grants()
        refuse(story, "s1", created_at=grant.asked_at - 3.0)
        story.turn()
        assert asked(story) == ["s2"]

    def test_a_claim_that_failed_before_its_node_was_asked_for_is_another_ones(self) -> None:
        story = a_story("s1", "s2")
        (grant,) = story.grants()
        refuse(story, "s1", created_at=grant.asked_at - 10.0)
        story.turn()
        assert asked(story) == ["s1"]

    def test_when_no_node_comes_in_time_neither_waits_for_ever(self) -> None:
        story = a_story("s1", "s2")
        story.turns(95)
        assert asked(story) == ["s2"]
        story.turns(95)
        assert asked(story) == ["s1"]

    def test_while_a_person_drains_the_pool_nobody_else_is_asked(self) -> None:
        story = a_story("s1", "s2")
        refuse(story, "s1")
        story.override(an_override("drain", "spot", subject_kind="pool"))
        assert node_pool_changes(story.turn()) == {}
        assert asked(story) == ["s1"]
        story.override()
        story.turn()
        assert asked(story) == ["s2"]

    def test_under_a_write_stop_it_waits_for_the_limit_that_may_not_be_raised(self) -> None:
        story = a_story("s1", "s2")
        refuse(story, "s1")
        story.snapshot = replace(story.snapshot, write_stop=a_write_stop())
        story.turn()
        assert asked(story) == ["s1"]
        story.snapshot = replace(story.snapshot, write_stop=None)
        story.turn()
        assert asked(story) == ["s2"]

    def test_the_only_node_pool_is_asked_on_and_people_are_told_when_its_time_is_over(self) -> None:
        story = a_story("s1")
        assert unmet_of(story.turns(80)[-1], "b") is None
        unmet = unmet_of(story.turns(20)[-1], "b")
        assert unmet is not None
        assert unmet.why.startswith(
            "2 replicas of it have no node to start on: a replica needs 1 GPU on one node of pool spot: none is free"
        )
        assert asked(story) == ["s1"]
