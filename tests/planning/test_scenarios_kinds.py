"""Targets whose controller numbers replicas, and replicas of several pods: who goes is read, where they land varies."""

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from rebalancer.domain.codec import to_bytes
from rebalancer.domain.memory import Memory
from rebalancer.domain.placement import HOSTNAME, Placement
from rebalancer.domain.snapshot import Place, PodView
from rebalancer.planning.actions.moves import Moves, release
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.allocation.unit import Victim
from rebalancer.planning.facts.landing import most_apart
from rebalancer.planning.guards.release import Purpose, Tally
from rebalancer.planning.planner import weigh
from rebalancer.planning.shares.quotas import QuotaRoom
from tests.builders import a_model, a_node, a_pod, a_policy, a_pool, a_snapshot, an_override
from tests.planning.story import Story, change_of, moves, refusal_of, unmet_of

IDLE, BUSY = {"concurrency": 0.0}, {"concurrency": 1000.0}


def numbered(name: str, *nodes: str) -> tuple[PodView, ...]:
    """Ready replicas 0, 1, ... of `name`, one on each of `nodes`."""
    return tuple(a_pod(f"{name}-{n}", node, place=Place(n)) for n, node in enumerate(nodes))


class TestOrdinals:
    """A StatefulSet ends its highest number, wherever that stands."""

    def a_donor(self, *nodes: str, gpus: int = 2) -> Story:
        """Nodes of 8, 8 and 4 GPUs. `a` serves nobody and may give all; `big` needs `gpus` GPUs on one node."""
        models = (
            a_model("a", 0, entitlement=0, kind="StatefulSet"),
            a_model("big", 0, gpus_per_replica=gpus, entitlement=1, max_replicas=1),
            a_model("filler", 20 - len(nodes), entitlement=20 - len(nodes)),
        )
        policy = a_policy(*models, pools=(a_pool(gpus=20),))
        story = Story(policy, a_snapshot(policy, {"a": len(nodes)}, {"a": IDLE, "big": BUSY, "filler": IDLE}))
        story.target("a", pods=numbered("a", *nodes))
        rooms = {"a100-1": 8, "a100-2": 8, "a100-3": 4}
        for node in nodes:
            rooms[node] -= 1
        full = [node for node, room in rooms.items() for _ in range(room)]
        story.target("filler", pods=tuple(a_pod(f"f-{n}", node) for n, node in enumerate(full)), replicas=len(full))
        return story

    def test_the_highest_number_goes_and_all_above_it_go_too_where_one_node_s_gpus_are_needed(self) -> None:
        # big needs two GPUs of one node. a-0 and a-2 stand on a100-1, and a-3 on a100-2 goes before them: three go.
        story = self.a_donor("a100-1", "a100-3", "a100-1", "a100-2")
        plan = story.plan()
        assert moves(plan) == {"a": (4, 1)} or moves(plan) == {"a": (4, 0)}
        change = change_of(plan, "a")
        assert set(change.victim_names) == {f"a-{n}" for n in range(change.replicas_to, 4)}

    def test_the_node_on_which_the_last_ones_stand_is_taken_before_any_other(self) -> None:
        story = self.a_donor("a100-1", "a100-1", "a100-2", "a100-2")
        plan = story.plan()
        assert moves(plan) == {"a": (4, 2)}
        assert change_of(plan, "a").victim_names == ("a-3", "a-2")
        story.write(plan)
        story.settle()
        plan = story.plan()
        assert (moves(plan), change_of(plan, "big").nodes) == ({"big": (0, 1)}, ("a100-2",))

    def test_a_number_that_is_no_pod_yet_goes_in_its_turn_and_not_first(self) -> None:
        # a-1 was evicted and is made again; asked for 3 its controller ends a-3, which serves.
        story = self.a_donor("a100-1", "a100-1", "a100-2", "a100-2")
        pods = tuple(pod for pod in story.of("a").pods if pod.name != "a-1")
        story.target("a", pods=pods)
        plan = story.plan()
        assert (moves(plan), change_of(plan, "a").victim_names) == ({"a": (4, 2)}, ("a-3", "a-2"))

    def test_one_goes_only_when_all_above_it_go(self) -> None:
        # Its turn may come before that of one with a higher number, which was taken for somebody else.
        story = self.a_donor("a100-1", "a100-1", "a100-2")
        scene = weigh(story.snapshot, story.policy, Memory()).scene
        (target,) = scene.models["a"].targets
        moved = Moves(Tally.of(scene), QuotaRoom(scene), {"a100": 20})
        _, middle, last = (Victim(target, pod, Purpose.OVERRIDE) for pod in target.staying_pods)
        release(scene, moved, middle, None)
        assert moved.going == {}
        release(scene, moved, last, None)
        release(scene, moved, middle, None)
        assert [pod.name for pod in moved.going["a", "a100"].pods] == ["a-2", "a-1"]


