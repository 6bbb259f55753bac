"""Who owns a target's numbers, from the objects as an API server sends them to the sentence that people read.

Parents come from manifests that people ship (`../shared/artefacts`); their children, which only a running controller
makes, are composed from `tests.ingest.manifests` with the owner reference that the parent's controller sets.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from rebalancer.domain.autoscalers import Hpa, PodAutoscaler, ScaledObject
from rebalancer.domain.cluster import ClusterObject, Workload
from rebalancer.domain.owners import OwnerClaim, claims, refusing, written
from rebalancer.domain.parents import APPLIERS, LEAVES, MAY, PARENTS, REVERTS, Applied, ControllerRef, applier_of
from rebalancer.domain.snapshot import AppliedView, AutoscalerView, OwnerView, TargetView
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects import SHAPES, Unusable, value_of
from rebalancer.ingest.objects.meta import Managed, applied
from tests import beside
from tests.builders import a_model, a_policy, a_target, an_autoscaler
from tests.ingest.manifests import deployment, hpa, pod_autoscaler, scaled_object
from tests.ingest.test_writer import entry
from tests.state.objects import a_state, feed, gone

CLASS = "serving.kserve.io/autoscalerClass"


@pytest.fixture(scope="module")
def artefacts() -> Path:
    return beside.folder("artefacts", "REBALANCER_ARTEFACTS")


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in YAML(typ="safe", pure=True).load_all(path.read_text()) if each]


def below(parent: dict[str, Any], child: dict[str, Any], mode: str = "") -> dict[str, Any]:
    """The child with the owner reference, and KServe's annotation where a mode is given."""
    name = parent["metadata"].get("name", "parent")
    owner = {"apiVersion": parent["apiVersion"], "kind": parent["kind"], "name": name, "uid": "u", "controller": True}
    more = {"ownerReferences": [owner]} | ({"annotations": {CLASS: mode}} if mode else {})
    return child | {"metadata": child["metadata"] | more}


SOURCES = {
    "Deployment": "deployments",
    "HorizontalPodAutoscaler": "hpas",
    "ScaledObject": "scaledobjects",
    "PodAutoscaler": "podautoscalers",
}


def read(obj: dict[str, Any]) -> ClusterObject:
    source = SOURCES[obj["kind"]]
    value = value_of(source, msgspec.json.decode(json.dumps(obj), type=SHAPES[source].wire))
    assert not isinstance(value, Unusable), value
    return value


def seen(*objs: dict[str, Any]) -> TargetView:
    """Deployment `llama` as the snapshot has it once these objects are listed."""
    state = a_state(a_policy(a_model("llama")), *map(read, objs))
    return next(model for model in state.peek(1.8e9).models if model.id == "llama").targets[0]


def only(target: TargetView) -> OwnerClaim:
    (claim,) = claims(target)
    return claim


KSERVE, LLM = "kserve-isvc-huggingface-fluid.yaml", "kserve-llmisvc-single-node-qwen2-7b.yaml"
NIM, DYNAMO = "nim-operator-nimservice-autoscaling.yaml", "dynamo-operator-golden-dgd-components-output.yaml"


