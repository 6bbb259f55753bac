"""Pods and Deployments to values: whose they are, what they hold, how far they are."""

import json
from typing import Any

import msgspec
import pytest

from rebalancer.domain.cluster import ClusterObject, Node, NodePool, Pod, Toleration, Workload
from rebalancer.domain.dual_pods import Launcher, Requester
from rebalancer.domain.placement import NodeTerm, Placement, Requirement, Spread
from rebalancer.domain.quotas import ContainerAsk, PodAsk
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects import SHAPES, Unusable, value_of
from tests.ingest.manifests import container, deployment, meta, node, node_pool, pod

SEVEN = 1_800_000_000.0 - 3600  # 2027-01-15T07:00:00Z, when the objects were created
LLAMA = WorkloadRef("serving", "Deployment", "llama")
ONE_GPU = {"nvidia.com/gpu": 1}


def read(source: str, obj: dict[str, Any]) -> ClusterObject | Unusable:
    return value_of(source, msgspec.json.decode(json.dumps(obj), type=SHAPES[source].wire))


# --- pods


BYTES = [("koordinator.sh/gpu-memory", "640Gi"), ("gpu.intel.com/memory.max", "1e11"), ("sgx.intel.com/epc", 2**37)]


@pytest.mark.parametrize(("resource", "amount"), BYTES)
def test_a_resource_that_is_counted_in_bytes_costs_nothing_but_itself(resource: str, amount: str | int) -> None:
    both = {"cpu": "8", "nvidia.com/gpu": "1", resource: amount}
    its_pod = read("pods", pod(container() | {"resources": {"limits": both, "requests": both}}))
    its_node = read("nodes", node(status={"allocatable": both}))
    its_node_pool = read("nodepools", node_pool({"limits": both}))
    assert isinstance(its_pod, Pod)
    assert isinstance(its_node, Node)
    assert isinstance(its_node_pool, NodePool)
    assert its_pod.gpus == its_node.allocatable == its_node_pool.limits == ONE_GPU


def test_gpus_that_nobody_can_have_are_refused() -> None:
    assert isinstance(read("pods", pod(container("10Gi"))), Unusable)


def test_a_pod() -> None:
    assert read("pods", pod(spec={"terminationGracePeriodSeconds": 90})) == Pod(
        namespace="serving",
        name="llama-7d9f8b6c5d-x1",
        uid="uid-llama-7d9f8b6c5d-x1",
        resource_version="1001",
        workload=LLAMA,
        node="n1",
        gpus=ONE_GPU,
        phase="Running",
        ready=True,
        ready_at=SEVEN + 120,
        created_at=SEVEN,
        grace_seconds=90,
        labels=(("app", "llama"), ("pod-template-hash", "7d9f8b6c5d")),
        image="docker.io/library/vllm:1",
        placed_at=SEVEN + 1,
        tolerations=(),
    )


def test_what_admission_let_a_pod_tolerate_for_good_is_read_and_shared_with_its_siblings() -> None:
    for_good = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    silent = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    spec = {"tolerations": [for_good, silent | {"tolerationSeconds": 300}]}
    first, second = read("pods", pod(spec=spec)), read("pods", pod(spec=spec, name="llama-7d9f8b6c5d-x2"))
    assert isinstance(first, Pod)
    assert isinstance(second, Pod)
    assert first.tolerations == (Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"),)
    assert first.tolerations is second.tolerations
    without = read("pods", pod(container(None), spec=spec))
    assert isinstance(without, Pod)
    assert without.tolerations is None


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("vllm:1", "docker.io/library/vllm:1"),
        ("vllm/vllm-openai", "docker.io/vllm/vllm-openai:latest"),
        ("nvcr.io/nim/meta/llama:2", "nvcr.io/nim/meta/llama:2"),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
        ("quay.io/a/b@sha256:00", "quay.io/a/b@sha256:00"),
    ],
)
def test_an_image_is_spelled_as_nodes_spell_it(image: str, full: str) -> None:
    sidecar = container(gpus=0) | {"image": "proxy:9"}
    found = read("pods", pod(sidecar, container() | {"image": image}))
    assert isinstance(found, Pod)
    assert found.image == full


DUAL = "dual-pods.llm-d.ai"


def test_a_requester_is_known_by_its_annotation_and_names_its_launcher_while_bound() -> None:
    marks = {f"{DUAL}/inference-server-config": "qwen"}
    bound = {f"{DUAL}/dual": "launcher-1", f"{DUAL}/instance": "i-1"}
    assert [getattr(read("pods", pod(annotations=marks, labels=labels)), "dual", None) for labels in ({}, bound)] == [
        Requester(),
        Requester("launcher-1"),
    ]
    older = read("pods", pod(annotations={f"{DUAL}/server-patch": "spec: {}"}))
    assert isinstance(older, Pod)
    assert older.dual == Requester()