class TestDoomedOrdinals:
    """3 replicas on three nodes; one node goes."""

    def a_world(self, floor: int = 3) -> Story:
        policy = a_policy(a_model("a", floor, entitlement=3, kind="StatefulSet"), pools=(a_pool(gpus=32),))
        story = Story(policy, a_snapshot(policy, {"a": 3}, {"a": {"concurrency": 10.0}}, {"a": 2.5}))
        story.target("a", pods=numbered("a", "a100-1", "a100-2", "a100-3"))
        return story

    def test_a_doomed_one_in_the_middle_is_replaced_and_never_ended_by_a_decrease(self) -> None:
        story = self.a_world()
        story.notice("a100-2", 0.0, kind="drain")
        assert moves(story.turn()) == {"a": (3, 4)}
        plan = story.turn()
        assert moves(plan) == {}
        assert "ends its highest number first, and a-1 is not it" in refusal_of(plan, "marks", "a").why
        assert story.replicas("a") == 4

    def test_once_its_node_is_gone_the_number_comes_back_when_its_successor_serves(self) -> None:
        story = self.a_world()
        story.notice("a100-2")
        assert moves(story.turn()) == {"a": (3, 4)}
        story.lose("a100-2")
        story.kubernetes()  # a-1 is made again, and loads
        assert moves(story.plan()) == {}, "a-3 would go, and a-1 does not serve yet"
        story.settle()
        assert moves(story.plan()) == {"a": (4, 3)}

    def test_a_doomed_last_one_is_ended_like_any_other(self) -> None:
        story = self.a_world()
        story.notice("a100-3", 0.0, kind="drain")
        assert moves(story.turn()) == {"a": (3, 4)}
        plan = story.plan()
        assert moves(plan) == {}, "the replacement has the highest number now"

    def test_what_stands_below_a_doomed_one_is_no_donor(self) -> None:
        models = (
            a_model("a", 0, entitlement=0, kind="StatefulSet"),
            a_model("b", 0, entitlement=1, max_replicas=1),
        )
        policy = a_policy(*models, pools=(a_pool(gpus=10),))
        story = Story(policy, a_snapshot(policy, {"a": 10}, {"a": IDLE, "b": BUSY}))
        story.target("a", pods=numbered("a", *["a100-1"] * 8, "a100-2", "a100-2"))
        story.notice("a100-2")
        assert "a" not in moves(story.plan()), "a decrease would end a-9, which goes with its node"


