"""Several node grants of one model: what comes under notice does not wait for the node that comes for others."""

from tests.planning import cluster
from tests.planning.story import Story, change_of, moves
from tests.planning.test_scenarios_nodes import a_story


class TestStorm:
    def a_storm(self) -> Story:
        """The replicas of b fill two nodes of 8; one is under notice and its replacements wait for a node."""
        story = a_story(16, held=16, limit=48, floor=16, entitlement=16)
        first, _ = (node.name for node in story.view("spot").nodes)
        story.notice(first, 120.0)
        story.turns(2, 1.0)
        assert [(grant.replicas, grant.gpus) for grant in story.grants()] == [(8, 8)]
        return story

    def test_what_comes_under_notice_while_a_node_is_still_to_come_is_replaced_at_once(self) -> None:
        story = self.a_storm()
        story.notice(story.view("spot").nodes[1].name, 120.0)
        change = change_of(story.turn(1.0), "b")
        assert (change.kind, change.replicas_from, change.replicas_to) == ("replace", 24, 32)
        assert story.view("spot").node_pools[0].gpu_limit == 32
        for _ in range(3):
            assert "b" not in moves(story.turn(1.0)), "and asked for once"
        assert [grant.gpus for grant in story.grants()] == [8, 8]
        story.snapshot = cluster.launch(story.snapshot, "spot", 8)
        story.turns(3)
        assert story.grants() == ()
        assert story.replicas("b") == 32

    def test_and_whatever_else_it_lacks_waits_until_the_grant_has_ended(self) -> None:
        story = self.a_storm()
        story.load("b", {"concurrency": 4.0 * 24})
        assert all("b" not in moves(plan) for plan in story.turns(4))
        story.snapshot = cluster.launch(story.snapshot, "spot", 8)
        assert any("b" in moves(plan) for plan in story.turns(4))

    def test_the_node_that_comes_first_ends_the_first_of_two_grants_of_a_model(self) -> None:
        story = self.a_storm()
        story.notice(story.view("spot").nodes[1].name, 120.0)
        story.turns(2, 1.0)
        first, second = story.grants()
        there = {node.name for node in story.view("spot").nodes}
        story.snapshot = cluster.launch(story.snapshot, "spot", 8)
        came = [node for node in story.view("spot").nodes if node.name not in there]
        story.pool("spot", nodes=tuple(node for node in story.view("spot").nodes if node.name != came[-1].name))
        story.turns(2)
        assert first.id != second.id
        assert [(grant.id, grant.gpus) for grant in story.grants()] == [(second.id, 8)]
