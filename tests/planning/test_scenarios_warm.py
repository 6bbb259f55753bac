"""GPUs kept warm by placeholders: room at once for whoever is short, priced, and never somebody else's."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.cluster import DisruptionBudget, SavedNodePool
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.story import Story, change_of, moves, node_pool_changes


def a_story(wanted: int, warm: int, price: float = 2.0, **pool: object) -> Story:
    """Model b has 4 replicas on one of two nodes of 8 GPUs; `warm` of the 12 other GPUs are under placeholders."""
    b = a_model("b", 0, pools=("spot",), entitlement=0)
    fields = {"gpus_per_node": 8, "warm_gpus": 8, "price_per_gpu_hour": price} | pool
    policy = a_policy(b, pools=(an_elastic_pool("spot", 64, **fields),))
    story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 4.0 * wanted}}, nodes={"spot": 2}))
    first, second = story.view("spot").nodes
    story.pool("spot", nodes=(first, replace(second, warm_gpus=warm)))
    story.turn()
    return story


def test_warm_gpus_are_granted_at_once_and_no_node_is_waited_for() -> None:
    plan = a_story(16, warm=8).plan()
    change = change_of(plan, "b")
    assert (change.replicas_from, change.replicas_to) == (4, 16)
    assert change.grant is None
    assert change.nodes == ("spot-1", "spot-2")
    assert node_pool_changes(plan) == {}


def test_beyond_them_nodes_are_asked_for() -> None:
    plan = a_story(18, warm=8).plan()
    assert change_of(plan, "b").replicas_to == 18
    assert node_pool_changes(plan)["limit"].limit_to == 24


def test_nobody_gets_them_without_a_need() -> None:
    # They are kept for a surge: GPUs of a pool that grows are not lent for being idle.
    story = a_story(4, warm=8)
    assert all(moves(plan) == {} for plan in story.turns(20))


def test_they_are_told_with_their_price() -> None:
    pool = a_story(4, warm=6).plan().pools[0]
    assert (pool.free, pool.warm, pool.foreign) == (12, 6, 0)
    assert pool.nodes == ("6 of 8 GPUs are kept warm by placeholders: 12 USD an hour, 8760 USD a month",)


def test_so_is_that_nobody_knows_the_price() -> None:
    assert a_story(4, warm=6, price=0.0).plan().pools[0].nodes == (
        "6 of 8 GPUs are kept warm by placeholders: pricePerGpuHour of the pool says no price",
    )


def test_and_that_none_are_warm_yet() -> None:
    assert a_story(4, warm=0).plan().pools[0].nodes == ("0 of 8 GPUs are kept warm by placeholders",)


class TestOrder:
    """Of several NodePools of one pool, which is to bring the next node."""

    @pytest.fixture
    def story(self) -> Story:
        b = a_model("b", 0, pools=("spot",), entitlement=0)
        pool = an_elastic_pool("spot", 64, node_pools=("cheap", "dear"), gpus_per_node=8)
        policy = a_policy(b, pools=(pool,))
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 12.0}}))
        story.turn()
        return story

    @staticmethod
    def show(story: Story, name: str, **fields: object) -> None:
        """The NodePool `name` says this from now on."""
        views = story.view("spot").node_pools
        story.pool("spot", node_pools=tuple(replace(one, **fields) if one.name == name else one for one in views))

    def test_the_policy_s_order_counts(self, story: Story) -> None:
        assert change_of(story.plan(), "b").node_pool == "cheap"

    def test_after_karpenter_s_own_weight(self, story: Story) -> None:
        self.show(story, "dear", weight=10)
        assert change_of(story.plan(), "b").node_pool == "dear"

    def test_whom_the_cloud_has_just_refused_comes_last_and_not_for_long(self, story: Story) -> None:
        self.show(story, "cheap", refused_at=story.snapshot.at - 100.0, weight=10)
        plan = story.plan()
        assert change_of(plan, "b").node_pool == "dear"
        assert plan.pools[0].nodes == ("NodePool cheap was refused capacity 100 s ago, so it comes last",)
        self.show(story, "cheap", refused_at=story.snapshot.at - 200.0)
        assert change_of(story.plan(), "b").node_pool == "cheap"

    def test_one_that_was_refused_is_asked_all_the_same_where_it_is_the_only_one(self, story: Story) -> None:
        for name in ("cheap", "dear"):
            self.show(story, name, refused_at=story.snapshot.at - 10.0)
        assert change_of(story.plan(), "b").node_pool == "cheap"

    def test_one_of_a_fixed_number_of_nodes_is_left_alone_and_said_to_be(self, story: Story) -> None:
        self.show(story, "cheap", fixed=2)
        plan = story.plan()
        assert change_of(plan, "b").node_pool == "dear"
        assert [change.name for change in plan.node_pools] == ["dear"]
        assert "NodePool cheap has as many nodes as its spec.replicas of 2 says" in plan.pools[0].nodes[0]


def test_budgets_of_people_are_told_with_their_schedules_and_without_our_hold() -> None:
    nights = DisruptionBudget(nodes="0", schedule="0 6 * * mon-fri", duration="12h")
    drifted = DisruptionBudget(nodes="20%", reasons=("Drifted",))
    own, hold = (nights, drifted), DisruptionBudget(nodes="0", reasons=("Empty", "Underutilized"))
    saved = SavedNodePool(limits=None, budgets=own)
    said = (
        'NodePool spot: Karpenter may disrupt 0 of its nodes from "0 6 * * mon-fri" (UTC) for 12h'
        " and 20% of its nodes that are Drifted at once"
    )
    for shown in ({"budgets": own}, {"budgets": (*own, hold), "held": True, "saved": saved}):
        story = a_story(4, warm=0, warm_gpus=0)
        (view,) = story.view("spot").node_pools
        story.pool("spot", node_pools=(replace(view, **shown),))
        assert story.plan().pools[0].nodes == (said,)


def test_a_pool_with_nothing_but_a_fixed_number_of_nodes_is_one_of_fixed_gpus_and_is_never_held() -> None:
    # Its idle GPUs are lent, as those of a pool without NodePools are: they cost the same either way.
    def plans(node_pools: tuple[str, ...]) -> list[dict[str, tuple[int, int]]]:
        models = [a_model(name, 1, entitlement=4) for name in ("a", "b")]
        policy = a_policy(*models, pools=(a_pool("a100", 8, node_pools=node_pools, gpus_per_node=8),))
        story = Story(policy, a_snapshot(policy, {"a": 4, "b": 4}, {"a": {"concurrency": 4.0}}))
        story.load("b", {"concurrency": 28.0})
        views = story.view("a100").node_pools
        story.pool("a100", node_pools=tuple(replace(one, fixed=1) for one in views))
        found = story.turns(20)
        assert all(plan.node_pools == () for plan in found)
        return [moves(plan) for plan in found]

    assert plans(("static",)) == plans(())
    assert any(plans(("static",)))