class TestGroups:
    """A LeaderWorkerSet: one replica is 2 pods of 4 GPUs each, on whatever nodes."""

    def a_world(self, held: int, others: int, **readings: Mapping[str, float]) -> Story:
        """Two nodes of 8 GPUs; `small` holds one GPU per replica."""
        models = (
            a_model("lws", 0, gpus_per_replica=8, pods_per_replica=2, entitlement=1, kind="LeaderWorkerSet"),
            a_model("small", 0, entitlement=4),
        )
        policy = a_policy(*models, pools=(a_pool(gpus=16),))
        return Story(policy, a_snapshot(policy, {"lws": held, "small": others}, readings))

    def test_its_pods_are_placed_one_by_one_and_may_land_on_two_nodes(self) -> None:
        story = self.a_world(0, 8, lws={"concurrency": 4.0}, small={"concurrency": 32.0})
        pods = [a_pod(f"small-{n}", f"a100-{1 + n % 2}") for n in range(8)]
        story.target("small", pods=tuple(pods))
        plan = story.plan()
        assert moves(plan) == {"lws": (0, 1)}
        assert change_of(plan, "lws").nodes == ("a100-1", "a100-2")

    def test_three_gpus_on_each_of_two_nodes_are_no_room_for_pods_of_four(self) -> None:
        story = self.a_world(0, 10, lws={"concurrency": 4.0}, small={"concurrency": 40.0})
        policy = story.policy.models[1]
        assert policy.id == "small"
        story.target("small", pods=tuple(a_pod(f"small-{n}", f"a100-{1 + n % 2}") for n in range(10)))
        story.override(an_override("pin", "small", 10))
        plan = story.plan()
        assert moves(plan) == {}
        found = unmet_of(plan, "lws")
        assert found is not None
        assert found.why.startswith(
            "each of the 2 pods of a replica needs 4 GPUs on one node of pool a100: 3 on a100-1"
        )

    def test_donors_give_just_what_makes_room_for_all_its_pods(self) -> None:
        story = self.a_world(0, 16, lws={"concurrency": 4.0}, small=IDLE)
        plan = story.plan()
        assert moves(plan) == {"small": (16, 8)}
        story.write(plan)
        story.settle()
        plan = story.plan()
        assert moves(plan) == {"lws": (0, 1)}
        story.write(plan)
        story.settle()
        (group,) = story.of("lws").pods
        assert (group.phase, len(group.nodes)) == ("ready", 2)

    def test_where_its_pods_keep_apart_donors_make_room_on_as_many_nodes(self) -> None:
        story = self.a_world(0, 16, lws={"concurrency": 4.0}, small=IDLE)
        story.target("lws", placement=Placement(apart=(HOSTNAME,)))
        story.target("small", pods=tuple(a_pod(f"small-{n:02}", f"a100-{1 + n // 8}") for n in range(16)))
        victims = set(change_of(story.plan(), "small").victims)
        nodes = Counter(pod.node for pod in story.of("small").pods if pod.uid in victims)
        assert nodes == {"a100-1": 4, "a100-2": 4}

    def in_racks(self, *racks: str, held: tuple[PodView, ...] = (), work: Mapping[str, float] = BUSY) -> Story:
        """Nodes of 4 GPUs, one in each of `racks`; each group of `lws` wants a rack for itself. `small` is idle."""
        models = (
            a_model("lws", 0, gpus_per_replica=8, pods_per_replica=2, entitlement=2, kind="LeaderWorkerSet"),
            a_model("small", 0, entitlement=0),
        )
        policy = a_policy(*models, pools=(a_pool(gpus=64),))
        story = Story(policy, a_snapshot(policy, {"lws": len(held)}, {"lws": work, "small": IDLE}))
        labels = [{"pool": "a100", "rack": rack} if rack else {"pool": "a100"} for rack in racks]
        story.pool("a100", nodes=tuple(a_node(f"n{n}", 4, labels=each) for n, each in enumerate(labels)))
        story.target("lws", placement=Placement(alone="rack"), pods=held)
        return story

    def test_each_group_has_a_domain_of_its_topology_for_itself(self) -> None:
        # n0 has the least room by name, and nothing beside it; n4 and n5 are in rack b as well, n6 in none.
        story = self.in_racks("a", "b", "b", "c", "b", "b", "")
        plan = story.plan()
        assert moves(plan) == {"lws": (0, 1)}
        assert change_of(plan, "lws").nodes == ("n1", "n2")

    def test_where_all_domains_have_a_group_that_is_the_reason(self) -> None:
        story = self.in_racks("a", "a", "a", "a", held=(a_pod("lws-0", "n0", place=Place(0, ("n1",))),))
        plan = story.plan()
        found = unmet_of(plan, "lws")
        assert found is not None
        assert (moves(plan), found.why) == (
            {},
            "its template asks for one whole replica in each rack, by which 4 nodes of pool a100 are full",
        )

    def test_where_no_domain_has_room_for_a_group_the_reason_names_the_topology(self) -> None:
        found = unmet_of(self.in_racks("a", "b").plan(), "lws")
        assert found is not None
        assert found.why.startswith(
            "each of the 2 pods of a replica needs 4 GPUs on one node of pool a100, all in one rack: 4 on n0"
        )

    def test_a_group_that_waits_with_one_pod_placed_waits_for_room_in_that_pod_s_domain(self) -> None:
        waiting = a_pod("lws-0", None, phase="pending", place=Place(0, ("n2",)))
        assert self.home_of(self.in_racks("a", "b", "b", "a", held=(waiting,))) == ("n2", "n1")
        assert self.home_of(self.in_racks("a", "a", "b", held=(waiting,))) == ()

    def home_of(self, story: Story) -> tuple[str, ...]:
        """The nodes of the only group of `lws`, as the scheduler would place what waits of it."""
        scene = weigh(story.snapshot, story.policy, Memory()).scene
        (target,) = scene.models["lws"].targets
        return Seating.of(scene, Tally.of(scene)).home(target, target.view.pods[0])

    def test_its_share_is_no_more_than_there_are_domains(self) -> None:
        nodes = self.in_racks("a", "b", "b", "").view("a100").nodes
        assert most_apart(Placement(alone="rack"), nodes) == 2

    def test_donors_make_room_in_one_domain(self) -> None:
        story = self.in_racks("a", "b", "b", work={"concurrency": 4.0})
        small = tuple(a_pod(f"small-{n:02}", f"n{2 - n // 4}") for n in range(12))
        story.target("small", pods=small, replicas=12)
        victims = set(change_of(story.plan(), "small").victims)
        gone = Counter(pod.node for pod in story.of("small").pods if pod.uid in victims)
        assert gone == {"n1": 4, "n2": 4}

    def test_a_group_gives_the_gpus_of_all_its_nodes(self) -> None:
        story = self.a_world(2, 0, lws=IDLE, small={"concurrency": 16.0})
        story.target("lws", pods=tuple(a_pod(f"lws-{n}", "a100-1", place=Place(n, ("a100-2",))) for n in range(2)))
        plan = story.plan()
        assert change_of(plan, "lws").victim_names == ("lws-1",)
        story.write(plan)
        story.settle()
        assert moves(story.plan())["small"][1] == 4

    def test_a_group_with_one_pod_on_a_doomed_node_is_doomed(self) -> None:
        policy = a_policy(
            a_model("lws", 1, gpus_per_replica=8, pods_per_replica=2, entitlement=1, kind="LeaderWorkerSet"),
            pools=(a_pool(gpus=24),),
        )
        story = Story(policy, a_snapshot(policy, {"lws": 1}, {"lws": {"concurrency": 4.0}}))
        story.target("lws", pods=(a_pod("lws-0", "a100-1", place=Place(0, ("a100-2",))),))
        story.notice("a100-2")
        plan = story.plan()
        assert moves(plan) == {"lws": (1, 2)}
        assert set(change_of(plan, "lws").nodes) <= {"a100-1", "a100-3"}

    def test_another_size_in_the_template_than_in_the_policy_is_refused_with_both(self) -> None:
        story = self.a_world(1, 0, lws=IDLE, small=BUSY)
        shape = story.of("lws").shape
        story.target("lws", shape=replace(shape, pods=4, gpus=16))  # type: ignore[type-var]  # it has one
        refusal = refusal_of(story.plan(), "gpus", "lws")
        assert (refusal.guard, "2 pods per replica in the policy, 4 in the template of lws" in refusal.why) == (
            "gpus",
            True,
        )


