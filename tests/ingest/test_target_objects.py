"""Targets of other kinds than Deployments: where their API keeps replicas, template, selector, and whose pods are."""

import json
from typing import Any

import msgspec
import pytest
import yaml

from rebalancer.domain.cluster import ClusterObject, Pod, Workload
from rebalancer.domain.placement import Placement
from rebalancer.domain.target_kinds import BY_NAME, TargetKind
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.kinds import NoScale, scale_paths
from rebalancer.ingest.objects import STATEFUL_SETS, Unusable, WireShape, shape_of, value_of
from rebalancer.ingest.objects.targets import ScalePaths
from rebalancer.kube.resources import Resource, served_as
from tests.beside import folder
from tests.ingest.manifests import container, meta, pod
from tests.ingest.test_workload_objects import read

PATHS = ScalePaths(("spec", "replicas"), ("status", "selector"))
LWS = served_as("leaderworkerset.x-k8s.io/v1/leaderworkersets", "LeaderWorkerSet")
GPU = "nvidia.com/gpu"


def seen(shape: WireShape, obj: dict[str, Any]) -> ClusterObject | Unusable:
    return value_of("targets", msgspec.json.decode(json.dumps(obj), type=shape.wire), shape)


def target(shape: WireShape, obj: dict[str, Any]) -> Workload:
    found = seen(shape, obj)
    assert isinstance(found, Workload), found
    return found


def owned(kind: str, name: str, pod_name: str, **labels: str) -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": True}
    found = read("pods", pod(name=pod_name, labels=labels, ownerReferences=[owner]))
    assert isinstance(found, Pod)
    return found


def stateful_set(status: dict[str, Any] | None = None, **spec: object) -> dict[str, Any]:
    template = {"spec": {"containers": [container(2)], "nodeSelector": {"pool": "a100"}}}
    revisions = {"currentRevision": "r1", "updateRevision": "r1"}
    return {
        "metadata": meta("llama"),
        "spec": {"replicas": 3, "template": template} | spec,
        "status": status or revisions,
    }


# --- StatefulSets


def test_a_stateful_set_is_a_target_with_the_gpus_of_its_template() -> None:
    found = target(STATEFUL_SETS, stateful_set())
    assert (found.ref, found.replicas, found.gpus, found.resource) == (
        WorkloadRef("serving", "StatefulSet", "llama"),
        3,
        {GPU: 2},
        "apps/v1/statefulsets",
    )
    assert (found.node_selector, found.rolling, found.first_ordinal) == ({"pool": "a100"}, False, 0)


def test_it_rolls_while_its_pods_are_of_two_revisions_and_may_begin_to_count_elsewhere() -> None:
    two = {"currentRevision": "r1", "updateRevision": "r2", "replicas": 3, "currentReplicas": 2, "updatedReplicas": 1}
    found = target(STATEFUL_SETS, stateful_set(two, ordinals={"start": 5}))
    assert (found.rolling, found.first_ordinal) == (True, 5)


def test_it_rolls_no_more_once_all_its_pods_are_of_the_newest_as_on_delete_never_writes_down() -> None:
    status = {"currentRevision": "r1", "updateRevision": "r2", "replicas": 3, "updatedReplicas": 3}
    assert not target(STATEFUL_SETS, stateful_set(status, updateStrategy={"type": "OnDelete"})).rolling


def test_its_pods_have_the_numbers_of_their_names() -> None:
    found = owned("StatefulSet", "llama", "llama-12", app="llama")
    assert (found.workload, found.ordinal) == (WorkloadRef("serving", "StatefulSet", "llama"), 12)


# --- LeaderWorkerSets


def test_pods_of_a_group_belong_to_the_leader_worker_set_and_have_its_group_s_number() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": "3"}
    leader = owned("StatefulSet", "vllm", "vllm-3", **labels, **{"leaderworkerset.sigs.k8s.io/worker-index": "0"})
    worker = owned("StatefulSet", "vllm-3", "vllm-3-1", **labels, **{"leaderworkerset.sigs.k8s.io/worker-index": "1"})
    ref = WorkloadRef("serving", "LeaderWorkerSet", "vllm")
    assert [(each.workload, each.ordinal, each.member) for each in (leader, worker)] == [(ref, 3, 0), (ref, 3, 1)]


def test_a_group_asks_for_what_leader_and_workers_ask_for() -> None:
    both = {
        "size": 3,
        "leaderTemplate": {"spec": {"containers": [container(1)]}},
        "workerTemplate": {"spec": {"containers": [container(8)]}},
    }
    conditions = [{"type": "UpdateInProgress", "status": "True"}]
    obj = {
        "metadata": meta("vllm"),
        "spec": {"replicas": 2, "leaderWorkerTemplate": both},
        "status": {"conditions": conditions},
    }
    found = target(shape_of(LWS, PATHS), obj)
    assert (found.pods, found.gpus, found.leader_gpus, found.rolling) == (3, {GPU: 8}, {GPU: 1}, True)


