"""Targets that are no Deployments: numbered replicas, groups of pods, pods found by labels, lists that are awaited."""

from msgspec import UNSET
from msgspec.structs import replace

from rebalancer.domain.cluster import Pod, Workload
from rebalancer.domain.events import ObjectsListed, SourceState
from rebalancer.domain.policy import Model
from rebalancer.domain.readings import NoReading, Reading
from rebalancer.domain.snapshot import Place, Shape, TargetView
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state import ClusterState
from tests.builders import NAMESPACE, NOW, a_model, a_policy, a_target_spec
from tests.lines import lines
from tests.state.objects import GPU, a_cluster_node, a_ready_pod, a_sample, a_state, a_workload, changed, feed, gone

STATEFUL_SETS, GROUPS = "apps/v1/statefulsets", "leaderworkerset.x-k8s.io/v1/leaderworkersets"


def a_set(kind: str, resource: str, replicas: int = 2, **overrides: object) -> Workload:
    return a_workload("b", replicas, ref=WorkloadRef(NAMESPACE, kind, "b"), resource=resource, **overrides)


def a_member(kind: str, ordinal: int, member: int = 0, **overrides: object) -> Pod:
    ref = WorkloadRef(NAMESPACE, kind, "b")
    return replace(a_ready_pod(f"b-{ordinal}-{member}"), workload=ref, ordinal=ordinal, member=member, **overrides)


def state_of(model: Model, source: str, workload: Workload, *pods: Pod) -> ClusterState:
    state = a_state(a_policy(model), a_cluster_node("n1"), a_cluster_node("n2"), *pods)
    feed(state, ObjectsListed(source, NOW, (workload,)))
    return state


def target_of(state: ClusterState) -> TargetView:
    return state.peek(NOW).models[0].targets[0]


class TestStatefulSets:
    model = a_model("b", kind="StatefulSet")

    def test_its_pods_are_numbered_from_its_first_on(self) -> None:
        pods = [a_member("StatefulSet", 5 + n) for n in range(2)]
        target = target_of(
            state_of(self.model, "statefulsets", a_set("StatefulSet", STATEFUL_SETS, first_ordinal=5), *pods)
        )
        assert [pod.place for pod in target.pods] == [Place(0), Place(1)]
        assert target.shape == Shape(STATEFUL_SETS, "ordinal", 1, 1)

    def test_nothing_is_decided_before_its_kind_is_listed(self) -> None:
        state = a_state(a_policy(self.model))
        assert state.sync(NOW).missing == ("statefulsets",)
        feed(state, ObjectsListed("statefulsets", NOW, ()))
        assert state.sync(NOW).missing == ()

    def test_a_cluster_without_the_kind_says_that_the_target_is_missing_and_holds_nothing_up(self) -> None:
        state = a_state(a_policy(a_model("b", kind="LeaderWorkerSet")))
        feed(state, SourceState("leaderworkersets", NOW, None, absent=True))
        assert (state.sync(NOW).missing, target_of(state).missing) == ((), True)

    def test_a_kind_that_leaves_the_policy_is_awaited_no_more_and_its_targets_are_forgotten(self) -> None:
        state = state_of(self.model, "statefulsets", a_set("StatefulSet", STATEFUL_SETS))
        state.set_policy(a_policy(a_model("b")), NOW)
        assert (state.sync(NOW).missing, target_of(state).missing) == ((), True)
        state.set_policy(a_policy(self.model), NOW)
        assert (state.sync(NOW).missing, target_of(state).missing) == (("statefulsets",), True)


