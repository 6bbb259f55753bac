"""Kubernetes objects to values: the fields in use, as Kubernetes, KEDA and Karpenter mean them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.autoscalers import Hpa, Originals, ScaledObject
from rebalancer.domain.cluster import (
    SOURCES,
    ClusterObject,
    DisruptionBudget,
    Node,
    NodeClaim,
    NodePool,
    SavedNodePool,
    Taint,
)
from rebalancer.domain.parents import ControllerRef
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.quantities import devices
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects import SHAPES, Unusable, value_of
from rebalancer.ingest.objects.meta import is_extended
from tests.ingest import quota_manifests
from tests.ingest.manifests import (
    deployment,
    hpa,
    node,
    node_claim,
    node_pool,
    override,
    pod,
    pod_autoscaler,
    scaled_object,
    write_stop,
)

SEVEN = 1_800_000_000.0 - 3600  # 2027-01-15T07:00:00Z, when the objects were created
LLAMA = WorkloadRef("serving", "Deployment", "llama")
ONE_GPU = {"nvidia.com/gpu": 1}


def read(source: str, obj: dict[str, Any]) -> ClusterObject | Unusable:
    return value_of(source, msgspec.json.decode(json.dumps(obj), type=SHAPES[source].wire))


def test_every_source_has_a_shape_of_its_kind_and_no_other() -> None:
    whole = {
        "nodes": node(),
        "pods": pod(),
        "deployments": deployment(),
        "hpas": hpa(),
        "scaledobjects": scaled_object(),
        "podautoscalers": pod_autoscaler(),
        "nodepools": node_pool(),
        "nodeclaims": node_claim(),
        "overrides": override(),
        "writestops": write_stop(),
        **{source: make() for source, make in quota_manifests.ALL.items()},
    }
    assert {source: type(read(source, obj)) for source, obj in whole.items()} == SOURCES
    assert set(SHAPES) == set(SOURCES)


# --- nodes


def test_a_node() -> None:
    taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
    gone = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": "2027-01-15T07:00:00Z"}
    assert read("nodes", node({"taints": [taint, gone], "unschedulable": True})) == Node(
        name="n1",
        uid="uid-n1",
        resource_version="1001",
        provider_id="aws:///us-east-1b/i-0b662ef9931388ba0",
        labels={"gpu": "a100"},
        taints=(Taint("nvidia.com/gpu", "true", "NoSchedule"), Taint("karpenter.sh/disrupted", "", "NoSchedule")),
        allocatable={"nvidia.com/gpu": 8},
        ready=True,
        ready_changed_at=SEVEN - 1800,
        unschedulable=True,
        created_at=SEVEN,
    )


def test_the_images_on_a_node_are_read_by_every_name_they_have() -> None:
    images = [{"names": ["docker.io/vllm/vllm-openai:v1", "docker.io/vllm/vllm-openai@sha256:0"]}, {"sizeBytes": 1}]
    found = read("nodes", node(status={"images": images}))
    assert isinstance(found, Node)
    assert found.images == ("docker.io/vllm/vllm-openai:v1", "docker.io/vllm/vllm-openai@sha256:0")


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_says_since_when(status: str) -> None:
    condition = {"type": "Ready", "status": status, "lastTransitionTime": "2027-01-15T07:00:10Z"}
    found = read("nodes", node(status={"conditions": [condition]}, deletionTimestamp="2027-01-15T07:00:00Z"))
    assert isinstance(found, Node)
    assert (found.ready, found.ready_changed_at, found.deleting) == (False, SEVEN + 10, True)


def test_a_node_whose_plugin_is_not_up_has_no_gpus_whatever_its_capacity() -> None:
    found = read("nodes", node(status={"allocatable": {"cpu": "95"}, "capacity": {"nvidia.com/gpu": "8"}}))
    assert isinstance(found, Node)
    assert found.allocatable == {}


# --- autoscalers


def test_an_hpa_of_our_own_saving_and_one_that_keda_made() -> None:
    kept = {"rebalancer.io/originals": '{"max":9,"min":null}'}
    owner = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "llama", "controller": True}
    assert read("hpas", hpa(annotations=kept, ownerReferences=[owner])) == Hpa(
        namespace="serving",
        name="llama",
        uid="uid-llama",
        resource_version="1001",
        target=LLAMA,
        minimum=2,
        maximum=5,
        current=3,
        desired=4,
        owner_scaled_object="llama",
        originals=Originals(None, 9),
        controller=ControllerRef("keda.sh", "ScaledObject", "llama"),
    )


def test_an_hpa_without_minimum_has_kubernetes_default() -> None:
    found = read("hpas", hpa({"minReplicas": None}))
    assert isinstance(found, Hpa)
    assert (found.minimum, found.owner_scaled_object, found.originals) == (1, None, None)


@pytest.mark.parametrize(
    ("conditions", "wakes"),
    [
        ({"ScaledToZero": "True ScaledToZero", "ScalingActive": "True ValidMetricFound"}, True),
        ({"ScaledToZero": "False NotScaledToZero", "ScalingActive": "False ScalingDisabled"}, False),
        ({"ScalingActive": "False ScalingDisabled"}, False),
        ({"ScaledToZero": "False NotScaledToZero", "ScalingActive": "True ValidMetricFound"}, None),
        ({"ScalingActive": "False FailedGetExternalMetric"}, None),
        ({}, None),
    ],
)
def test_an_hpa_says_whether_it_brings_its_target_back_from_zero(
    conditions: dict[str, str],
    wakes: bool | None,  # noqa: FBT001  a value of the table
) -> None:
    manifest = hpa()
    manifest["status"]["conditions"] = [
        {"type": name, **dict(zip(("status", "reason"), words.split(), strict=True))}
        for name, words in conditions.items()
    ]
    found = read("hpas", manifest)
    assert isinstance(found, Hpa)
    assert found.wakes is wakes


def test_a_scaled_object() -> None:
    spec = {"minReplicaCount": 1, "maxReplicaCount": 8, "idleReplicaCount": 0}
    found = read("scaledobjects", scaled_object(spec, annotations={"rebalancer.io/originals": '{"max":8,"min":1}'}))
    assert found == ScaledObject(
        namespace="serving",
        name="llama",
        uid="uid-llama",
        resource_version="1001",
        target=LLAMA,
        minimum=1,
        maximum=8,
        idle=0,
        hpa_name="keda-hpa-llama",
        originals=Originals(1, 8),
    )


def test_bounds_that_a_scaled_object_does_not_set_are_unknown_not_zero() -> None:
    target = {"scaleTargetRef": {"kind": "StatefulSet", "name": "s"}}
    found = read("scaledobjects", scaled_object(target) | {"status": {}})
    assert isinstance(found, ScaledObject)
    assert (found.minimum, found.maximum, found.idle, found.hpa_name) == (None, None, None, None)
    assert found.target == WorkloadRef("serving", "StatefulSet", "s")


@pytest.mark.parametrize(
    ("annotations", "paused"),
    [
        ({}, False),
        ({"autoscaling.keda.sh/paused": "true"}, True),
        ({"autoscaling.keda.sh/paused": "1"}, True),
        ({"autoscaling.keda.sh/paused": "false"}, False),
        ({"autoscaling.keda.sh/paused": "F"}, False),
        ({"autoscaling.keda.sh/paused": "0"}, False),
        ({"autoscaling.keda.sh/paused": "no"}, True),  # not a boolean: KEDA takes it for true
        ({"autoscaling.keda.sh/paused": ""}, True),
        ({"autoscaling.keda.sh/paused-replicas": "3"}, True),
        ({"autoscaling.keda.sh/paused": "false", "autoscaling.keda.sh/paused-replicas": "3"}, True),
        ({"autoscaling.keda.sh/paused-scale-in": "true"}, False),  # its HPA stays and clamps
    ],
)
def test_a_scaled_object_is_paused_as_keda_reads_it(annotations: dict[str, str], paused: bool) -> None:  # noqa: FBT001  the expected answer
    found = read("scaledobjects", scaled_object(annotations=annotations))
    assert isinstance(found, ScaledObject)
    assert found.paused is paused


@pytest.mark.parametrize("text", ["", "{", "[]", '{"min": "2", "max": 3}'])
def test_originals_that_nobody_can_read_are_no_originals(text: str) -> None:
    found = read("scaledobjects", scaled_object(annotations={"rebalancer.io/originals": text}))
    assert isinstance(found, ScaledObject)
    assert found.originals is None


# --- Karpenter


def test_a_node_pool() -> None:
    budgets = [{"nodes": "0", "reasons": ["Empty", "Underutilized"]}, {"nodes": "10%", "schedule": "0 9 * * 1-5"}]
    kept = {"limits": {"nvidia.com/gpu": 8}, "budgets": [{"nodes": "10%"}]}
    obj = node_pool({"disruption": {"budgets": budgets}}, annotations={"rebalancer.io/originals": json.dumps(kept)})
    assert read("nodepools", obj) == NodePool(
        name="gpu-spot",
        uid="uid-gpu-spot",
        resource_version="1001",
        limits={"nvidia.com/gpu": 16},
        used={"nvidia.com/gpu": 8},
        weight=10,
        budgets=(
            DisruptionBudget("0", ("Empty", "Underutilized")),
            DisruptionBudget("10%", schedule="0 9 * * 1-5"),
        ),
        saved=SavedNodePool({"nvidia.com/gpu": "8"}, (DisruptionBudget("10%"),)),
    )


def test_a_node_pool_without_limits_or_budgets_has_none_and_saved_nulls_stay_null() -> None:
    spec: dict[str, Any] = {"limits": None, "disruption": {}}
    obj = node_pool(spec, annotations={"rebalancer.io/originals": '{"budgets":null,"limits":null}'})
    obj["status"]["conditions"][0]["status"] = "False"
    found = read("nodepools", obj)
    assert isinstance(found, NodePool)
    assert (found.limits, found.budgets, found.saved, found.ready) == ({}, None, SavedNodePool(None, None), False)


def test_a_node_pool_under_a_mere_hold_has_no_saved_limits() -> None:
    found = read("nodepools", node_pool(annotations={"rebalancer.io/originals": '{"budgets":null,"by":"a/b"}'}))
    assert isinstance(found, NodePool)
    assert found.saved == SavedNodePool(None, None, "a/b")


def test_a_node_claim_holds_what_was_asked_until_its_machine_says_what_it_brings() -> None:
    asked = read("nodeclaims", node_claim())
    launched = read("nodeclaims", node_claim({"capacity": {"nvidia.com/gpu": "8"}, "providerID": "aws:///a/i-1"}))
    status = {
        "nodeName": "n9",
        "allocatable": {"nvidia.com/gpu": "7"},
        "capacity": {"nvidia.com/gpu": "8"},
        "conditions": [{"type": "Initialized", "status": "True"}],
    }
    ready = read("nodeclaims", node_claim(status))
    found = [one for one in (asked, launched, ready) if isinstance(one, NodeClaim)]
    assert [one.gpus for one in found] == [{"nvidia.com/gpu": gpus} for gpus in (4, 8, 7)]
    assert [one.node for one in found] == [None, None, "n9"]
    assert [one.initialized for one in found] == [False, False, True]
    assert {(one.node_pool, one.created_at, one.failed) for one in found} == {("gpu-spot", SEVEN, None)}
    assert found[1].provider_id == "aws:///a/i-1"


@pytest.mark.parametrize(
    ("condition", "failed"),
    [
        ({"type": "Launched", "status": "Unknown", "message": "waiting"}, None),
        ({"type": "Launched", "status": "True"}, None),
        ({"type": "Launched", "status": "False", "message": "no p5 left", "reason": "LaunchFailed"}, "no p5 left"),
        ({"type": "Launched", "status": "False", "reason": "LaunchFailed"}, "LaunchFailed"),
        ({"type": "InsufficientCapacity", "status": "True", "message": "none in us-east-1b"}, "none in us-east-1b"),
        ({"type": "InsufficientCapacity", "status": "False", "message": "fine"}, None),
        ({"type": "Drifted", "status": "True", "message": "NodePoolDrifted"}, None),
    ],
)
def test_a_node_claim_has_failed_when_its_machine_cannot_be_had(condition: dict[str, str], failed: str | None) -> None:
    found = read("nodeclaims", node_claim({"conditions": [condition]}))
    assert isinstance(found, NodeClaim)
    assert found.failed == failed


def test_a_node_claim_says_why_it_goes() -> None:
    why = {"type": "DisruptionReason", "status": "True", "reason": "Underutilized"}
    found = read("nodeclaims", node_claim({"conditions": [why]}, deletionTimestamp="2027-01-15T07:00:30Z"))
    assert isinstance(found, NodeClaim)
    assert (found.deleting_at, found.disruption_reason) == (SEVEN + 30, "Underutilized")


# --- what people ask for


def test_an_override_of_a_model() -> None:
    assert read("overrides", override(allowBelowFloor=True)) == Override(
        name="o1",
        namespace="serving",
        uid="uid-o1",
        resource_version="1001",
        kind="pin",
        subject="llama-70b",
        subject_kind="model",
        reason="launch",
        actor="ada@example.com",
        created_at=SEVEN,
        expires_at=SEVEN + 3 * 3600,
        value=3,
        allow_below_floor=True,
        phase="InForce",
        message="3 replicas",
    )


@pytest.mark.parametrize(
    ("kind", "target", "subject", "model"),
    [
        ("drain", {"node": "n1"}, ("node", "n1"), None),
        ("drain", {"pool": "a100"}, ("pool", "a100"), None),
        ("exclude", {"node": "n1", "model": "b"}, ("node", "n1"), "b"),
        ("exclude", {"pool": "a100"}, ("pool", "a100"), None),
        ("pause", {"model": "b"}, ("model", "b"), None),
        ("standUp", {"model": "b"}, ("model", "b"), None),
    ],
)
def test_an_override_is_about_a_model_a_node_or_a_pool(
    kind: str, target: dict[str, str], subject: tuple[str, str], model: str | None
) -> None:
    found = read("overrides", override(kind=kind, target=target, value=None))
    assert isinstance(found, Override)
    assert ((found.subject_kind, found.subject), found.model, found.value) == (subject, model, None)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"target": {}}, "needs the id of a model"),
        ({"kind": "drain", "target": {}}, "needs a node or a pool"),
        ({"kind": "drain", "target": {"node": "a", "pool": "b"}}, "not both"),
        ({"expiresAt": "tomorrow"}, "RFC3339"),
    ],
)
def test_an_override_that_makes_no_sense_is_unusable_and_says_why(spec: dict[str, Any], said: str) -> None:
    found = read("overrides", override(**spec))
    assert isinstance(found, Unusable)
    assert (found.source, found.name, said in found.why) == ("overrides", "serving/o1", True)


def test_a_write_stop() -> None:
    assert read("writestops", write_stop()) == WriteStop(
        "all", "uid-all", "1001", "incident 7", "ada@example.com", SEVEN
    )


@pytest.mark.parametrize("spec", [{}, [], "stop", {"reason": 7}])
def test_a_write_stop_that_cannot_be_read_stops_all_the_same(spec: object) -> None:
    assert isinstance(read("writestops", write_stop(spec)), WriteStop)


# --- quantities


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), (8, 8), ("1k", 1000), ("2Ki", 2048), ("1500m", 1), ("0", 0), ("1e3", 1000), ("+3", 3), (4.0, 4)],
)
def test_a_quantity_is_whole_devices(text: str | float, number: int) -> None:
    assert devices(text) == number


@pytest.mark.parametrize(
    "text", ["", "eight", "-1", "1KiB", "k", "1e99999999999", "9" * 30, "NaN", "Infinity", "1e-9e"]
)
def test_what_is_no_quantity_of_devices_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="number of devices"):
        devices(text)


@given(st.text(max_size=12) | st.integers() | st.floats())
def test_no_quantity_raises_anything_else(text: str | float) -> None:
    try:
        assert devices(text) >= 0
    except ValueError:
        return


def test_extended_resources_are_those_with_a_domain_of_their_own() -> None:
    names = ["nvidia.com/gpu", "nvidia.com/mig-3g.20gb", "vpc.amazonaws.com/efa", "cpu", "hugepages-2Mi"]
    names += ["kubernetes.io/batch-cpu", "node.kubernetes.io/x", "ephemeral-storage"]
    assert [name for name in names if is_extended(name)] == names[:3]
