"""The oracle cries where a rule is broken, and only there: writes that nobody should make, made by hand."""

import pytest

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kube.resources import DEPLOYMENTS, SCALEDOBJECTS, Ref, Resource
from rebalancer.sim.product.clock import still
from tests.machine.judged import JudgedPort
from tests.machine.oracle import Oracle
from tests.machine.worlds import NAMESPACE, START, ModelSpec, PoolSpec, WorldSpec, built, policy_of


def a_model(name: str = "a", **overrides: object) -> ModelSpec:
    fields = {"pool": "x", "gpus": 1, "floor": 2, "entitlement": 4, "load_seconds": 20.0, "owner": "none", "level": 3.0}
    return ModelSpec(name, **(fields | overrides))  # type: ignore[arg-type]  # fields of a ModelSpec


class Bench:
    """Two models on two nodes of 4 GPUs, all replicas Ready; writes go through the judged door."""

    def __init__(self, *models: ModelSpec) -> None:
        spec = WorldSpec(1, (PoolSpec("x", (4, 4)),), models or (a_model("a"), a_model("b")), 0.0)
        self.world, self.dials = built(spec)
        self.oracle = Oracle(self.world, policy_of(spec), {model.name: model.level for model in spec.models})
        self.port = JudgedPort(self.world, self.oracle, lambda _ref: None)
        self.oracle.look()

    def ref(self, name: str) -> WorkloadRef:
        return WorkloadRef(NAMESPACE, "Deployment", name)

    def scale(self, name: str, replicas: int) -> None:
        thing = self.world.deployments[self.ref(name)]
        where = Ref(DEPLOYMENTS, NAMESPACE, name)
        with still() as runner:
            runner.run(self.port.put_scale(where, replicas, str(self.world.revision(thing))))
        self.world.advance(self.world.now)

    def bounds(self, name: str, low: int, high: int, resource: Resource = SCALEDOBJECTS) -> None:
        body = {"spec": {"minReplicaCount": low, "maxReplicaCount": high}}
        with still() as runner:
            runner.run(self.port.patch(Ref(resource, NAMESPACE, name), body))

    def live(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.advance(self.world.now + 5.0)
            self.oracle.look()
            self.oracle.measure({name: dial.rate(self.world.now) for name, dial in self.dials.items()})

    @property
    def rules(self) -> str:
        return "".join(verdict.rule for verdict in self.oracle.verdicts)


class TestFloor:
    def test_a_write_that_takes_serving_replicas_under_it_is_seen(self) -> None:
        bench = Bench(a_model("a", level=1.0), a_model("b"))
        bench.scale("a", 1)
        assert bench.rules == "a"

    def test_one_that_keeps_it_is_none(self) -> None:
        bench = Bench(a_model("a", level=1.0), a_model("b"))
        bench.scale("a", 2)
        assert bench.rules == ""

    def test_pods_of_a_missing_node_do_not_hold_it(self) -> None:
        bench = Bench(a_model("a", entitlement=3), a_model("b", level=1.0, floor=3))  # b: one on x1, three on x2
        bench.world.faults.remove(bench.world.nodes["x1"])
        bench.live(5.0)
        bench.scale("b", 3)
        assert bench.rules == "a"

    def test_pods_of_a_name_that_is_back_may_be_taken_for_serving(self) -> None:
        bench = Bench(a_model("a", entitlement=3, level=1.0), a_model("b", level=1.0, floor=1))
        bench.world.faults.remove(bench.world.nodes["x1"])
        bench.world.add_node("x1", 4, {"pool": "x"})
        bench.live(5.0)
        assert sum(pod.serves for pod in bench.world.pods.values()) == 3  # b's on x2
        bench.scale("a", 2)
        assert bench.rules == ""

    def test_a_machine_that_will_be_taken_is_so_under_another_node_object_too(self) -> None:
        bench = Bench(a_model("a", entitlement=3), a_model("b", level=1.0, floor=3))  # b: one on x1, three on x2
        node = bench.world.nodes["x1"]
        bench.oracle.deadlines["x1"] = bench.world.now + 60.0
        bench.world.faults.remove(node)
        bench.live(5.0)
        bench.world.faults.register_again(node)
        bench.live(5.0)
        bench.scale("b", 3)
        assert bench.rules == "a"

    @pytest.mark.parametrize(("seconds_left", "rules"), [(109.0, "ac"), (111.0, "")])
    def test_a_node_under_notice_counts_until_who_is_there_has_just_time_to_load_elsewhere(
        self, seconds_left: float, rules: str
    ) -> None:
        # b, one on x1 and three on x2, loads in 20 s; a grace of 30 s and a minute to act. a, on x1, takes 60 s.
        bench = Bench(a_model("a", entitlement=3, load_seconds=60.0), a_model("b", level=1.0, floor=1))
        bench.oracle.deadlines["x2"] = bench.world.now + seconds_left
        bench.oracle.look()
        (here,) = (pod for pod in bench.world.ready_pods("b") if pod.node is bench.world.nodes["x1"])
        bench.world.set_deletion_cost(*here.key, -1)
        bench.scale("b", 3)
        assert bench.rules == rules

    def test_what_happened_after_the_watches_came_is_nobodys_fault(self) -> None:
        bench = Bench(a_model("a", level=1.0), a_model("b"))
        for pod in bench.world.ready_pods("a")[:3]:
            bench.world.faults.crash(pod)
        bench.scale("a", 2)
        assert bench.rules == ""

    def test_a_pod_that_a_rollout_ends_after_the_watches_came_is_no_loss_of_ours(self) -> None:
        bench = Bench(a_model("a", level=3.0), a_model("b"))
        bench.world.delete_pod(*bench.world.ready_pods("a")[0].key)
        bench.scale("a", 3)
        bench.live(300.0)
        assert bench.rules == ""

    def test_unready_pods_may_go(self) -> None:
        bench = Bench()
        for pod in bench.world.ready_pods("a")[:2]:
            bench.world.faults.stick(pod)
        bench.live(5.0)
        bench.scale("a", 2)
        assert bench.rules == ""

    def test_only_replicas_that_serve_are_lost(self) -> None:
        bench = Bench(a_model("a", level=1.0), a_model("b"))
        bench.world.faults.stick(bench.world.ready_pods("a")[0])
        bench.live(5.0)
        bench.scale("a", 2)  # the stuck one, and one that serves
        assert bench.oracle.lost == {"a": 1}

    def test_a_minimum_that_lets_the_hpa_go_under_it_is_seen(self) -> None:
        bench = Bench(a_model("a", owner="keda"), a_model("b"))
        bench.bounds("a", 3, 4)
        bench.live(30.0)
        bench.bounds("a", 1, 4)
        assert bench.rules == "a"

    def test_bounds_that_reach_nobody_take_nothing(self) -> None:
        bench = Bench(a_model("a", owner="keda"), a_model("b"))
        bench.world.scale(bench.ref("a"), 0)
        bench.live(30.0)
        bench.bounds("a", 1, 1)
        assert bench.rules == ""


class TestPool:
    def test_a_raise_beyond_its_devices_is_seen(self) -> None:
        bench = Bench()
        bench.scale("a", 5)
        assert bench.rules == "b"

    def test_devices_that_a_plugin_does_not_report_are_there(self) -> None:
        bench = Bench(a_model("a", entitlement=3), a_model("b"))
        bench.world.faults.show_devices(bench.world.nodes["x1"], 0)
        bench.live(5.0)
        bench.scale("a", 4)
        assert bench.rules == ""

    def test_those_of_a_missing_node_are_not(self) -> None:
        bench = Bench(a_model("a", entitlement=1, floor=1), a_model("b", entitlement=1, floor=1))
        bench.world.faults.remove(bench.world.nodes["x2"])
        bench.live(5.0)
        bench.scale("a", 4)
        assert bench.rules == "b"

    def test_a_maximum_of_100_that_somebody_else_wrote_is_no_wish_of_ours(self) -> None:
        bench = Bench(a_model("a", owner="hpa", entitlement=1, floor=1), a_model("b"))
        hpa = next(iter(bench.world.hpas.values()))
        bench.world.set_bounds(hpa, 1, 100, {}, "argocd")
        bench.scale("b", 5)
        assert bench.rules == ""

    def test_bounds_that_somebody_took_back_are_no_wish_any_more(self) -> None:
        bench = Bench(a_model("a", owner="keda", entitlement=1, floor=1), a_model("b"))
        bench.bounds("a", 4, 4)
        scaled = next(iter(bench.world.scaled_objects.values()))
        bench.world.set_bounds(scaled, 1, 3, {}, "argocd")  # as many as it runs
        bench.scale("b", 5)
        assert bench.rules == ""

    def test_what_was_asked_for_a_model_that_left_the_policy_is_no_wish_any_more(self) -> None:
        bench = Bench(a_model("a", owner="keda", entitlement=1, floor=1), a_model("b"))
        bench.bounds("a", 4, 4)
        policy = bench.oracle.policy
        bench.oracle.policy = policy.model_copy(update={"models": policy.models[1:]})
        bench.scale("b", 5)
        assert bench.rules == ""

    @pytest.mark.parametrize(("least", "rules"), [(6, ""), (1, "b")])
    def test_bounds_that_fall_are_none_as_far_as_their_autoscaler_would_have_raised_by_itself(
        self, least: int, rules: str
    ) -> None:
        bench = Bench(a_model("a", owner="keda"), a_model("b"))
        (owner,) = bench.world.scaled_objects.values()
        bench.world.scale(bench.ref("a"), 4)
        bench.world.set_bounds(owner, least, 6, {})
        bench.oracle.look()
        bench.bounds("a", 5, 5)
        assert bench.rules == rules


def with_a_borrower() -> Bench:
    """`a` needs the four replicas that it serves with, and owns two."""
    bench = Bench(a_model("a", entitlement=2, level=5.0), a_model("b"))
    bench.world.scale(bench.ref("a"), 4)
    bench.live(30.0)
    return bench


class TestNeed:
    def test_a_needed_replica_that_nobody_uses_is_seen_when_it_is_due(self) -> None:
        bench = with_a_borrower()
        bench.scale("a", 3)
        bench.live(100.0)
        assert bench.rules == ""
        bench.live(100.0)
        assert bench.rules == "c"

    def test_one_with_whose_gpu_another_serves_is_paid(self) -> None:
        bench = with_a_borrower()
        bench.scale("a", 3)
        bench.live(15.0)
        bench.scale("b", 5)
        bench.live(200.0)
        assert bench.rules == ""
        assert bench.oracle.counts["paid"] == 1

    @pytest.mark.parametrize(("lost", "rules"), [(1, ""), (2, "c")])
    def test_of_two_gpus_a_replica_one_may_be_left_over_and_two_may_not(self, lost: int, rules: str) -> None:
        bench = Bench(a_model("a", gpus=2, entitlement=1, level=5.0, floor=1), a_model("b", entitlement=2))
        bench.world.scale(bench.ref("a"), 3)  # two of them borrowed
        bench.live(30.0)
        bench.scale("a", 3 - lost)
        bench.live(15.0)
        bench.scale("b", 3)
        bench.live(250.0)
        assert bench.rules == rules

    @pytest.mark.parametrize(("gpus", "rules"), [(2, ""), (1, "c")])
    def test_a_replica_pays_for_as_many_as_it_holds(self, gpus: int, rules: str) -> None:
        models = a_model("a", entitlement=2, floor=1, level=5.0), a_model("b", gpus=gpus, entitlement=1, floor=1)
        bench = Bench(*models)
        bench.world.scale(bench.ref("a"), 4)
        bench.live(30.0)
        for left in (3, 2):
            bench.scale("a", left)
            bench.live(15.0)
        bench.scale("b", 2)
        bench.live(250.0)
        assert bench.rules == rules

    @pytest.mark.parametrize(("most", "rules"), [(5, ""), (4, "c")])
    def test_who_pays_whom_is_chosen_so_that_all_are_paid(self, most: int, rules: str) -> None:
        # a loses one and then b one; c gets one and b has its own again. c pays b and b pays a, not the other way.
        bench = Bench(
            a_model("a", entitlement=1, floor=1, level=4.0),
            a_model("b", entitlement=1, floor=1, level=5.0),
            a_model("c", entitlement=1, floor=1, level=1.0),
        )
        bench.world.scale(bench.ref("a"), 3)
        bench.world.scale(bench.ref("b"), 4)
        bench.live(30.0)
        bench.scale("a", 2)
        bench.live(15.0)
        bench.scale("b", 3)
        bench.live(15.0)
        bench.scale("c", 2)
        bench.live(30.0)
        bench.scale("b", most - 1)
        bench.live(250.0)
        assert bench.rules == rules

    @pytest.mark.parametrize(("loaded_for", "rules"), [(0.0, ""), (60.0, "c")])
    def test_a_pod_that_never_serves_pays_as_long_as_nobody_can_know_that(self, loaded_for: float, rules: str) -> None:
        bench = Bench(a_model("a", entitlement=2, level=5.0), a_model("b", entitlement=3))
        bench.world.scale(bench.ref("a"), 5)  # one more than it needs
        bench.live(30.0)
        bench.world.faults.roll(bench.world.deployments[bench.ref("b")], broken=True)
        bench.live(5.0)  # its one new pod waits for a GPU
        if loaded_for:
            bench.scale("a", 4)
            bench.live(loaded_for)
        bench.scale("a", 3)
        bench.live(250.0)
        assert bench.rules == rules

    def test_replicas_that_an_earlier_write_takes_are_not_taken_again(self) -> None:
        bench = Bench(a_model("a", owner="keda", entitlement=2, floor=1, level=6.0), a_model("b"))
        bench.world.scale(bench.ref("a"), 4)
        bench.live(30.0)
        for most in (3, 2):  # its HPA looks once in 15 s
            bench.bounds("a", most, most)
            bench.oracle.look()
        assert bench.oracle.counts["needed replicas taken"] == 2

    def test_and_a_floor_is_held_against_both(self) -> None:
        bench = Bench(a_model("a", owner="keda", entitlement=2, floor=2, level=1.0), a_model("b"))
        bench.world.scale(bench.ref("a"), 3)
        bench.live(30.0)
        for most in (2, 1):
            bench.bounds("a", most, most)
            bench.oracle.look()
        assert bench.rules == "a"

    def test_one_that_was_disturbed_meanwhile_is_excused_and_counted(self) -> None:
        bench = with_a_borrower()
        bench.scale("a", 3)
        bench.oracle.touched(frozenset("x"))
        bench.live(200.0)
        assert bench.rules == ""
        assert bench.oracle.counts["excused"] == 1

    @pytest.mark.parametrize(("seconds", "rules"), [(30.0, ""), (45.0, "c")])
    def test_one_whose_other_replica_loads_for_ever_is_excused_as_long_as_nobody_can_know(
        self, seconds: float, rules: str
    ) -> None:
        bench = Bench(a_model("a", level=4.0, entitlement=2), a_model("b", entitlement=2))
        bench.world.scale(bench.ref("a"), 4)
        bench.live(5.0)
        bench.world.faults.stick(next(pod for pod in bench.world.pods.values() if not pod.ready))
        bench.live(seconds)
        bench.scale("a", 2)  # the stuck one, and one that serves
        bench.live(200.0)
        assert bench.rules == rules


class TestOwners:
    def test_an_owner_that_gives_what_it_needs_of_its_own_is_robbed(self) -> None:
        bench = Bench(a_model("a", level=5.0), a_model("b"))
        bench.scale("a", 3)
        assert bench.rules == "c"

    def test_what_it_gives_to_a_floor_is_no_robbery(self) -> None:
        bench = Bench(a_model("a", level=5.0), a_model("b"))
        for pod in bench.world.ready_pods("b")[:3]:
            bench.world.faults.stick(pod)
        bench.live(5.0)
        bench.scale("a", 3)
        assert bench.rules == ""

    def test_nor_is_it_where_another_of_its_replicas_loads(self) -> None:
        bench = Bench(a_model("a", entitlement=3, level=4.0), a_model("b"))
        bench.world.scale(bench.ref("a"), 4)
        bench.live(5.0)
        bench.world.set_deletion_cost(*bench.world.ready_pods("a")[0].key, -1)
        loading = next(pod for pod in bench.world.pods.values() if pod.owner.model == "a" and not pod.ready)
        loading.ready_at = bench.world.now  # Ready since the watches came: a ReplicaSet takes the marked one
        bench.scale("a", 3)
        assert bench.rules == ""

    def test_nor_where_devices_are_really_gone(self) -> None:
        bench = Bench(a_model("a", level=5.0), a_model("b"))
        bench.world.faults.lose_devices(bench.world.nodes["x1"], 1)
        bench.live(5.0)
        bench.scale("a", 3)
        assert bench.rules == ""


class TestRest:
    def test_gpus_beyond_what_people_allow_are_not_idle(self) -> None:
        bench = Bench(a_model("a", level=6.0), a_model("b"))
        bench.world.add_node("x3", 4, {"pool": "x"})
        bench.live(300.0)
        bench.oracle.judge_rest(120.0)
        assert bench.rules == ""

    @pytest.mark.parametrize(("level", "rules"), [(4.0, "d"), (12.0, "")])
    def test_a_model_short_beside_idle_gpus_is_seen_where_they_are_all_that_it_lacks(
        self, level: float, rules: str
    ) -> None:
        bench = Bench(a_model("a", entitlement=2, level=level), a_model("b"))
        bench.live(300.0)
        bench.oracle.judge_rest(120.0)
        assert bench.rules == rules

    @pytest.mark.parametrize(("lacking", "rules"), [((), "d"), (("x1",), "d"), (("x1", "x2"), "")])
    def test_an_owner_short_while_another_borrows_is_seen_as_far_as_there_are_devices(
        self, lacking: tuple[str, ...], rules: str
    ) -> None:
        bench = Bench(a_model("a", level=5.0), a_model("b", level=0.5))
        bench.world.scale(bench.ref("a"), 2)
        bench.world.advance(START + 30.0)
        bench.world.scale(bench.ref("b"), 6)
        for name in lacking:
            bench.world.faults.lose_devices(bench.world.nodes[name], 1)
        bench.live(300.0)
        bench.oracle.judge_rest(120.0)
        assert bench.rules == rules

    @pytest.mark.parametrize("level", [1.0, 4.0])
    def test_enough_for_everybody_is_rest(self, level: float) -> None:
        bench = Bench(a_model("a", level=level), a_model("b"))
        bench.live(300.0)
        bench.oracle.judge_rest(120.0)
        assert bench.rules == ""