class TestGroups:
    """LeaderWorkerSet b: 2 pods of one GPU per replica."""

    model = a_model("b", kind="LeaderWorkerSet", gpus_per_replica=2, pods_per_replica=2)
    workload = a_set("LeaderWorkerSet", GROUPS, pods=2)

    def state(self, *pods: Pod) -> ClusterState:
        return state_of(self.model, "leaderworkersets", self.workload, *pods)

    def test_its_pods_are_one_replica_on_the_nodes_where_they_stand(self) -> None:
        target = target_of(self.state(a_member("LeaderWorkerSet", 0, 0), a_member("LeaderWorkerSet", 0, 1, node="n2")))
        (replica,) = target.pods
        assert (replica.uid, replica.phase, replica.nodes) == ("uid-b-0-0", "ready", ("n1", "n2"))
        assert target.shape == Shape(GROUPS, "ordinal", 2, 2)

    def test_it_is_ready_only_when_all_are(self) -> None:
        loading = a_member("LeaderWorkerSet", 0, 1, ready=False, ready_at=None)
        state = self.state(a_member("LeaderWorkerSet", 0, 0), loading)
        assert target_of(state).pods[0].phase == "loading"

    def test_one_on_a_node_that_is_not_there_is_a_lost_replica(self) -> None:
        state = self.state(a_member("LeaderWorkerSet", 0, 0), a_member("LeaderWorkerSet", 0, 1, node="n2"))
        feed(state, gone(a_cluster_node("n2")))
        assert target_of(state).pods[0].phase == "lost"

    def test_readings_of_its_leader_count_once_all_its_pods_serve(self) -> None:
        state = self.state(a_member("LeaderWorkerSet", 0, 0))
        feed(state, a_sample("b", "b-0-0", running=2.0))
        assert isinstance(state.peek(NOW).loads[0].signals["concurrency"], NoReading)
        feed(state, changed(a_member("LeaderWorkerSet", 0, 1)), a_sample("b", "b-0-0", running=2.0))
        assert isinstance(state.peek(NOW).loads[0].signals["concurrency"], Reading)
        feed(state, gone(a_member("LeaderWorkerSet", 0, 1)))
        assert isinstance(state.peek(NOW).loads[0].signals["concurrency"], NoReading)

    def test_requests_that_its_workers_tell_of_count_nowhere_and_are_told(self) -> None:
        worker = a_member("LeaderWorkerSet", 0, 1)
        state = self.state(a_member("LeaderWorkerSet", 0, 0), worker)
        feed(state, a_sample("b", "b-0-0", running=2.0), a_sample("b", "b-0-1", running=3.0, gauges={"waiting": 4.0}))
        load = state.peek(NOW).loads[0]
        assert isinstance(load.signals["concurrency"], Reading)
        assert (load.signals["concurrency"].value, load.unheard_requests) == (2.0, 7.0)
        assert state.counters()["worker-pod"] == 1
        feed(state, gone(worker))
        assert state.peek(NOW).loads[0].unheard_requests is UNSET

    def test_a_worker_that_is_told_by_its_uid_alone_is_known_as_one(self) -> None:
        state = self.state(a_member("LeaderWorkerSet", 0, 0), a_member("LeaderWorkerSet", 0, 1))
        feed(state, a_sample("", "b-0-1", running=3.0))
        assert state.peek(NOW).loads[0].unheard_requests == 3.0
        assert (state.counters()["worker-pod"], state.counters()["unknown-pod"]) == (1, 0)

    def test_what_a_worker_told_is_forgotten_three_intervals_after_it_told_last(self) -> None:
        state = self.state(a_member("LeaderWorkerSet", 0, 0), a_member("LeaderWorkerSet", 0, 1))
        feed(state, a_sample("b", "b-0-1", running=3.0))
        state.stepped(-100.0)
        assert state.peek(NOW - 100.0 + 14.0).loads[0].unheard_requests == 3.0
        assert state.peek(NOW - 100.0 + 15.0).loads[0].unheard_requests is UNSET

    def test_what_workers_tell_counts_in_what_is_told_of_the_model_as_a_whole(self) -> None:
        state = self.state(a_member("LeaderWorkerSet", 0, 0), a_member("LeaderWorkerSet", 0, 1))
        feed(state, a_sample("b", None, running=9.0), a_sample("b", "b-0-1", running=3.0))
        assert state.peek(NOW).loads[0].unheard_requests is UNSET
        silent = a_sample("b", None, gauges={"gpu_utilisation": 0.5}, at=NOW + 10.0)  # of requests
        feed(state, silent, a_sample("b", "b-0-1", running=3.0, at=NOW + 10.0), now=NOW + 10.0)
        assert state.peek(NOW + 14.0).loads[0].unheard_requests is UNSET
        assert state.peek(NOW + 15.0).loads[0].unheard_requests == 3.0

    def test_a_worker_of_a_target_that_the_policy_drops_is_heard_no_more(self) -> None:
        worker = a_member("LeaderWorkerSet", 0, 1)
        state = self.state(a_member("LeaderWorkerSet", 0, 0), worker)
        feed(state, a_sample("b", "b-0-1", running=3.0))
        elsewhere = a_model("b", targets=(a_target_spec(name="elsewhere"),))
        state.set_policy(a_policy(elsewhere), NOW)
        assert state.peek(NOW).loads[0].unheard_requests is UNSET

    def test_workers_that_serve_nobody_are_no_word_of_an_unheard_request(self) -> None:
        state = self.state(a_member("LeaderWorkerSet", 0, 0), a_member("LeaderWorkerSet", 0, 1))
        feed(state, a_sample("b", "b-0-1", running=0.0))
        assert state.peek(NOW).loads[0].unheard_requests is UNSET

    def test_they_are_known_when_the_policy_names_the_model_later(self) -> None:
        members = [a_member("LeaderWorkerSet", 0, member) for member in range(2)]
        state = a_state(a_policy(a_model("other")), a_cluster_node("n1"), *members)
        state.set_policy(a_policy(self.model), NOW)
        feed(state, ObjectsListed("leaderworkersets", NOW, (self.workload,)), a_sample("b", "b-0-1", running=3.0))
        assert state.peek(NOW).loads[0].unheard_requests == 3.0

    def test_one_that_waits_for_a_node_leaves_the_replica_without_one_and_the_others_hold_theirs(self) -> None:
        pending = a_member("LeaderWorkerSet", 0, 1, node=None, phase="Pending", ready=False, ready_at=None)
        (replica,) = target_of(self.state(a_member("LeaderWorkerSet", 0, 0), pending)).pods
        assert (replica.phase, replica.node, replica.nodes) == ("pending", None, ("n1",))

    def test_one_that_is_deleted_is_a_replica_that_ends_beside_the_one_that_is_made(self) -> None:
        leaving = a_member("LeaderWorkerSet", 0, 1, deleting_at=NOW + 30)
        target = target_of(self.state(a_member("LeaderWorkerSet", 0, 0), leaving))
        assert sorted(pod.phase for pod in target.pods) == ["pending", "terminating"]

    def test_four_times_as_many_groups_take_about_four_times_as_long_to_look_at(self) -> None:
        def looks(groups: int) -> tuple[int, int]:
            members = [a_member("LeaderWorkerSet", n, m, node="n1") for n in range(groups) for m in range(4)]
            state = self.state()
            more = ObjectsListed("leaderworkersets", NOW + 2, (replace(self.workload, pods=4, resource_version="2"),))
            listed = ObjectsListed("pods", NOW + 1, tuple(members))
            return lines(lambda: feed(state, listed)), lines(lambda: feed(state, more))

        for few, many in zip(looks(20), looks(80), strict=True):
            assert many < 6.0 * few, f"{few} lines for 20 groups, {many} for 80"

    def test_leader_and_workers_that_ask_for_other_numbers_are_told(self) -> None:
        workload = replace(self.workload, leader_gpus={GPU: 0})
        target = target_of(state_of(self.model, "leaderworkersets", workload))
        assert isinstance(target.shape, Shape)
        assert (target.shape.gpus, target.gpus_per_pod) == (1, 1)