@pytest.mark.parametrize(
    ("file", "kind", "child", "mode", "verdict", "words"),
    [
        (KSERVE, "InferenceService", "hpa", "", "refused", "autoscalerClass: external"),
        (KSERVE, "InferenceService", "scaled", "keda", "refused", "autoscalerClass: external"),
        (KSERVE, "InferenceService", "alone", "", "refused", "autoscalerClass: external"),
        (KSERVE, "InferenceService", "alone", "none", "refused", "autoscalerClass: external"),
        (KSERVE, "InferenceService", "alone", "external", "nothing", ""),
        (LLM, "LLMInferenceService", "hpa", "", "refused", "leave `scaling`"),
        (LLM, "LLMInferenceService", "scaled", "", "refused", "leave `scaling`"),
        (LLM, "LLMInferenceService", "alone", "", "told", "`replicas` out of the LLMInferenceService"),
        (NIM, "NIMService", "alone", "", "refused", "turn on `spec.scale`"),
        (NIM, "NIMService", "hpa", "", "told", "until somebody edits the NIMService"),
        (DYNAMO, "DynamoComponentDeployment", "alone", "", "refused", "scalingAdapter"),
        (
            "dynamo-vllm-agg.yaml",
            "DynamoGraphDeployment",
            "alone",
            "",
            "refused",
            "DynamoGraphDeploymentScalingAdapter",
        ),
        ("aibrix-stormservice-vllm-1p1d.yaml", "StormService", "alone", "", "refused", "name the StormService"),
        ("lws-vllm-multinode-16gpu.yaml", "LeaderWorkerSet", "alone", "", "refused", "name the LeaderWorkerSet"),
        ("ray-service-llm-serve.yaml", "RayService", "alone", "", "told", "nobody here knows"),
    ],
)
def test_a_child_of_a_real_parent_is_refused_or_told_with_the_way_out(
    artefacts: Path, file: str, kind: str, child: str, mode: str, verdict: str, words: str
) -> None:
    parent = next(each for each in documents(artefacts / "workloads" / file) if each["kind"] == kind)
    plain = deployment()
    objects = {
        "hpa": [below(parent, plain, mode), below(parent, hpa(), mode)],
        "scaled": [below(parent, plain, mode), below(parent, scaled_object(), mode)],
        "alone": [below(parent, plain, mode)],
    }[child]
    target = seen(*objects)
    if verdict == "nothing":
        assert claims(target) == ()
        return
    claim = only(target)
    assert claim.refused is (verdict == "refused")
    assert claim.by.startswith(f"{kind} ")
    assert words in str(claim)
    assert (refusing(target) is not None) is claim.refused


def test_kserve_with_class_external_leaves_an_autoscaler_of_ones_own_to_be_moved(artefacts: Path) -> None:
    parent = documents(artefacts / "workloads" / KSERVE)[0]
    target = seen(below(parent, deployment(), "external"), scaled_object())
    assert claims(target) == ()
    assert written(target) == "the bounds of ScaledObject llama"


def test_a_pod_autoscaler_refuses_what_it_points_at_though_it_owns_nothing(artefacts: Path) -> None:
    (real,) = documents(artefacts / "workloads" / "aibrix-podautoscaler-kpa.yaml")
    real["metadata"] |= {"namespace": "serving", "uid": "u", "resourceVersion": "1"}
    real["spec"]["scaleTargetRef"]["name"] = "llama"
    claim = only(seen(deployment(), real))
    assert (claim.refused, claim.by) == (True, "PodAutoscaler podautoscaler-example-kpa")
    assert only(seen(deployment(), scaled_object(), real)).refused  # also where an autoscaler is what we would write
    made = below(real, hpa(name="made"))
    assert only(seen(deployment(), made)).why.startswith("HorizontalPodAutoscaler made belongs to PodAutoscaler")
    other = pod_autoscaler({"scaleTargetRef": {"kind": "Deployment", "name": "llama", "namespace": "search"}})
    assert claims(seen(deployment(), other)) == ()


def test_a_pod_autoscaler_that_goes_away_gives_the_target_back() -> None:
    state = a_state(a_policy(a_model("llama")), read(deployment()), found := read(pod_autoscaler()))

    assert refusing(state.peek(1.8e9).models[0].targets[0]) is not None
    feed(state, gone(found))
    assert refusing(state.peek(1.8e9).models[0].targets[0]) is None


class TestTwoAutoscalers:
    def test_a_bare_hpa_beside_kedas_is_refused_with_both_names(self) -> None:
        made = hpa(name="keda-hpa-llama", ownerReferences=[_by_keda("llama")])
        target = seen(deployment(), scaled_object(), made, hpa(name="mine"))
        claim = only(target)
        assert claim.refused
        assert claim.why.startswith("ScaledObject llama and HorizontalPodAutoscaler mine scale Deployment llama")
        assert claims(seen(deployment(), scaled_object(), made)) == ()

    def test_two_scaled_objects_and_two_hpas_are_refused_with_both_names(self) -> None:
        two = seen(deployment(), scaled_object(), scaled_object(name="other"))
        assert only(two).why.startswith("ScaledObject llama and ScaledObject other scale")
        bare = seen(deployment(), hpa(), hpa(name="other"))
        assert only(bare).why.startswith("HorizontalPodAutoscaler llama and HorizontalPodAutoscaler other scale")
        assert only(bare).way_out == "delete all but one of them"

    def test_an_hpa_of_another_name_that_keda_made_for_the_same_scaled_object_is_no_rival(self) -> None:
        renamed = hpa(name="keda-hpa-before", ownerReferences=[_by_keda("llama")])
        assert claims(seen(deployment(), scaled_object(), renamed)) == ()

    def test_an_hpa_that_keda_made_for_a_scaled_object_that_is_not_seen_is_kedas_all_the_same(self) -> None:
        left = hpa(name="keda-hpa-gone", ownerReferences=[_by_keda("gone")])
        assert "belongs to ScaledObject gone" in only(seen(deployment(), left)).why
        assert "HorizontalPodAutoscaler keda-hpa-gone" in only(seen(deployment(), scaled_object(), left)).why


