"""Guards about what is not known or not wanted: blind, start, empty, stop.

The mutants of `tests/mutants` break each guard in turn; the tests marked by its name here must then fail.
"""

import pytest
from msgspec.structs import replace

from rebalancer.domain.sync import Sync
from rebalancer.domain.words import CLOCK_IS_OFF
from tests.builders import (
    NOW,
    a_model,
    a_policy,
    a_pool,
    a_snapshot,
    a_write_stop,
    an_elastic_pool,
    an_override,
)
from tests.planning.story import (
    Story,
    change_of,
    decision_of,
    moves,
    node_pool_changes,
    refusal_of,
    refused,
    unmet_of,
)
from tests.planning.test_scenarios_guards import a_donor_and_a_needy, limit

CLOCK_OFF = Sync(stale=("clock",), synced_at=NOW - 600.0)


class TestBlind:
    def test_a_model_that_nobody_sees_gives_nothing(self) -> None:
        story = a_donor_and_a_needy()
        story.load("a")
        plan = story.plan()
        assert moves(plan) == {}
        refusal = refusal_of(plan, "blind", "a")
        assert refusal.numbers == {"usable": 0, "configured": 1}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "blind"

    def test_not_even_when_the_budget_shrinks(self) -> None:
        story = a_donor_and_a_needy()
        story.load("a")
        limit(story, 4)
        plan = story.plan()
        assert moves(plan) == {}
        assert ("blind", "a") in refused(plan)

    def test_a_drain_passes_it(self) -> None:
        story = a_donor_and_a_needy(held=4, gpus=5)
        story.load("a")
        story.notice("a100-1", karpenter=True)
        assert moves(story.plan()) == {"a": (4, 1)}


class TestStart:
    def test_no_decrease_before_two_metric_intervals_were_seen_live(self) -> None:
        story = a_donor_and_a_needy()
        story.load("a", {"concurrency": 28.0}, intervals_live=1)
        plan = story.plan()
        assert moves(plan) == {}
        refusal = refusal_of(plan, "start", "a")
        assert refusal.numbers == {"seen": 1, "wanted": 2}
        story.load("a", {"concurrency": 28.0}, intervals_live=2)
        assert moves(story.plan()) == {"a": (7, 1)}

    def test_no_decrease_while_a_source_is_silent(self) -> None:
        story = a_donor_and_a_needy()
        story.snapshot = replace(story.snapshot, sync=Sync(stale=("pods",), synced_at=NOW - 600.0))
        plan = story.plan()
        assert moves(plan) == {}
        assert refusal_of(plan, "start", "a").why == "nothing, or nothing new, is known of pods"

    def test_no_decrease_while_the_clock_is_off(self) -> None:
        story = a_donor_and_a_needy()
        story.snapshot = replace(story.snapshot, sync=CLOCK_OFF)
        plan = story.plan()
        assert moves(plan) == {}
        assert refusal_of(plan, "start", "a").why == CLOCK_IS_OFF

    @pytest.mark.parametrize("seconds", [0.0, 100.0])
    def test_nor_does_anybody_go_for_a_deadline_though_replacements_are_asked(self, seconds: float) -> None:
        # The notice is of 120 s, the grace 30 s, and nodes are drained from 70 s on: by a clock that nobody may trust.
        policy = a_policy(a_model("b", 2, entitlement=4), pools=(a_pool(gpus=16, drain=True),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}))
        story.snapshot = replace(story.snapshot, sync=CLOCK_OFF, drains_nodes=True)
        story.notice("a100-1", 120.0)
        plan = story.plan()
        assert (change_of(plan, "b").kind, moves(plan)) == ("replace", {"b": (4, 8)})
        story.write(plan)
        story.settle()
        story.wait(seconds)
        assert story.plan().empty
        story.snapshot = replace(story.snapshot, sync=Sync(synced_at=NOW - 600.0))
        story.wait(100.0 - seconds)
        assert moves(story.plan()) == {"b": (8, 4)}

    def test_a_raise_may_go_meanwhile(self) -> None:
        policy = a_policy(a_model("b", entitlement=4), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"b": 1}, {"b": {"concurrency": 16.0}}))
        story.snapshot = replace(story.snapshot, sync=Sync(stale=("nodes",), synced_at=NOW - 600.0))
        assert moves(story.plan()) == {"b": (1, 4)}

    def test_no_write_at_all_before_everything_is_listed(self) -> None:
        policy = a_policy(a_model("b", entitlement=4), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"b": 1}, {"b": {"concurrency": 16.0}}))
        story.snapshot = replace(story.snapshot, sync=Sync(missing=("overrides", "writestops")))
        plan = story.plan()
        assert plan.empty
        assert refusal_of(plan, "start", "b").why == "nothing is known yet of overrides and writestops"
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "start"

    def test_a_drain_passes_it_as_does_a_person(self) -> None:
        story = a_donor_and_a_needy(held=4, gpus=5)
        story.load("a", {"concurrency": 16.0}, intervals_live=0)
        story.notice("a100-1", karpenter=True)
        assert moves(story.plan()) == {"a": (4, 1)}

    def test_a_reclaim_does_not(self) -> None:
        policy = a_policy(a_model("a"), a_model("b", entitlement=7), pools=(a_pool(gpus=8),))
        readings = {"a": {"concurrency": 28.0}, "b": {"concurrency": 28.0}}
        story = Story(policy, a_snapshot(policy, {"a": 7, "b": 1}, readings))
        story.load("a", {"concurrency": 28.0}, intervals_live=0)
        plan = story.plan()
        assert moves(plan) == {}
        assert ("start", "a") in refused(plan)