class TestPodsByLabels:
    """An adapter b, whose scale finds its pods by labels; Deployments of its operator own them."""

    spec = a_target_spec(name="b", kind="DynamoGraphDeploymentScalingAdapter", victims="replicaSet")
    model = a_model("b", targets=(spec,))
    source = spec.of.source

    def workload(self, selector: str) -> Workload:
        return a_set(self.spec.kind, "nvidia.com/v1beta1/x", templated=False, selector=selector)

    def pod(self, name: str, **labels: str) -> Pod:
        return a_ready_pod(name, "made-by-the-operator", labels=tuple(sorted(labels.items())))

    def test_those_with_its_labels_are_its_own_and_others_are_not(self) -> None:
        pods = self.pod("p1", role="decode", app="x"), self.pod("p2", role="prefill", app="x")
        state = state_of(self.model, self.source, self.workload("app=x,role=decode"), *pods)
        assert [pod.name for pod in target_of(state).pods] == ["p1"]
        node = state.peek(NOW).pools[0].nodes[0]
        assert node.foreign_gpus == 1, "p2 is nobody's"

    def test_they_come_and_go_with_its_selector_and_with_it(self) -> None:
        state = state_of(self.model, self.source, self.workload("role=decode"), self.pod("p1", role="decode"))
        feed(state, changed(self.pod("p2", role="decode")))
        assert len(target_of(state).pods) == 2
        feed(state, gone(self.pod("p1", role="decode")))
        assert [pod.name for pod in target_of(state).pods] == ["p2"]
        other = replace(self.workload("role=other"), resource_version="2")
        feed(state, ObjectsListed(self.source, NOW, (other,)))
        assert target_of(state).pods == ()
        assert state.peek(NOW).pools[0].nodes[0].foreign_gpus == 1

    def test_without_a_template_the_pods_alone_are_held_against_the_policy(self) -> None:
        state = state_of(self.model, self.source, self.workload("role=decode"), self.pod("p1", role="decode"))
        assert target_of(state).shape == Shape("nvidia.com/v1beta1/x", "replicaSet", 1, None)
