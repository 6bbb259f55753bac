"""Caps on elastic pools: what a model (`elasticReplicas`) and a team (`teams[].elasticGpus`) may hold there."""

import pytest

from rebalancer.domain.policy import Model, Team
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.outlooks import an_outlook
from tests.planning.story import Story, decision_of, moves, unmet_of

STEEP = {count: 50.0 * (16 - count) for count in range(17)}  # every replica saves 50 late requests


def a_story(
    held: dict[str, int] | dict[str, dict[str, int]], *models: Model, nodes: int = 1, most: int = 32, **policy: object
) -> Story:
    """A fixed a100 of 4 GPUs, and spot with `nodes` nodes of 8 that may grow to `most`; everybody gains from all."""
    pools = (a_pool(gpus=4), an_elastic_pool(gpus=most, gpus_per_node=8))
    found = a_policy(*models, pools=pools, **policy)
    readings = {model.id: {"concurrency": 64.0} for model in models}
    story = Story(found, a_snapshot(found, held, readings, nodes={"spot": nodes}))
    for model in models:
        outlook = an_outlook(STEEP, story.replicas(model.id), model, level=10.0, base=10.0, shifted=10.0)
        story.look_ahead(model.id, outlook)
    return story


def on_spot(name: str, **fields: object) -> Model:
    return a_model(name, 0, pools=("spot",), **fields)


def everywhere(name: str, **fields: object) -> Model:
    return a_model(name, 0, pools=("a100", "spot"), **fields)


class TestOfAModel:
    def test_it_stops_raises_at_the_cap(self) -> None:
        # 8 GPUs are free on spot, b gains from all of them and may have 3.
        assert moves(a_story({"b": 0}, on_spot("b", elastic_replicas=3)).plan()) == {"b": (0, 3)}

    def test_without_one_it_takes_what_there_is(self) -> None:
        assert moves(a_story({"b": 0}, on_spot("b", max_replicas=8)).plan()) == {"b": (0, 8)}

    def test_it_is_about_elastic_pools_alone(self) -> None:
        # 4 replicas on a100, 2 on spot.
        story = a_story({"b": {"a100": 0, "spot": 0}}, everywhere("b", elastic_replicas=2))
        story.turn()
        assert (story.replicas("b", "a100"), story.replicas("b", "spot")) == (4, 2)

    def test_what_one_may_not_have_another_gets(self) -> None:
        # 8 GPUs on spot, no more to come: a may have 2 of them, so that its share is no more than 2; the rest are b's.
        story = a_story({"a": 0, "b": 0}, on_spot("a", elastic_replicas=2, priority=200), on_spot("b"), most=8)
        assert moves(story.plan()) == {"a": (0, 2), "b": (0, 6)}

    def test_no_node_is_bought_beyond_it(self) -> None:
        # a100 is full, spot has no node yet: 3 of all that b gains from may come, by a node grant.
        story = a_story({"b": {"a100": 4, "spot": 0}}, everywhere("b", elastic_replicas=3), nodes=0)
        assert moves(story.plan()) == {"b": (0, 3)}

    def test_what_it_needs_beyond_it_is_unmet_and_says_so(self) -> None:
        story = a_story({"b": {"a100": 4, "spot": 2}}, everywhere("b", elastic_replicas=2))
        unmet = unmet_of(story.plan(), "b")
        assert unmet is not None
        assert unmet.constraint == "cap"
        assert "it has 2 replicas on elastic pools, where elasticReplicas allows it 2" in unmet.why

    def test_what_is_above_a_lowered_one_goes_through_the_guards(self) -> None:
        # 6 on spot, 4 are allowed. b needs all it has, so `step` lets max(1, 20 % of 6) = 1 go in 5 minutes.
        story = a_story({"b": 6}, on_spot("b", elastic_replicas=4))
        story.load("b", {"concurrency": 64.0}, work=10.0)
        assert moves(story.plan()) == {"b": (6, 5)}

    def test_and_no_further_than_to_the_cap(self) -> None:
        assert moves(a_story({"b": 6}, on_spot("b", elastic_replicas=4)).plan()) == {"b": (6, 4)}


