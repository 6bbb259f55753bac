"""Many nodes go at once: floors of the highest priorities first, nothing counted twice, nobody calms down in it."""

from msgspec.structs import replace

from rebalancer.domain.policy import Policy
from rebalancer.planning.guards.release import PASSES, Purpose
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.story import Story, change_of, moves, refusal_of, refused
from tests.planning.test_scenarios_doomed import a_story

TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"


def a_fleet(nodes: int = 8, spare: int = 0) -> Story:
    """Models high, mid and low keep their replicas of 4 GPUs busy, two to a node; each has a floor of 2.

    `spare`: nodes beside these, with nobody on them.
    """
    models = [
        a_model(name, 2, gpus_per_replica=4, priority=priority, entitlement=4, max_replicas=8)
        for name, priority in (("high", 900), ("low", 10), ("mid", 100))
    ]
    policy: Policy = a_policy(*models, pools=(a_pool(gpus=8 * (nodes + spare)),))
    held = {"high": 6, "low": 5, "mid": 5}
    loads = {name: {"concurrency": 4.0 * count} for name, count in held.items()}
    snapshot = a_snapshot(policy, held, loads, {name: float(count) for name, count in held.items()})
    story = Story(policy, snapshot)
    story.plan()
    return story


def test_half_of_all_nodes_are_met_by_one_plan_every_floor_is_served_and_nothing_is_counted_twice() -> None:
    story = a_fleet()
    names = sorted(node.name for node in story.view("a100").nodes)
    lost = names[: len(names) // 2]
    for name in lost:
        story.notice(name, 120.0)
    first = story.turn()
    assert {account.node for account in first.accounts} == {*lost}
    assert [change.model for change in first.changes if change.kind == "release" and not change.recipients] == []
    for _ in range(11):
        story.turn()
    for name in lost:
        story.lose(name)
    story.snapshot = replace(story.snapshot, notices=())
    for _ in range(6):
        story.turn()
    ready = {
        name: sum(pod.phase == "ready" and pod.node not in lost for pod in story.of(name).pods)
        for name in ("high", "mid", "low")
    }
    assert sum(ready.values()) == 8, ready  # all GPUs that are left, and none of them twice
    assert all(count >= 2 for count in ready.values()), ready
    assert len(story.memory.accounts) == len(lost)
    replicas = [replica.uid for account in story.memory.accounts for replica in account.replicas]
    assert len(replicas) == len({*replicas}) == 8
    assert all(account.drained_at is not None for account in story.memory.accounts)


def serving(story: Story, lost: list[str]) -> dict[str, int]:
    """Ready replicas of each model on nodes that stay."""
    return {
        name: sum(pod.phase == "ready" and pod.node not in lost for pod in story.of(name).pods)
        for name in ("high", "mid", "low")
    }


def a_storm(story: Story, lost: list[str]) -> None:
    """These nodes are under notice for two minutes and then gone, and a minute passes."""
    for name in lost:
        story.notice(name, 120.0)
    story.turns(12)
    for name in lost:
        story.lose(name)
    story.snapshot = replace(story.snapshot, notices=())
    story.turns(6)


class TestFloorsThatCompete:
    """Fewer GPUs are left than all floors together need."""

    def test_free_gpus_go_to_the_floors_of_the_highest_priorities_first(self) -> None:
        story = a_fleet(spare=2)
        lost = sorted(pod.node for name in ("high", "mid", "low") for pod in story.of(name).pods if pod.node)
        a_storm(story, sorted({*lost}))
        assert serving(story, lost) == {"high": 2, "mid": 2, "low": 0}

    def test_who_is_above_its_floor_gives_to_a_floor_and_who_is_at_it_gives_nothing(self) -> None:
        story = a_fleet()
        of_low = {pod.node for pod in story.of("low").pods}
        lost = sorted({node.name for node in story.view("a100").nodes} - of_low)
        a_storm(story, lost)
        after = serving(story, lost)
        assert after["low"] == 2, after
        assert after["high"] >= 2, after
        assert sum(after.values()) == 2 * len(of_low), after


class TestLoss:
    """Who lost replicas with a node calms down later."""

    def test_it_binds_surplus_and_minimums_and_holds_up_nothing_that_somebody_waits_for(self) -> None:
        assert {purpose for purpose in Purpose if "loss" not in PASSES[purpose]} == {Purpose.SURPLUS, Purpose.MINIMUM}

    def test_a_model_that_lost_replicas_keeps_the_others_until_the_window_has_passed(self) -> None:
        policy = a_policy(a_model("b", pools=("spot",)), pools=(an_elastic_pool(gpus=24),))
        story = Story(
            policy, a_snapshot(policy, {"b": 12}, {"b": {"concurrency": 48.0}}, {"b": 12.0}, nodes={"spot": 3})
        )
        story.turn()
        story.notice("spot-1", 30.0)
        story.turn(1.0)
        story.lose("spot-1")
        story.snapshot = replace(story.snapshot, notices=())
        story.turn(10.0)
        drained = story.memory.accounts[0].drained_at
        assert drained is not None
        story.load("b", {"concurrency": 0.0}, 0.0)  # its clients gave up
        held = story.replicas("b")
        story.turns(20)
        assert story.replicas("b") == held
        refusal = refusal_of(story.plan(), "loss", "b")
        assert refusal.why == "it lost replicas with spot-1 (spot-interruption) and keeps what it has for 300 s"
        assert refusal.until == drained + 300.0
        story.wait(drained + 301.0 - story.snapshot.at)
        plan = story.plan()
        assert ("loss", "b") not in refused(plan)
        assert moves(plan)["b"][1] < held

    def test_nobody_is_held_for_a_maintenance_that_is_weeks_away(self) -> None:
        policy = a_policy(a_model("b", pools=("spot",)), pools=(an_elastic_pool(gpus=24),))
        snapshot = a_snapshot(policy, {"b": 12}, {"b": {"concurrency": 4.0}}, {"b": 1.0}, nodes={"spot": 3})
        story = Story(policy, snapshot)
        in_days = {"kind": "scheduled-change", "source": "aws.health", "doomed_at": NOW + 13.9 * 86400.0}
        story.notice("spot-1", 14.0 * 86400.0, **in_days)
        story.turns(60)
        assert story.replicas("b") < 12
        assert ("loss", "b") not in refused(story.plan())

    def test_karpenters_own_will_and_a_persons_drain_hold_nobody(self) -> None:
        for notice in ({"kind": "drain"}, {"kind": "disruption", "voluntary": True, "karpenter": True}):
            story = a_story()
            story.notice("a100-1", 0.0, **notice)
            story.turns(3)
            story.snapshot = replace(story.snapshot, notices=())
            story.load("b", {"concurrency": 0.0}, 0.0)
            story.turns(20)
            assert ("loss", "b") not in refused(story.plan()), notice


class TestPrepared:
    """The cloud recommends to rebalance a100-1, and its replicas are prepared for."""

    def test_they_are_replaced_and_stay(self) -> None:
        story = a_story()
        story.notice("a100-1", 0.0, kind="rebalance", confidence="possible", prepared=True)
        plan = story.plan()
        assert change_of(plan, "b").kind == "replace"
        story.write(plan)
        for _ in range(4):
            story.settle()
            story.wait(30.0)
            assert story.plan().empty
        assert story.replicas("b") == 8
        assert sum(pod.phase == "ready" for pod in story.of("b").pods) == 8

    def test_unprepared_it_replaces_nobody(self) -> None:
        story = a_story()
        story.notice("a100-1", 0.0, kind="rebalance", confidence="possible")
        assert story.plan().empty

    def test_replacements_avoid_its_type_and_zone_as_long_as_there_is_another(self) -> None:
        for other, expected in (("zone-b", {"a100-3"}), ("zone-a", {"a100-2", "a100-3"})):
            story = a_story(gpus=24)
            zones = {"a100-1": "zone-a", "a100-2": "zone-a", "a100-3": other}
            nodes = tuple(
                replace(node, labels={**node.labels, TYPE: "p4d", ZONE: zones[node.name]})
                for node in story.view("a100").nodes
            )
            story.pool("a100", nodes=nodes)
            story.notice("a100-1", 0.0, kind="rebalance", confidence="possible", prepared=True)
            assert {*change_of(story.plan(), "b").nodes} <= expected


def test_faults_that_are_not_believed_ask_for_no_node_and_leave_free_gpus_usable() -> None:
    policy = a_policy(a_model("b", 2, entitlement=4, pools=("spot",)), pools=(an_elastic_pool(gpus=64),))
    for doubted in ("", "6 of 10 nodes are called faulty"):
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}, nodes={"spot": 1}))
        story.plan()
        for node in story.view("spot").nodes:
            story.notice(node.name, 0.0, kind="fault", confidence="likely", doubted=doubted)
        plan = story.plan()
        grows = [change for change in plan.node_pools if change.kind == "limit"]
        assert bool(grows) is not bool(doubted)
        if doubted:  # as if nobody had told them: what is free there is granted
            story.load("b", {"concurrency": 32.0}, 8.0)
            plans = story.turns(12)
            assert story.replicas("b") > 4
            assert not [change for plan in plans for change in plan.node_pools if change.kind == "limit"]