def test_a_launcher_says_for_whom_it_serves_and_with_which_engine() -> None:
    labels = {"app.kubernetes.io/component": "launcher", f"{DUAL}/launcher-config-name": "lc"}
    bound = {f"{DUAL}/requester": "uid-7 chat-x1", f"{DUAL}/instance-id": "i-1", f"{DUAL}/vllm-instance-signature": "s"}
    found = [read("pods", pod(labels=labels, annotations=marks)) for marks in ({}, bound)]
    assert [getattr(one, "dual", None) for one in found] == [Launcher(), Launcher("uid-7", "chat-x1", "i-1", "s")]


def test_a_pod_that_is_only_asked_for_is_pending_and_nowhere() -> None:
    bare = {"metadata": meta("p"), "spec": {"containers": [container()]}, "status": {"phase": "Pending"}}
    found = read("pods", bare)
    assert isinstance(found, Pod)
    assert (found.node, found.phase, found.ready, found.ready_at, found.workload) == (
        None,
        "Pending",
        False,
        None,
        None,
    )


def test_a_pod_that_was_ready_is_not_and_says_since_when() -> None:
    obj = pod()
    obj["status"]["conditions"][1]["status"] = "False"
    found = read("pods", obj)
    assert isinstance(found, Pod)
    assert (found.ready, found.ready_at, found.unready_at) == (False, None, SEVEN + 120)


def test_a_pod_being_deleted_says_until_when_and_what_its_deletion_costs() -> None:
    cost = {"controller.kubernetes.io/pod-deletion-cost": "-1000"}
    found = read("pods", pod(deletionTimestamp="2027-01-15T07:10:00Z", annotations=cost))
    assert isinstance(found, Pod)
    assert (found.deleting_at, found.deletion_cost) == (SEVEN + 600, -1000)


@pytest.mark.parametrize("cost", ["cheap", "", "1.5"])
def test_a_deletion_cost_that_is_no_number_is_none_as_for_kubernetes(cost: str) -> None:
    found = read("pods", pod(annotations={"controller.kubernetes.io/pod-deletion-cost": cost}))
    assert isinstance(found, Pod)
    assert found.deletion_cost is None


@pytest.mark.parametrize(
    ("owner", "labels", "workload"),
    [
        ({"kind": "ReplicaSet", "name": "a-b-5d9"}, {"pod-template-hash": "5d9"}, ("Deployment", "a-b")),
        ({"kind": "ReplicaSet", "name": "by-hand"}, {"pod-template-hash": "5d9"}, ("ReplicaSet", "by-hand")),
        ({"kind": "ReplicaSet", "name": "by-hand"}, {}, ("ReplicaSet", "by-hand")),
        ({"kind": "StatefulSet", "name": "s"}, {"pod-template-hash": "5d9"}, ("StatefulSet", "s")),
        ({"kind": "LeaderWorkerSet", "name": "l"}, {}, ("LeaderWorkerSet", "l")),
    ],
)
def test_the_owner_tells_whose_a_pod_is(
    owner: dict[str, str], labels: dict[str, str], workload: tuple[str, str]
) -> None:
    found = read("pods", pod(ownerReferences=[owner | {"controller": True}], labels=labels))
    assert isinstance(found, Pod)
    assert found.workload == WorkloadRef("serving", *workload)


def test_an_owner_that_does_not_control_a_pod_does_not_count() -> None:
    found = read("pods", pod(ownerReferences=[{"kind": "Node", "name": "n1"}]))
    assert isinstance(found, Pod)
    assert found.workload is None


@pytest.mark.parametrize(
    ("containers", "initial", "gpus"),
    [
        ([container(None)], [], {}),
        ([container(2), container(1)], [], {"nvidia.com/gpu": 3}),
        ([container(1), container(1, "nvidia.com/mig-3g.20gb")], [], ONE_GPU | {"nvidia.com/mig-3g.20gb": 1}),
        ([container(1)], [container(1, restartPolicy="Always")], {"nvidia.com/gpu": 2}),
        ([container(1)], [container(4), container(2)], {"nvidia.com/gpu": 4}),
        ([container(1)], [container(1, restartPolicy="Always"), container(3)], {"nvidia.com/gpu": 4}),
        ([{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}], [], {"nvidia.com/gpu": 2}),
        ([{"name": "c"}], [], {}),
    ],
)
def test_gpus_of_a_pod_are_what_the_scheduler_counts(
    containers: list[dict[str, Any]], initial: list[dict[str, Any]], gpus: dict[str, int]
) -> None:
    found = read("pods", pod(*containers, spec={"initContainers": initial}))
    assert isinstance(found, Pod)
    assert found.gpus == gpus


# --- deployments