class TestOfATeam:
    @pytest.mark.parametrize(("gpus", "together"), [(5, 5), (8, 8)])
    def test_its_models_share_it(self, gpus: int, together: int) -> None:
        models = [on_spot(name, team="chat") for name in ("a", "b")]
        plan = a_story({"a": 0, "b": 0}, *models, teams=(Team(name="chat", elastic_gpus=gpus),)).plan()
        assert sum(after for _, after in moves(plan).values()) == together

    def test_no_nodes_are_bought_beyond_what_its_models_share(self) -> None:
        # a100 is full and spot has no node yet: a asks for 5 replicas there, b for none.
        models = [everywhere(name, team="chat") for name in ("a", "b")]
        held = {name: {"a100": 2, "spot": 0} for name in ("a", "b")}
        story = a_story(held, *models, nodes=0, teams=(Team(name="chat", elastic_gpus=5),))
        assert sum(after for _, after in moves(story.plan()).values()) == 5

    def test_it_counts_gpus_and_whole_replicas(self) -> None:
        # 5 GPUs are two replicas of 2.
        model = on_spot("b", team="chat", gpus_per_replica=2)
        assert moves(a_story({"b": 0}, model, teams=(Team(name="chat", elastic_gpus=5),)).plan()) == {"b": (0, 2)}

    def test_others_are_not_held_by_it(self) -> None:
        models = on_spot("a", team="chat"), on_spot("b", team="search", max_replicas=6)
        story = a_story({"a": 0, "b": 0}, *models, teams=(Team(name="chat", elastic_gpus=1),))
        assert moves(story.plan()) == {"a": (0, 1), "b": (0, 6)}

    @pytest.mark.parametrize("first", ["chat", "images"])
    def test_what_is_above_a_lowered_one_goes_from_lower_priority_and_names_it(self, first: str) -> None:
        models = {name: on_spot(name, team="ml", priority=each) for name, each in (("chat", 200), ("images", 10))}
        in_order = sorted(models.values(), key=lambda model: model.id != first)
        story = a_story({"chat": 4, "images": 4}, *in_order, teams=(Team(name="ml", elastic_gpus=6),))
        plan = story.plan()
        assert moves(plan) == {"images": (4, 2)}
        assert plan.changes[0].reason.startswith(
            "gives up 2 replicas, since team ml holds 8 GPUs of elastic pools, where elasticGpus allows it 6; it has"
        )

    def test_unmet_names_the_team(self) -> None:
        story = a_story(
            {"b": {"a100": 4, "spot": 2}}, everywhere("b", team="chat"), teams=(Team(name="chat", elastic_gpus=2),)
        )
        plan = story.plan()
        assert decision_of(plan, "b").allocation == 6
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert "team chat holds 2 GPUs of elastic pools, where elasticGpus allows it 2" in unmet.why


class TestExposure:
    """What one model may have where it can be lost together: on spot, or on one instance type in one zone."""

    def test_spot_replicas_cap_spot_pools_and_no_others(self) -> None:
        assert moves(a_story({"b": 0}, on_spot("b", spot_replicas=3)).plan()) == {"b": (0, 3)}
        plan = a_story({"b": 0}, everywhere("b", spot_replicas=2)).plan()
        assert {change.target.pool: change.replicas_to for change in plan.changes} == {"a100": 4, "spot": 2}

    def test_place_replicas_spread_a_model_over_pools_of_other_zones(self) -> None:
        zones = {"zone-a": "a1", "zone-b": "b1", "zone-c": "c1"}
        pools = tuple(
            a_pool(name, gpus=8, node_labels={"pool": name, "topology.kubernetes.io/zone": zone})
            for zone, name in zones.items()
        )
        model = a_model("b", 0, pools=("a1", "b1", "c1"), place_replicas=3, max_replicas=8)
        policy = a_policy(model, pools=pools)
        story = Story(policy, a_snapshot(policy, {"b": 0}, {"b": {"concurrency": 64.0}}))
        story.look_ahead("b", an_outlook(STEEP, 0, model, level=10.0, base=10.0, shifted=10.0))
        plan = story.plan()
        held = {change.target.pool: change.replicas_to for change in plan.changes}
        assert sum(held.values()) == 8
        assert max(held.values()) <= 3

    def test_what_it_is_short_of_by_its_exposure_is_said(self) -> None:
        story = a_story({"b": {"a100": 4, "spot": 2}}, everywhere("b", spot_replicas=2))
        unmet = unmet_of(story.plan(), "b")
        assert unmet is not None
        assert unmet.constraint == "cap"
        assert unmet.why.startswith("it has 2 replicas on spot pools, where spotReplicas allows it 2")
