"""Surplus on a node that is drained: evicted once as many as are needed serve elsewhere, and at nobody's cost."""

from msgspec.structs import replace

from rebalancer.domain.plan import Plan
from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.planning import cluster
from tests.planning.story import Story, moves, unmet_of
from tests.planning.test_scenarios_evictions import numbered


def a_drain(**others: int) -> Story:
    """Model b needs 2 of its 4 replicas on a100-1, which a person drains, so 2 come on a100-2 in the first turn.

    `others`: further models, of which one of c has 4 GPUs, and how many replicas they keep busy on a100-2 with 8 GPUs.
    """
    owned = {"b": a_model("b", 2, entitlement=4), "c": a_model("c", 0, entitlement=1, gpus_per_replica=4)}
    models = [owned.get(name) or a_model(name) for name in ("b", *others)]
    policy = a_policy(*models, pools=(a_pool(gpus=16, drain=True),))
    work = {"b": 4.0, **{name: float(replicas) for name, replicas in others.items()}}
    busy = {name: {"concurrency": 4.0 * each} for name, each in work.items()}
    story = Story(policy, a_snapshot(policy, {"b": 4, **others}, busy, work))
    story.snapshot = replace(story.snapshot, drains_nodes=True)
    for name in others:
        story.target(name, pods=tuple(replace(pod, node="a100-2") for pod in story.of(name).pods))
    story.plan()
    story.load("b", {"concurrency": 3.0}, 2.0)  # a vote for 1, and one more of its own by chance
    story.turns(20)
    numbered(story)
    story.notice("a100-1", 0.0, kind="drain")
    return story


def evicted(plan: Plan) -> list[int]:
    """Of each pod that the plan evicts the floor that must stay Ready: 0 for one that is replaced."""
    return sorted(change.floor for change in plan.drains if change.kind == "evict")


class TestElsewhere:
    def test_it_stays_while_those_that_are_needed_load_elsewhere(self) -> None:
        story = a_drain()
        story.write(story.plan())
        story.kubernetes()
        assert evicted(story.plan()) == []
        story.settle()
        assert evicted(story.plan()) == [0, 0, 2, 2]

    def test_surplus_of_before_the_drain_goes_though_it_landed_there_under_an_older_notice(self) -> None:
        story = a_drain()
        (notice,) = story.snapshot.notices
        oldest = min(pod.created_at for pod in story.of("b").pods)
        older = replace(notice, since=oldest - 1.0, counts_since=notice.since)
        story.snapshot = replace(story.snapshot, notices=(older,))
        story.turn()
        assert evicted(story.plan()) == [0, 0, 2, 2]

    def test_surplus_that_lands_on_the_drained_node_again_is_not_evicted_again(self) -> None:
        # The cordon is denied by a webhook, so the scheduler puts what is made anew where the most GPUs are free.
        story = a_drain()
        story.turn()
        plan = story.plan()
        assert evicted(plan) == [0, 0, 2, 2]
        story.write(plan)
        (notice,) = story.snapshot.notices
        nodes = tuple(replace(node, schedulable=True) for node in story.view("a100").nodes)
        story.pool("a100", nodes=nodes)
        story.snapshot = replace(cluster.vanish(story.snapshot), notices=())
        story.settle()
        assert [pod.node for pod in story.of("b").pods].count("a100-1") == 4
        story.snapshot = replace(story.snapshot, notices=(notice,))
        story.wait(10.0)
        assert evicted(story.plan()) == []

    def test_it_is_not_evicted_in_the_plan_that_grants_the_last_free_gpus_to_others(self) -> None:
        story = a_drain(d=4)
        story.load("d", {"concurrency": 26.0}, 6.0)
        story.turn()
        plan = story.plan()
        assert moves(plan) == {"d": (4, 6)}
        assert evicted(plan) == [0, 0]

    def test_as_many_are_evicted_as_the_budget_has_room_for_when_they_are_made_anew(self) -> None:
        story = a_drain(d=5)
        story.turn()
        assert evicted(story.plan()) == [0, 0, 2]

    def test_none_is_evicted_while_another_model_waits_for_gpus_of_which_some_are_free(self) -> None:
        # A replica of c needs 4 GPUs together: 2 are free, for 2 those of d end.
        story = a_drain(c=0, d=4)
        story.load("c", {"concurrency": 4.0}, 1.0)
        plan = story.plan()
        assert moves(plan) == {"b": (4, 6), "d": (4, 2)}
        story.write(plan)
        story.kubernetes()
        story.snapshot = cluster.become_ready(story.snapshot)
        story.wait(10.0)
        plan = story.plan()
        unmet = unmet_of(plan, "c")
        assert unmet is not None
        assert unmet.why.startswith("it waits for GPUs on a100-2 that are not free yet")
        assert evicted(plan) == [0, 0]