def test_a_deployment() -> None:
    spec = {
        "replicas": 3,
        "template": {
            "spec": {
                "containers": [container(2)],
                "nodeSelector": {"gpu": "a100"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, {"key": "k"}],
                "terminationGracePeriodSeconds": 0,
            }
        },
    }
    asked = {"cpu": 8000, "memory": 64 * 2**30 * 1000, "nvidia.com/gpu": 2000}
    assert read("deployments", deployment(spec)) == Workload(
        ref=LLAMA,
        uid="uid-llama",
        resource_version="1001",
        replicas=3,
        gpus={"nvidia.com/gpu": 2},
        node_selector={"gpu": "a100"},
        tolerations=(Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"), Toleration("k")),
        grace_seconds=0,
        ask=PodAsk((ContainerAsk(asked, asked),)),
    )


def test_what_a_template_asks_of_nodes_beside_selector_and_taints() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    own = {"matchLabels": {"app": "llama"}}
    term = {
        "matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a", "b"]},
            {"key": "gpu", "operator": "Exists"},
        ],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}],
    }
    affinity = {
        "nodeAffinity": {
            required: {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
        },
        "podAntiAffinity": {
            required: [
                {"topologyKey": "zone", "labelSelector": own},
                {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "batch"}}},
                {"topologyKey": "row"},
            ]
        },
        "podAffinity": {required: [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "cache"}}}]},
    }
    spreads = [
        {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own},
        {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": own},
        {"topologyKey": "rack", "nodeTaintsPolicy": "Honor", "labelSelector": own},
    ]
    port = container(1) | {"name": "c", "ports": [{"containerPort": 8000, "hostPort": 8000}]}
    template = {
        "metadata": {"labels": {"app": "llama", "pod-template-hash": "x"}},
        "spec": {"containers": [port], "affinity": affinity, "topologySpreadConstraints": spreads},
    }
    found = read("deployments", deployment({"replicas": 1, "template": template}))
    assert isinstance(found, Workload)
    zone, gpu = Requirement("zone", "In", ("a", "b")), Requirement("gpu", "Exists")
    assert found.placement == Placement(
        terms=(NodeTerm((zone, gpu), (Requirement("metadata.name", "NotIn", ("n9",)),)),),
        apart=("kubernetes.io/hostname", "zone"),
        spreads=(Spread("zone", 2), Spread("rack", heeds_taints=True)),
        unseen=(
            "takes host port 8000, which pods of other workloads may have on a node",
            "must stand near pods with app=cache (zone)",
            "must not stand near pods with app=batch (rack)",
        ),
    )


def test_on_the_host_s_network_each_port_of_a_container_is_a_host_port() -> None:
    port = container(1) | {"name": "c", "ports": [{"containerPort": 8000}, {"containerPort": 22, "hostPort": 22}]}
    template = {"spec": {"containers": [port], "hostNetwork": True}}
    found = read("deployments", deployment({"replicas": 1, "template": template}))
    assert isinstance(found, Workload)
    assert found.placement == Placement(
        apart=("kubernetes.io/hostname",),
        unseen=("takes host ports 22 and 8000, which pods of other workloads may have on a node",),
    )


def test_replicas_that_nobody_set_are_one_and_zero_is_zero() -> None:
    found = [read("deployments", deployment({"replicas": replicas})) for replicas in (None, 0)]
    assert [one.replicas for one in found if isinstance(one, Workload)] == [1, 0]


@pytest.mark.parametrize(
    ("status", "rolling"),
    [
        ({}, False),
        ({"replicas": 4, "updatedReplicas": 1}, True),  # the first pod of a new template
        ({"replicas": 2, "updatedReplicas": 0}, True),  # maxSurge 0: an old pod went first
        ({"observedGeneration": 3}, False),  # scaled a moment ago, not looked at yet
        ({"replicas": 5, "updatedReplicas": 5, "readyReplicas": 3}, False),  # scaled up, pods still load
        ({"replicas": 1, "updatedReplicas": 1}, False),  # scaled down
        ({"replicas": 0, "updatedReplicas": 0}, False),
    ],
)
def test_a_rollout_is_told_from_a_scale(status: dict[str, int], rolling: bool) -> None:  # noqa: FBT001  the expected answer
    found = read("deployments", deployment(status=status))
    assert isinstance(found, Workload)
    assert found.rolling is rolling


@pytest.mark.parametrize(
    ("reason", "ready", "revision", "unproven"),
    [
        ("ReplicaSetUpdated", 0, "2", True),
        ("ProgressDeadlineExceeded", 0, "7", True),
        ("NewReplicaSetAvailable", 0, "2", False),  # it has served: its pods crashed
        ("ReplicaSetUpdated", 1, "2", False),
        ("ReplicaSetUpdated", 0, "1", False),  # its first template: a model that is new
        (None, 0, "2", False),  # spec.progressDeadlineSeconds is off: Kubernetes says nothing
    ],
)
def test_of_a_rollout_that_is_over_by_its_counts_the_condition_says_whether_its_template_ever_served(
    reason: str | None,
    ready: int,
    revision: str,
    unproven: bool,  # noqa: FBT001  the expected answer
) -> None:
    conditions = [] if reason is None else [{"type": "Progressing", "status": "True", "reason": reason}]
    thing = deployment(status={"readyReplicas": ready, "conditions": conditions})
    thing["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": revision}
    found = read("deployments", thing)
    assert isinstance(found, Workload)
    assert (found.rolling, found.unproven) == (False, unproven)
