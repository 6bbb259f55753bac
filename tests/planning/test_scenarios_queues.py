"""By votes priority takes what others need for a need that stands, and not for a queue that will be gone."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.domain.readings import Work
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, moves
from tests.planning.test_scenarios_allocation import in_flight


class TestPriority:
    @pytest.mark.parametrize(("work", "given"), [(0.2, {}), (1.7, {}), (4.0, {"a": (6, 4)})])
    def test_a_queue_that_grew_while_replicas_loaded_takes_nothing_that_others_need(
        self, work: float, given: dict[str, tuple[int, int]]
    ) -> None:
        # b votes for 8, since requests wait: one of its two replicas has just become Ready. Its work needs 1, 4 or 7
        # replicas with room for bursts, and keeps 1, 2 or 4 busy: room is nothing for which another one gives its own.
        policy = a_policy(a_model("a", 2), a_model("b", entitlement=2, priority=200), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 6, "b": 2}, in_flight(a=6, b=8), {"a": 6.0, "b": work}))
        first, last = story.of("b").pods
        story.target("b", pods=(first, replace(last, since=NOW)))
        story.turn()
        assert moves(story.plan()) == given

    @pytest.mark.parametrize(("work", "given"), [(1.0, {}), (1.9, {"a": (6, 4)})])
    def test_a_queue_that_what_it_has_soon_serves_takes_nothing_that_others_need(
        self, work: float, given: dict[str, tuple[int, int]]
    ) -> None:
        # b's two replicas have served for long, and 12 requests wait, of which a replica has 4 at a time. Work of 1
        # leaves a replica for them: they are served in the time of a few requests. Work of 2 leaves none.
        policy = a_policy(a_model("a", 2), a_model("b", entitlement=2, priority=200), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 6, "b": 2}, in_flight(a=6, b=5), {"a": 6.0, "b": work}))
        story.turn()
        assert moves(story.plan()) == given

    def test_of_a_model_that_has_just_begun_to_serve_its_first_seconds_tell_what_its_queue_takes(self) -> None:
        # b's work is known for 15 s and no longer: 0.6 replicas of it beside a queue from before it served.
        policy = a_policy(a_model("a", 2), a_model("b", entitlement=2, priority=200), pools=(a_pool(gpus=8),))
        young = Work(short=0.6, source="arrivals")
        story = Story(policy, a_snapshot(policy, {"a": 6, "b": 2}, in_flight(a=6, b=5), {"a": 6.0, "b": young}))
        story.target("b", pods=tuple(replace(pod, since=NOW) for pod in story.of("b").pods))
        story.turn()
        assert moves(story.plan()) == {}

    @pytest.mark.parametrize(("votes", "given"), [(2, {}), (8, {"a": (6, 4)})])
    def test_demand_that_only_its_cooldown_keeps_takes_nothing_that_others_need(
        self, votes: int, given: dict[str, tuple[int, int]]
    ) -> None:
        # b's demand of 8 is in force, and its two replicas have served for long. The queue behind it is there or gone.
        policy = a_policy(a_model("a", 2), a_model("b", entitlement=2, priority=200), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 6, "b": 2}, in_flight(a=6, b=votes), {"a": 6.0, "b": 1.0}))
        story.memory = Memory(models={"b": ModelMemory(demand=8)})
        assert moves(story.plan()) == given