def test_beside_a_paused_scaled_object_the_replicas_are_written_and_the_owner_of_the_target_counts() -> None:
    parent = {"apiVersion": "apps.nvidia.com/v1alpha1", "kind": "NIMService", "metadata": {"name": "n"}}
    paused = scaled_object(annotations={"autoscaling.keda.sh/paused": "true"})
    target = seen(below(parent, deployment()), paused)
    assert written(target) == "the replicas of Deployment llama"
    assert only(target).by == "NIMService n"
    assert claims(seen(below(parent, deployment()), scaled_object())) == ()


def _by_keda(name: str) -> dict[str, Any]:
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": name, "uid": "u", "controller": True}


def test_every_real_scaled_object_alone_and_beside_another_gives_a_result_and_no_exception(artefacts: Path) -> None:
    looked_at = 0
    for file in sorted((artefacts / "scaledobjects").glob("*.yaml")):
        for real in (each for each in documents(file) if each.get("kind") == "ScaledObject"):
            name = str(real["metadata"].get("name", "unnamed"))
            real["metadata"] = {"name": name, "namespace": "serving", "uid": "u", "resourceVersion": "1"}
            real["spec"]["scaleTargetRef"] = {"kind": "Deployment", "name": "llama"}
            looked_at += 1
            alone = seen(deployment(), real)
            assert refusing(alone) is None
            assert written(alone) == f"the bounds of ScaledObject {name}"
            claim = refusing(seen(deployment(), real, scaled_object(name="another")))
            assert claim is not None
            assert f"ScaledObject {name}" in claim.why
            assert "ScaledObject another" in claim.why
    assert looked_at >= 10


def test_a_real_idle_replica_count_is_told_before_keda_follows_it(artefacts: Path) -> None:
    (real,) = documents(artefacts / "scaledobjects" / "keda-e2e-idle-replicas.yaml")
    real["metadata"] |= {"namespace": "serving", "uid": "u", "resourceVersion": "1"}
    real["spec"]["scaleTargetRef"]["name"] = "llama"
    claim = only(seen(deployment(), real))
    assert not claim.refused
    assert claim.why.startswith(
        "KEDA takes llama to the idleReplicaCount 0 of ScaledObject scaled-object-name while no"
    )
    asleep = deployment({"replicas": 0}, {"replicas": 0, "updatedReplicas": 0})
    assert claims(seen(asleep, real)) == ()  # then `unreachable` says so, with what wakes it


