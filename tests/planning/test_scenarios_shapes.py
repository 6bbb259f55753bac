"""Slices, shares and GPU memory: what counts as a GPU of a pool, who may be lent it, and what fits on it."""

from msgspec.structs import replace

from rebalancer.domain.gpu_memory import LoadedMemory
from rebalancer.domain.plan import Plan
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.snapshot import Snapshot
from tests.builders import a_model, a_node, a_pod, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.story import Story, moves, node_pool_changes, unmet_of

BUSY = {"concurrency": 64.0}  # 16 replicas
SMALL, LARGE = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
NEED = {"weights_gib": 60.0, "kv_cache_gib": 8.0, "activations_gib": 2.0}
SHARES = "offers 16 shares of 4 GPUs: a share is no GPU; to count shares, say `isolation: soft` in the pool"


def planned(story: Story) -> Plan:
    """The second plan: borrowing waits one planning period."""
    story.turn()
    return story.plan()


def with_nodes(snapshot: Snapshot, pool: str, *nodes: NodeView) -> Snapshot:
    pools = (replace(view, nodes=nodes) if view.name == pool else view for view in snapshot.pools)
    return replace(snapshot, pools=tuple(pools))


class TestMixedSlices:
    """Node m1 has two slices 1g.10gb, of pool `small`, and one 3g.40gb, of pool `large`."""

    def a_story(self, **readings: dict[str, float]) -> Story:
        pools = (a_pool("small", 2, resource=SMALL), a_pool("large", 1, resource=LARGE))
        models = (a_model("a", 0, pools=("small",)), a_model("b", 0, pools=("large",)))
        policy = a_policy(*models, pools=pools)
        snapshot = a_snapshot(policy, {"a": 1}, readings)
        snapshot = with_nodes(snapshot, "small", a_node("m1", 2, labels={"pool": "small"}))
        snapshot = with_nodes(snapshot, "large", a_node("m1", 1, labels={"pool": "large"}))
        story = Story(policy, snapshot)
        story.target("a", pods=(a_pod("a-0", "m1"),))
        return story

    def test_what_one_shape_holds_is_not_taken_from_another(self) -> None:
        story = self.a_story(a=BUSY, b=BUSY)
        assert moves(planned(story)) == {"a": (1, 2), "b": (0, 1)}

    def test_the_sums_of_each_shape_are_its_own(self) -> None:
        plan = planned(self.a_story(a={"concurrency": 4.0}, b={"concurrency": 0.0}))
        said = {pool.pool: (pool.budget, pool.owned + pool.lent, pool.free) for pool in plan.pools}
        assert said == {"small": (2, 1, 1), "large": (1, 0, 1)}

    def test_a_slice_that_is_held_leaves_those_of_other_shapes_free(self) -> None:
        story = self.a_story(a=BUSY, b={"concurrency": 4.0})
        story.target("b", replicas=1, pods=(a_pod("b-0", "m1"),))
        plan = planned(story)
        assert {pool.pool: pool.free for pool in plan.pools} == {"small": 1, "large": 0}
        assert moves(plan) == {"a": (1, 2)}

    def test_a_slice_of_another_shape_is_no_room(self) -> None:
        plan = planned(self.a_story(a={"concurrency": 4.0}, b={"concurrency": 12.0}))
        assert moves(plan) == {"b": (0, 1)}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert "none is free" in unmet.why

    def test_what_re_slicing_would_help_is_told_and_nothing_more(self) -> None:
        story = self.a_story(a={"concurrency": 0.0}, b={"concurrency": 12.0})
        story.snapshot = with_nodes(story.snapshot, "small", a_node("m1", 4, labels={"pool": "small"}))
        plan = planned(story)
        assert moves(plan) == {"b": (0, 1)}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert (
            "on node m1 3 1g.10gb are free, 3 slices together: re-slicing it could make a 3g.40gb of them, if they are"
            " on one GPU"
        ) in unmet.why


class TestShares:
    """Pool `soft` offers shares; `fast` is realtime, `slow` is not."""

    def a_story(self, fast: str = "realtime", *, isolation: str = "soft", own: int = 0) -> Story:
        soft = a_pool("soft", 8, isolation=isolation, kind="primary" if own else "elastic")
        models = (
            a_model("fast", own, entitlement=own, pools=("soft",), **{"class": fast}),
            a_model("slow", 0, pools=("soft",)),
        )
        policy = a_policy(*models, pools=(soft,))
        return Story(
            policy, a_snapshot(policy, {"fast": own}, {"fast": BUSY, "slow": {"concurrency": 4.0}}, nodes={"soft": 1})
        )

    def test_a_realtime_model_is_lent_none(self) -> None:
        plan = planned(self.a_story())
        assert moves(plan) == {"slow": (0, 1)}
        unmet = unmet_of(plan, "fast")
        assert unmet is not None
        assert unmet.constraint == "cap"
        assert "a realtime model is lent no share of a GPU (pool soft says isolation: soft)" in unmet.why

    def test_others_are_and_so_is_it_of_whole_gpus(self) -> None:
        assert "fast" in moves(planned(self.a_story("interactive")))
        assert "fast" in moves(planned(self.a_story(isolation="hard")))

    def test_it_keeps_those_that_are_its_own(self) -> None:
        plan = planned(self.a_story(own=2))
        assert "fast" not in moves(plan)
        unmet = unmet_of(plan, "fast")
        assert unmet is not None
        assert "is lent no share of a GPU beyond the 2 it owns there" in unmet.why

    def test_where_they_count_for_nothing_nobody_who_runs_there_loses_anything(self) -> None:
        policy = a_policy(a_model("b", 1))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 0.0}}))
        story.snapshot = with_nodes(
            story.snapshot, "a100", a_node("a100-1", 0, refused=SHARES, labels={"pool": "a100"})
        )
        plan = story.plan()
        assert moves(plan) == {}
        assert plan.pools[0].uncounted == (f"node a100-1: {SHARES}",)
        assert plan.pools[0].budget is None


