"""Which tainted nodes a target's next pod may have: by its template, by pods that stand, by what admission adds."""

from collections.abc import Iterable

from msgspec.structs import replace

from rebalancer.domain.cluster import Pod, Taint, Toleration, Workload
from rebalancer.domain.events import ObjectsListed
from rebalancer.domain.memory import Memory
from rebalancer.domain.policy import Model
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.planning import plan
from tests.builders import NAMESPACE, NOW, a_model, a_policy, a_target_spec
from tests.state.objects import GPU, a_cluster_node, a_ready_pod, a_sample, a_state, a_workload, feed

GPU_TAINT = Taint(GPU, "present", "NoSchedule")
TEAM_TAINT = Taint("team", "chat", "NoSchedule")
ADDED = Toleration(GPU, "Exists", "", "NoSchedule")
TEAM = Toleration("team", "Exists")
TEMPLATE = a_model("b", entitlement=8)
ADAPTER = a_model(
    "b",
    entitlement=8,
    targets=(a_target_spec(name="b", kind="DynamoGraphDeploymentScalingAdapter", victims="replicaSet"),),
)


def granted(model: Model, taints: tuple[Taint, ...], tolerations: Iterable[Toleration] | None, of: Workload) -> int:
    """Replicas that a loaded model gets on nodes with these taints; `tolerations`: of its one pod, None: it tells none.

    of: the object that counts its replicas.
    """
    spec = model.targets[0]
    workload = replace(of, ref=WorkloadRef(NAMESPACE, spec.kind, "b"))
    borne = None if tolerations is None else tuple(tolerations)
    pod = replace(a_ready_pod("b-1"), workload=workload.ref, tolerations=borne)
    state = a_state(a_policy(model), a_cluster_node("n1", taints=taints), pod)
    feed(state, ObjectsListed(spec.of.source, NOW - 60.0, (workload,)))
    for at in range(60, 0, -5):
        feed(state, a_sample("b", pod="b-1", at=NOW - at, running=16.0, gauges={"waiting": 16.0}), now=NOW - at)
    changes = plan(state.snapshot(NOW, 1), a_policy(model), Memory()).plan.changes
    return sum((one.replicas_to or 0) - (one.replicas_from or 0) for one in changes)


class TestWithATemplate:
    workload = a_workload("b", 1)

    def test_who_requests_gpus_is_taken_to_tolerate_their_taint_as_managed_clusters_have_it(self) -> None:
        assert granted(TEMPLATE, (GPU_TAINT,), None, self.workload) > 0
        assert granted(TEMPLATE, (replace(GPU_TAINT, effect="NoExecute"),), None, self.workload) == 0
        assert granted(TEMPLATE, (TEAM_TAINT,), None, self.workload) == 0

    def test_what_pods_that_stand_tolerate_counts_beside_it(self) -> None:
        assert granted(TEMPLATE, (GPU_TAINT, TEAM_TAINT), (ADDED, TEAM), self.workload) > 0
        assert granted(TEMPLATE, (GPU_TAINT, TEAM_TAINT), (ADDED,), replace(self.workload, tolerations=(TEAM,))) > 0

    def test_pods_that_were_admitted_without_a_toleration_say_that_nobody_adds_it(self) -> None:
        assert granted(TEMPLATE, (GPU_TAINT,), (), self.workload) == 0


class TestWithoutATemplate:
    workload = a_workload("b", 1, resource="nvidia.com/v1beta1/x", gpus={}, templated=False)

    def test_no_taint_is_known_to_bar_its_pods(self) -> None:
        assert granted(ADAPTER, (GPU_TAINT, TEAM_TAINT), None, self.workload) > 0

    def test_its_pods_tell_what_they_tolerate(self) -> None:
        assert granted(ADAPTER, (GPU_TAINT,), (ADDED,), self.workload) > 0
        assert granted(ADAPTER, (GPU_TAINT, TEAM_TAINT), (ADDED,), self.workload) == 0


class TestWhileNoPodTells:
    """A loaded model at 0 on a node of 8 GPUs."""

    workload = a_workload("b", 0)

    def granted(self, workload: Workload, *taints: Taint, replicas: int = 0) -> int:
        model = a_model("b", entitlement=8, min_replicas=0)
        workload = replace(workload, replicas=replicas)
        state = a_state(a_policy(model), workload, a_cluster_node("n1", taints=taints))
        feed(state, a_sample("b", at=NOW, running=0.0, gauges={"waiting": 64.0}))
        changes = plan(state.snapshot(NOW, 1), a_policy(model), Memory()).plan.changes
        return sum((one.replicas_to or 0) - (one.replicas_from or 0) for one in changes)

    def test_one_replica_is_granted_on_nodes_that_it_may_have_by_a_guess_alone(self) -> None:
        assert self.granted(self.workload, GPU_TAINT) == 1
        assert self.granted(self.workload, GPU_TAINT, replicas=1) == 0, "it is asked for, and no pod yet"
        assert self.granted(replace(self.workload, templated=False), TEAM_TAINT) == 1

    def test_as_many_as_it_needs_where_no_guess_is_needed(self) -> None:
        assert self.granted(self.workload) > 1
        assert self.granted(self.workload, replace(GPU_TAINT, effect="PreferNoSchedule")) > 1
        assert self.granted(replace(self.workload, tolerations=(TEAM,)), TEAM_TAINT) > 1
        for said in (ADDED, replace(ADDED, effect=""), replace(TEAM, key="", operator="Exists", value="", effect="")):
            assert self.granted(replace(self.workload, tolerations=(said,)), GPU_TAINT) > 1


def test_a_target_has_one_order_of_tolerations_whichever_of_its_pods_comes_first() -> None:
    pods = [replace(a_ready_pod(f"b-{n}"), tolerations=each) for n, each in enumerate([(TEAM,), (ADDED,), (TEAM,)])]
    views = [_tolerations(*order) for order in (pods, pods[::-1])]
    assert views == [(ADDED, TEAM)] * 2


def _tolerations(*pods: Pod) -> tuple[Toleration, ...]:
    state = a_state(a_policy(TEMPLATE), a_workload("b", 3), a_cluster_node("n1"), *pods)
    return state.peek(NOW).models[0].targets[0].tolerations