class TestAppliers:
    """Field managers and marks as the tools write them; composed, since only a running controller writes them."""

    def meta(self, *entries: dict[str, object], **marks: object) -> Managed:
        obj = {"name": "b", "managedFields": entries} | marks
        return msgspec.json.decode(msgspec.json.encode(obj), type=Managed)

    def test_each_number_that_a_known_tool_owns_is_named_with_what_it_belongs_to_there(self) -> None:
        found = self.meta(
            entry("argocd-controller", "minReplicaCount", "maxReplicaCount"),
            entry("rebalancer", "maxReplicaCount"),
            entry("keda-operator", "minReplicaCount"),
            annotations={"argocd.argoproj.io/tracking-id": "serving:keda.sh/ScaledObject:serving/b"},
            labels={"app.kubernetes.io/instance": "every-chart-sets-this"},
        )
        told = applied(found, "keda_minimum", "keda_maximum")
        assert told == (Applied("argocd-controller", ("maxReplicaCount", "minReplicaCount"), "serving"),)

    @pytest.mark.parametrize(
        ("manager", "marks", "by"),
        [
            ("kustomize-controller", {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, "apps"),
            ("helm-controller", {"labels": {"helm.toolkit.fluxcd.io/name": "chat"}}, "chat"),
            ("helm", {"annotations": {"meta.helm.sh/release-name": "chat"}}, "chat"),
            ("argocd-application-controller", {"labels": {"argocd.argoproj.io/instance": "apps"}}, "apps"),
            ("helm", {}, ""),
        ],
    )
    def test_flux_and_helm_are_known_by_their_managers_and_marks(
        self, manager: str, marks: dict[str, Any], by: str
    ) -> None:
        assert applied(self.meta(entry(manager, "replicas"), **marks), "replicas") == (
            Applied(manager, ("replicas",), by),
        )

    @pytest.mark.parametrize("manager", ["kubectl", "kubectl-client-side-apply", "manager", "kube-controller-manager"])
    def test_a_tracker_that_does_not_own_the_number_and_anybody_else_is_not_told(self, manager: str) -> None:
        marks = {"annotations": {"argocd.argoproj.io/tracking-id": "serving:apps/Deployment:serving/b"}}
        assert applied(self.meta(entry(manager, "replicas"), **marks), "replicas") == ()

    def test_it_is_told_and_refuses_nothing_and_has_the_exact_paths(self) -> None:
        fields = entry("argocd-controller", "minReplicaCount", "maxReplicaCount")
        claim = only(seen(deployment(), scaled_object(managedFields=[fields])))
        assert not claim.refused
        assert "kind ScaledObject and jsonPointers /spec/maxReplicaCount and /spec/minReplicaCount" in claim.way_out

    def test_of_an_autoscaled_target_the_bounds_count_and_not_the_replicas_that_nobody_of_us_writes(self) -> None:
        helm = deployment() | {"metadata": deployment()["metadata"] | {"managedFields": [entry("helm", "replicas")]}}
        assert only(seen(helm)).by == "Helm"
        assert claims(seen(helm, scaled_object())) == ()


@given(
    st.lists(
        st.builds(
            OwnerView,
            st.sampled_from([*(row.group for row in PARENTS), "example.com"]),
            st.sampled_from([*(row.kind for row in PARENTS), "Other"]),
            st.just("p"),
            st.sampled_from(["", "external", "hpa", "none"]),
            of_kind=st.sampled_from(["Deployment", "ScaledObject", "HorizontalPodAutoscaler", "LeaderWorkerSet"]),
            of_name=st.just("b"),
        ),
        max_size=3,
    ).map(tuple),
    st.lists(
        st.sampled_from(APPLIERS).map(
            lambda row: AppliedView(row.manager, ("replicas",), of_kind="Deployment", of_name="b")
        ),
        max_size=2,
    ).map(tuple),
    st.sampled_from([None, an_autoscaler(), an_autoscaler(paused=True), an_autoscaler(beside=("ScaledObject c",))]),
)
def test_every_claim_has_a_sentence_and_a_way_out_and_refusals_come_first(
    owners: tuple[OwnerView, ...], tools: tuple[AppliedView, ...], autoscaler: AutoscalerView | None
) -> None:
    target = a_target("b", 1, owners=owners, applied=tools, autoscaler=autoscaler)
    found = claims(target)
    assert [claim.refused for claim in found] == sorted((claim.refused for claim in found), reverse=True)
    for claim in found:
        assert claim.why
        assert claim.way_out
        assert "{" not in str(claim)
    assert (refusing(target) is not None) == any(claim.refused for claim in found)


def test_the_table_names_each_parent_once_and_every_tool_by_a_manager_of_its_own() -> None:
    assert len({(row.group, row.kind) for row in PARENTS}) == len(PARENTS)
    assert {verdict for row in PARENTS for verdict in (row.bounds, row.replicas)} <= {REVERTS, MAY, LEAVES}
    for row in APPLIERS:
        assert applier_of(row.manager) is row


def test_who_controls_an_object_is_its_controller_and_no_other_owner() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "no", "uid": "u"},
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "name": "a",
            "uid": "u",
            "controller": True,
        },
    ]
    more = {"ownerReferences": owners, "annotations": {CLASS: "external"}}
    found = [read(each | {"metadata": each["metadata"] | more}) for each in (deployment(), hpa(), scaled_object())]
    assert all(isinstance(each, Workload | Hpa | ScaledObject) for each in found)
    expected = ControllerRef("serving.kserve.io", "InferenceService", "a", "external")
    assert [each.controller for each in found if isinstance(each, Workload | Hpa | ScaledObject)] == [expected] * 3


def test_a_pod_autoscaler_points_into_its_own_namespace_unless_it_says_otherwise() -> None:
    found = read(pod_autoscaler())
    assert isinstance(found, PodAutoscaler)
    assert found.target == WorkloadRef("serving", "Deployment", "llama")