class TestMemory:
    """Model `b` needs (60 + 8 + 2) x 1.12 = 78.4 GiB on one GPU."""

    def a_story(self, *, gib: float | None, gpus: int = 1, **pool: object) -> Story:
        policy = a_policy(
            a_model("b", 0, pools=("spot",), gpus_per_replica=gpus, gpu_memory=NEED),
            pools=(a_pool(), an_elastic_pool("spot", 16, **pool)),
        )
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 4.0}}, nodes={"spot": 1 if gib else 0}))
        if gib:
            node = a_node("spot-1", memory_gib=gib, labels={"pool": "spot"}, node_pool="spot")
            story.snapshot = with_nodes(story.snapshot, "spot", node)
        return story

    def test_what_cannot_fit_is_refused_with_the_sum(self) -> None:
        plan = planned(self.a_story(gib=39.6, node_pools=()))
        assert moves(plan) == {}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.why == (
            "0 of 1 node of pool spot may take its pods: 1 by GPU memory: 60 weights + 8 KV cache + 2 activations + 12%"
            " = 78 GiB > 40 GiB"
        )

    def test_what_fits_is_granted_on_one_gpu_or_on_several(self) -> None:
        assert moves(planned(self.a_story(gib=79.6))) == {"b": (0, 1)}
        assert moves(planned(self.a_story(gib=39.6, gpus=2))) == {"b": (0, 1)}

    def test_no_node_is_asked_for_whose_gpus_are_too_small(self) -> None:
        story = self.a_story(gib=None, memory_gib=40.0, gpus_per_node=8)
        plan = planned(story)
        assert (moves(plan), node_pool_changes(plan)) == ({}, {})
        refusal = next(row for row in plan.refusals if row.guard == "fit")
        assert refusal.why.startswith("nodes that come to pool spot have too little GPU memory: 60 weights")

    def as_measured(self, loaded: LoadedMemory, *, gib: float | None, **pool: object) -> Story:
        """As `a_story`, of a model whose policy says nothing of GPU memory."""
        policy = a_policy(a_model("b", 0, pools=("spot",)), pools=(a_pool(), an_elastic_pool("spot", 16, **pool)))
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 4.0}}, nodes={"spot": 1 if gib else 0}))
        if gib:
            node = a_node("spot-1", memory_gib=gib, labels={"pool": "spot"}, node_pool="spot")
            story.snapshot = with_nodes(story.snapshot, "spot", node)
        models = tuple(replace(view, loaded=loaded) for view in story.snapshot.models)
        story.snapshot = replace(story.snapshot, models=models)
        return story

    def test_without_a_policy_s_sum_what_was_measured_is_held_against_the_gpu(self) -> None:
        plan = planned(self.as_measured(LoadedMemory(30.0, 3), gib=24.0, node_pools=()))
        assert moves(plan) == {}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.why == (
            "0 of 1 node of pool spot may take its pods: 1 by GPU memory: 30 GiB in use once loaded, measured on"
            " 3 replicas > 24 GiB"
        )
        assert moves(planned(self.as_measured(LoadedMemory(30.0, 3), gib=40.0))) == {"b": (0, 1)}

    def test_what_an_engine_reserves_refuses_nothing(self) -> None:
        assert moves(planned(self.as_measured(LoadedMemory(72.0, 3, reserved=0.9), gib=24.0))) == {"b": (0, 1)}

    def test_no_node_is_asked_for_that_is_too_small_as_measured(self) -> None:
        plan = planned(self.as_measured(LoadedMemory(60.0, 1), gib=None, memory_gib=40.0, gpus_per_node=8))
        assert (moves(plan), node_pool_changes(plan)) == ({}, {})
        refusal = next(row for row in plan.refusals if row.guard == "fit")
        assert "too little GPU memory: 60 GiB in use once loaded, measured on 1 replica > 40 GiB" in refusal.why

    def test_a_pool_that_is_too_small_keeps_its_gpus_for_others(self) -> None:
        other = a_model("c", 0, pools=("a100",))
        policy = a_policy(a_model("b", 0, priority=1000, gpu_memory=NEED), other)
        story = Story(policy, a_snapshot(policy, {}, {"b": BUSY, "c": BUSY}))
        nodes = (replace(node, memory_gib=40.0) for node in story.snapshot.pools[0].nodes)
        story.snapshot = with_nodes(story.snapshot, "a100", *nodes)
        assert moves(planned(story)) == {"c": (0, 8)}