def test_the_topology_of_its_groups_stands_in_its_annotations() -> None:
    keys = {
        "leaderworkerset.sigs.k8s.io/exclusive-topology": "rack",
        "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": "row",
    }
    both = {"size": 2, "workerTemplate": {"spec": {"containers": [container(8)]}}}
    obj = {"metadata": meta("vllm") | {"annotations": keys}, "spec": {"replicas": 2, "leaderWorkerTemplate": both}}
    assert target(shape_of(LWS, PATHS), obj).placement == Placement(
        alone="rack",
        unseen=(
            "keeps each group away from those of other LeaderWorkerSets (rack)",
            "keeps each part of a group alone (row)",
        ),
    )


def test_a_real_leader_worker_set_is_read_as_it_is_shipped() -> None:
    manifest = folder("artefacts", "REBALANCER_ARTEFACTS") / "workloads/lws-vllm-multinode-16gpu.yaml"
    obj = next(iter(yaml.safe_load_all(manifest.read_text())))
    found = target(shape_of(LWS, PATHS), obj | {"metadata": meta(obj["metadata"]["name"])})
    assert (found.replicas, found.pods, found.gpus) == (2, 2, {GPU: 8})


# --- any other kind


def rollout(**spec: object) -> dict[str, Any]:
    return {"metadata": meta("llama"), "spec": spec, "status": {"selector": "app=llama,role=decode"}}


ROLLOUTS = served_as("argoproj.io/v1alpha1/rollouts", "Rollout")


def test_replicas_and_selector_stand_where_the_definition_says() -> None:
    found = target(
        shape_of(ROLLOUTS, ScalePaths(("spec", "size", "count"), ("status", "selector"))), rollout(size={"count": 4})
    )
    assert (found.replicas, found.selector, found.templated) == (4, "app=llama,role=decode", False)


def test_without_a_template_nobody_knows_what_its_pods_ask_for() -> None:
    found = target(shape_of(ROLLOUTS, PATHS), rollout(replicas=1, template={"spec": {"containers": [container(4)]}}))
    assert (found.templated, found.gpus) == (True, {GPU: 4})
    assert not target(shape_of(ROLLOUTS, PATHS), rollout(replicas=1)).templated


def test_an_object_whose_replicas_are_no_number_is_unusable_with_the_path() -> None:
    found = seen(shape_of(ROLLOUTS, PATHS), rollout(replicas="many"))
    assert isinstance(found, Unusable)
    assert "`spec.replicas` is no number of replicas" in found.why


@pytest.mark.parametrize("conditions", [{"Ready": "True"}, ["Ready"], [None], "Ready", 7])
def test_a_kind_whose_conditions_are_no_list_of_objects_is_a_target_that_does_not_say_whether_it_rolls(
    conditions: object,
) -> None:
    thing = served_as("example.com/v1/things", "Thing")
    assert not target(shape_of(thing, PATHS), rollout(replicas=1) | {"status": {"conditions": conditions}}).rolling


@pytest.mark.parametrize("replicas", [2**31 - 1, 100_001, -1])
def test_a_number_of_replicas_that_no_policy_could_allow_makes_its_target_unusable(replicas: int) -> None:
    found = seen(STATEFUL_SETS, stateful_set(replicas=replicas))
    assert isinstance(found, Unusable)
    assert found.why == f"{replicas} replicas are none that a policy could allow: 0 to 100,000"


def test_a_rollout_s_pods_are_told_by_its_hash() -> None:
    found = owned("ReplicaSet", "llama-5d9", "llama-5d9-x1", **{"rollouts-pod-template-hash": "5d9"})
    assert (found.workload, found.ordinal) == (WorkloadRef("serving", "Rollout", "llama"), None)


def definition(name: str) -> Any:  # noqa: ANN401  JSON
    """A CustomResourceDefinition as its project ships it."""
    text = (folder("artefacts", "REBALANCER_ARTEFACTS") / "crds" / name).read_text()
    return json.loads(text) if name.endswith(".json") else yaml.safe_load(text)


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("LeaderWorkerSet", "leaderworkerset-v1.json"),
        ("Rollout", "argo-rollouts-rollout.json"),
        ("DynamoGraphDeploymentScalingAdapter", "dynamo-dgd-scaling-adapter.yaml"),
        ("StormService", "aibrix-stormservice.yaml"),
    ],
)
def test_of_a_known_kind_the_real_definition_says_where_the_scale_stands(kind: str, file: str) -> None:
    known, found = BY_NAME[kind], definition(file)
    names = found["spec"]["names"]
    assert (found["spec"]["group"], names["plural"], names["kind"]) == (known.group, known.plural, known.kind)
    paths = scale_paths(found, known)
    assert (paths.replicas, paths.selector[0]) == (("spec", "replicas"), "status")


@pytest.mark.parametrize("file", ["kuberay-raycluster.json", "dynamo-dynamographdeployment.json"])
def test_a_real_kind_without_a_scale_is_no_target(file: str) -> None:
    spec = definition(file)["spec"]
    kind = TargetKind(spec["group"], spec["versions"][0]["name"], spec["names"]["kind"])
    with pytest.raises(NoScale, match=r"serves no /scale"):
        scale_paths(definition(file), kind)


def test_a_resource_is_addressed_by_its_path() -> None:
    assert served_as("apps/v1/statefulsets", "StatefulSet") == Resource(
        "apps", "v1", "statefulsets", namespaced=True, kind="StatefulSet"
    )
