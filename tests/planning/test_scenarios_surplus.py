"""Where nodes go idle replicas that nobody needs are let go; on a fixed pool they stay."""

from msgspec.structs import replace

from rebalancer.domain.autoscalers import Originals
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_autoscaler, an_elastic_pool
from tests.planning.story import Story, moves
from tests.planning.test_scenarios_nodes import a_story


class TestSurplusThatCosts:
    def test_where_nodes_go_idle_replicas_are_let_go_after_the_cooldown_within_the_limits(self) -> None:
        # 10 held, demand 4. Work 4 is a present need of ceil(4 + 1.5 x 2) = 7: 3 are surplus and go at once; below that
        # the fleet loses max(1, 10 % of 10) in 5 min.
        story = a_story(10, held=10)
        story.load("b", {"concurrency": 16.0}, 4.0)
        assert all(plan.empty for plan in story.turns(3))
        assert moves(story.turn()) == {"b": (10, 6)}
        assert all(moves(plan) == {} for plan in story.turns(29))
        assert moves(story.turn()) == {"b": (6, 5)}

    def test_on_a_fixed_pool_they_stay(self) -> None:
        policy = a_policy(a_model("b", 0, entitlement=0), pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"b": 10}, {"b": {"concurrency": 0.0}}))
        assert all(plan.empty for plan in story.turns(40))

    def test_who_serves_stays_until_as_many_others_serve(self) -> None:
        # 4 serve on spot, 7 are asked for on a100, where nobody makes their pods: KEDA is away. Demand is 3.
        b = a_model("b", 1, pools=("a100", "spot"), entitlement=3)
        policy = a_policy(b, pools=(a_pool(gpus=8), an_elastic_pool("spot", 16, gpus_per_node=8)))
        snapshot = a_snapshot(policy, {"b": {"spot": 4}}, {"b": {"concurrency": 12.0}}, nodes={"spot": 1})
        story = Story(policy, snapshot)
        story.target("b", "a100", replicas=0, pods=(), autoscaler=an_autoscaler(7, 7, originals=Originals(1, 8)))
        plans = [story.plan()]
        for _ in range(12):
            story.wait(10.0)
            plans.append(story.plan())
        taken = [change for plan in plans for change in plan.changes if change.target.pool == "spot"]
        assert [(change.replicas_from, change.replicas_to) for change in taken if change.replicas_to < 3] == []

    def test_a_closed_node_keeps_no_replica_that_is_not_worth_its_gpu(self) -> None:
        policy = a_policy(a_model("b", 1, pools=("spot",)), pools=(an_elastic_pool("spot", 16),))
        story = Story(policy, a_snapshot(policy, {"b": 6}, {"b": {"concurrency": 1.0}}, {"b": 0.2}, nodes={"spot": 2}))
        (pool,) = story.snapshot.pools
        nodes = tuple(replace(node, schedulable=node.name == "spot-1") for node in pool.nodes)  # spot-2 is empty
        story.snapshot = replace(story.snapshot, pools=(replace(pool, nodes=nodes),))
        story.foresee("b", {n: 0.01 * (6 - n) for n in range(1, 7)}, level=0.2)
        story.turns(60)
        assert story.replicas("b") == 1

    def test_an_autoscaler_decides_about_its_own(self) -> None:
        story = a_story(10, held=10)
        story.target("b", autoscaler=an_autoscaler(1, 10))
        story.load("b", {"concurrency": 16.0}, 4.0)
        story.turns(34)  # the minimum follows demand, within the same limits
        owner = story.of("b").autoscaler
        assert owner is not None
        assert (owner.minimum, owner.maximum) == (5, 10)

    def test_who_votes_gives_none_that_serves_for_others_beside_those_that_load_on_another_pool(self) -> None:
        # It needs 6 of the 11 that it asks for: 5 serve on a100, 6 load on spot. c needs 8 on a100 and has 3.
        b = a_model("b", 2, pools=("a100", "spot"), entitlement=5)
        policy = a_policy(b, a_model("c", 1, entitlement=3), pools=(a_pool(), an_elastic_pool(gpus=8)))
        readings, work = {"b": {"concurrency": 22.0}, "c": {"concurrency": 30.0}}, {"b": 5.4, "c": 7.5}
        snapshot = a_snapshot(policy, {"b": {"a100": 5, "spot": 6}, "c": 3}, readings, work, nodes={"spot": 1})
        story = Story(policy, snapshot)
        loading = tuple(replace(pod, phase="loading") for pod in story.of("b", "spot").pods)
        story.target("b", "spot", pods=loading)
        for _ in range(9):
            story.write(story.plan())
            story.wait(10.0)
        assert story.replicas("b", "a100") == 5
        story.settle()  # now as many serve as it needs
        story.turns(3)
        assert story.replicas("b", "a100") < 5
        assert story.replicas("c") > 3
