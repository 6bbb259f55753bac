"""Room that nobody needs does not go to and fro at constant load."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.domain.readings import Work
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.outlooks import an_outlook
from tests.planning.story import Story, moves
from tests.planning.test_scenarios_shares import a_pair, a_story, flat, steep


class TestSwings:
    """What replicas are worth swings with the instant at which the look-ahead replays the past."""

    def gave(self) -> Story:
        """Of a and b: b gave a replica away, has the 3 that a level of 1.0 needs, and would gain most from now on."""
        curves = {"a": steep(3, 5), "b": flat(3, 5)}
        story = a_story(a_pair(a_model("a"), a_model("b")), {"a": 4, "b": 4}, curves)
        assert moves(story.turn()) == {"b": (4, 3)}
        story.turn()
        self.turned(story)
        return story

    def turned(self, story: Story, **overrides: float) -> None:
        story.foresee("a", flat(3, 5))
        story.look_ahead("b", replace(an_outlook(steep(3, 5), 3), **overrides))

    def test_who_gave_room_away_takes_none_back_for_ten_minutes(self) -> None:
        story = self.gave()
        story.wait(560.0)
        assert moves(story.plan()) == {}
        story.wait(30.0)
        assert moves(story.plan()) == {"a": (5, 3)}

    @pytest.mark.parametrize("overrides", [{"shift": 0.5, "shifted": 1.0}, {"level": 1.5, "base": 1.5}])
    def test_but_what_a_surge_or_its_demand_calls_for_at_once(self, overrides: dict[str, float]) -> None:
        story = self.gave()
        self.turned(story, **overrides)
        assert "a" in moves(story.plan())

    @pytest.mark.parametrize(("surge", "after"), [(3.0, {"a": (5, 3)}), (1.0, {})])
    def test_what_was_lent_to_a_surge_comes_back_when_it_is_over(
        self, surge: float, after: dict[str, tuple[int, int]]
    ) -> None:
        story = a_story(a_pair(a_model("a"), a_model("b")), {"a": 4, "b": 4}, {"a": steep(3, 5), "b": flat(3, 5)})
        work = Work(short=surge, last_60s=1.0, long=1.0, slow=1.0)
        story.load("a", {"concurrency": 4.0 * surge}, work, outlook=story.outlook("a"))
        assert moves(story.turn()) == {"b": (4, 3)}
        story.turn()
        story.load("a", {"concurrency": 4.0}, 1.0, outlook=story.outlook("a"))
        story.turns(8)  # a's surge is over after 60 s
        self.turned(story)
        story.wait(30.0)
        assert moves(story.plan()) == after

    def contested(self, b_level: float = 2.0) -> Story:
        """Both need 5 for their bursts, and there are 8: b gave one to a, and would gain most from it by now."""
        story = a_story(a_pair(a_model("a"), a_model("b")), {"a": 4, "b": 4}, {})
        story.foresee("a", steep(3, 5), level=2.0)
        story.foresee("b", flat(3, 5), level=2.0)
        assert moves(story.turn()) == {"b": (4, 3)}
        story.turn()
        self.turned_back(story, b_level)
        return story

    def turned_back(self, story: Story, b_level: float = 2.0) -> None:
        story.foresee("a", flat(3, 5), level=2.0)
        story.foresee("b", steep(3, 5), level=b_level)

    def test_who_gave_and_has_room_for_its_work_takes_nothing_that_anothers_demand_covers(self) -> None:
        story = self.contested()
        story.wait(30.0)
        plan = story.plan()
        assert moves(plan) == {}
        (b,) = [each for each in plan.models if each.model == "b"]
        (step,) = [each for each in b.steps if each.stage == "patience"]
        assert step.said.startswith("takes none that another model needs until ")
        story.wait(570.0)
        assert moves(story.plan()) == {"a": (5, 3)}

    def freed(self) -> Story:
        """Of 8 GPUs a gave 2 for one of b's replicas, of 2 GPUs; b would gain nothing from them by now, a a little."""
        policy = a_pair(a_model("a"), a_model("b", gpus_per_replica=2))
        story = a_story(policy, {"a": 4, "b": 2}, {"a": flat(1, 4), "b": steep(1, 3)})
        assert moves(story.turn()) == {"a": (4, 2)}
        story.foresee("a", steep(1, 4, 2.0))
        story.foresee("b", flat(2, 3))
        return story

    def test_who_gave_takes_nothing_of_it_back_for_two_minutes_though_it_lies_idle(self) -> None:
        story = self.freed()
        assert [moves(plan) for plan in story.turns(11)] == [{}] * 11
        assert moves(story.turn()) == {"a": (2, 4)}

    def test_so_that_it_is_there_when_it_is_worth_most_to_whom_it_was_given_again(self) -> None:
        story = self.freed()
        story.turns(4)
        story.foresee("b", steep(1, 3))
        assert moves(story.plan()) == {"b": (2, 3)}

    def test_but_it_takes_what_its_present_work_needs(self) -> None:
        story = self.contested(b_level=2.8)  # and half a root for bursts: 3.6 of 3
        story.wait(30.0)
        assert "a" in moves(story.plan())

    def test_whoever_gave_got_and_gave_again_without_a_surge_is_content_for_twice_as_long(self) -> None:
        story = self.contested()
        story.wait(600.0)
        assert moves(story.turn()) == {"a": (5, 3)}
        story.turn()  # b has 5, a 3: each gave once, and b has got since
        story.foresee("a", steep(3, 5), level=2.0)
        story.foresee("b", flat(3, 5), level=2.0)
        story.wait(600.0)
        assert moves(story.turn()) == {"b": (5, 3)}
        story.turn()
        self.turned_back(story)
        story.wait(1150.0)
        assert moves(story.plan()) == {}
        story.wait(50.0)
        assert moves(story.plan()) == {"a": (5, 3)}

    def loses_a_node(self, held: int) -> Story:
        """Each of a and b had as many replicas on two nodes; the one with b's is gone."""
        story = a_story(a_pair(a_model("a"), a_model("b"), a_pool(gpus=16)), {"a": held, "b": held}, {})
        story.memory = Memory(models={"b": ModelMemory(gave_at=NOW - 700.0, last_move_at=NOW - 700.0)})
        story.foresee("a", flat(3, 9), level=1.0)
        story.foresee("b", flat(3, 9), level=1.0)
        node = story.of("b").pods[0].node or ""
        story.notice(node, 120.0)
        story.turns(13)
        story.lose(node)
        return story

    @pytest.mark.parametrize("held", [4, 8], ids=["replaced", "no room for replacements"])
    def test_what_goes_with_its_node_was_given_to_nobody(self, held: int) -> None:
        story = self.loses_a_node(held)
        self.turned(story)
        assert moves(story.plan())["a"] == (story.replicas("a"), 3)

    def test_what_replaces_it_is_none_that_its_model_got_again(self) -> None:
        story = self.loses_a_node(4)
        story.foresee("a", steep(3, 9), level=1.0)
        assert moves(story.turn()) == {"b": (4, 3)}
        story.turn()
        story.wait(580.0)
        self.turned(story)
        assert "a" in moves(story.plan())

    def test_what_costs_money_goes_when_it_has_been_surplus_for_two_minutes(self) -> None:
        policy = a_policy(a_model("b", pools=("spot",)), pools=(an_elastic_pool(gpus=8),), cost_weight=0.02)
        snapshot = a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 4.0}}, {"b": 0.1}, nodes={"spot": 1})
        story = Story(policy, snapshot)
        for each in (1.9, 2.1, 1.9):  # less than its GPU costs at one instant, more at the next
            story.foresee("b", steep(1, 4, each))
            assert moves(story.plan()) == {}
            story.wait(110.0)
        assert moves(story.plan()) == {}
        story.wait(10.0)
        assert moves(story.plan()) == {"b": (4, 1)}
