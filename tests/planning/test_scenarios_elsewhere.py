"""Surplus on a node that is drained: evicted once as many as are needed serve elsewhere, and made anew by nobody's loss."""

from msgspec.structs import replace

from tests.planning import cluster
from tests.planning.story import Story
from tests.planning.test_scenarios_evictions import a_story, numbered


def a_drain() -> Story:
    """Model b needs 2 of its 4 replicas on a100-1, which a person drains; 2 others have become Ready on a100-2."""
    story = a_story()
    story.load("b", {"concurrency": 8.0}, 2.0)
    story.turns(20)
    numbered(story)
    story.notice("a100-1", 0.0, kind="drain")
    story.turn()
    return story


def evicted(story: Story) -> list[str]:
    """Names of the pods that the next plan evicts."""
    return [change.pod for change in story.plan().drains if change.kind == "evict"]


class TestElsewhere:
    def test_surplus_that_lands_on_the_drained_node_again_is_not_evicted_again(self) -> None:
        # The cordon is denied by a webhook, so the scheduler puts what is made anew where the most GPUs are free.
        story = a_drain()
        plan = story.plan()
        assert len([change for change in plan.drains if change.kind == "evict"]) == 4
        story.write(plan)
        (notice,) = story.snapshot.notices
        nodes = tuple(replace(node, schedulable=True) for node in story.view("a100").nodes)
        story.pool("a100", nodes=nodes)
        story.snapshot = replace(cluster.vanish(story.snapshot), notices=())
        story.settle()
        assert [pod.node for pod in story.of("b").pods].count("a100-1") == 4
        story.snapshot = replace(story.snapshot, notices=(notice,))
        story.wait(10.0)
        assert evicted(story) == []