class TestEmpty:
    def test_nothing_goes_where_no_node_is_seen_while_pods_run(self) -> None:
        # A cap and a lower maxReplicas would take b down; with an empty list of nodes neither does.
        policy = a_policy(a_model("b", 1, entitlement=1, max_replicas=2), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}))
        story.override(an_override("cap", value=1))
        story.pool("a100", nodes=())
        plan = story.plan()
        assert moves(plan) == {}
        assert refusal_of(plan, "empty", "b").numbers == {"pool": "a100", "nodes": 0}

    def test_nor_where_the_pool_is_not_seen_at_all(self) -> None:
        policy = a_policy(a_model("b", 1, entitlement=1), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}))
        story.override(an_override("cap", value=1))
        story.snapshot = replace(story.snapshot, pools=())
        assert moves(story.plan()) == {}

    def test_a_world_without_models_is_no_reason_to_write(self) -> None:
        policy = a_policy(a_model("b", 2), pools=(a_pool(gpus=8),))
        story = Story(policy, replace(a_snapshot(policy), models=(), loads=(), pools=()))
        assert story.plan().empty


class TestStop:
    def a_story(self) -> Story:
        """Something of every kind would be written: a release, a raise, a limit, a hold."""
        models = (a_model("a", pools=("a100",)), a_model("b", pools=("a100",), entitlement=4))
        spot = a_model("c", 0, pools=("spot",), entitlement=0)
        pools = (a_pool(gpus=8, node_pools=("a100",), gpus_per_node=8), an_elastic_pool(gpus=8, gpus_per_node=8))
        policy = a_policy(*models, spot, pools=pools)
        readings = {"a": {"concurrency": 4.0}, "b": {"concurrency": 16.0}, "c": {"concurrency": 4.0}}
        story = Story(policy, a_snapshot(policy, {"a": 6, "b": 1}, readings, nodes={"a100": 1}))
        story.turns(1, 30.0)
        story.snapshot = replace(story.snapshot, write_stop=a_write_stop())
        return story

    def test_nothing_is_written_while_it_stands(self) -> None:
        story = self.a_story()
        plan = story.plan()
        assert plan.empty
        assert {subject for guard, subject in refused(plan) if guard == "stop"} >= {"a", "c", "nodepool/spot"}
        assert refusal_of(plan, "stop", "c").why == "alice stopped the writes: test"

    def test_what_it_holds_back_is_unmet_by_its_name_and_not_granted(self) -> None:
        story = self.a_story()
        plan = story.plan()
        unmet = unmet_of(plan, "c")
        assert unmet is not None
        assert unmet.constraint == "stop"
        assert decision_of(plan, "c").granted == 0

    def test_the_wheel_turns_on_when_it_is_lifted(self) -> None:
        story = self.a_story()
        story.turns(3)
        story.snapshot = replace(story.snapshot, write_stop=None)
        plan = story.plan()
        assert moves(plan)["c"] == (0, 1)
        assert "limit" in node_pool_changes(plan)