def test_a_kind_of_which_nobody_said_who_goes_is_only_read() -> None:
    models = (a_model("a", 1, entitlement=4, kind="StormService"), a_model("b", 0, entitlement=1))
    policy = a_policy(*models, pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, {"a": 2, "b": 6}, {"a": BUSY, "b": IDLE}))
    plan = story.plan()
    assert moves(plan) == {}, "neither is it asked for more, nor does it get what b has"
    found = unmet_of(plan, "a")
    assert found is not None
    assert (found.constraint, found.why[:44]) == ("victims", "stormservice a in pool a100 is only read: th")


def test_numbers_that_its_pods_do_not_have_say_nothing() -> None:
    policy = a_policy(a_model("a", 1, entitlement=4, kind="StatefulSet"), pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, {"a": 2}, {"a": BUSY}))
    story.target("a", pods=(a_pod("x", place=Place(0)), a_pod("y", place=Place(0))))
    plan = story.plan()
    found = unmet_of(plan, "a")
    assert found is not None
    assert (moves(plan), found.why) == (
        {},
        "statefulset a in pool a100 is only read: its pods have no numbers of their own, and the highest would go",
    )


def test_a_deployment_s_bytes_know_nothing_of_other_kinds() -> None:
    policy = a_policy()
    view = a_snapshot(policy, {"a": 2}).models[0]
    assert b"shape" not in to_bytes(view)
    assert b'"place"' not in to_bytes(view)
