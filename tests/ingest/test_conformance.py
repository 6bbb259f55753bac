"""Every manifest of a serving stack that others ship: adopted as what, or refused with which sentence.

Judged as the service judges it: the kind by the policy's own check and by its real definition, the template by what is
read of it, against a policy that says one GPU per pod where nothing else is known. Parents that own what they made are
another check's to find; this one says what a person meets who names the object itself as a target.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from rebalancer.domain.arithmetic import gpus_differ
from rebalancer.domain.autoscalers import Hpa
from rebalancer.domain.cluster import Workload
from rebalancer.domain.target_kinds import TargetKind, kind_named
from rebalancer.domain.words import counted, gpus
from rebalancer.ingest.kinds import BUILT_IN, NoScale, scale_paths
from rebalancer.ingest.objects import SHAPES, WireShape, shape_of, value_of
from rebalancer.kube.resources import served_as
from rebalancer.state.views import target_view
from tests.beside import folder
from tests.builders import a_pool

BESIDE = frozenset({"Service", "ServiceAccount", "ConfigMap", "Secret", "PersistentVolumeClaim", "Pod", "ClusterRole",
                    "RoleBinding", "Role", "ClusterRoleBinding", "ResourceClaimTemplate"})  # fmt: skip
DEFINED = {
    "DynamoGraphDeployment": "dynamo-dynamographdeployment.json",
    "DynamoGraphDeploymentScalingAdapter": "dynamo-dgd-scaling-adapter.yaml",
    "InferenceService": "kserve-inferenceservice-minimal.yaml",
    "RayService": "kuberay-rayservice.json",
    "VariantAutoscaling": "llm-d-variantautoscaling-v1alpha1-deprecated.yaml",
    "LLMInferenceService": "kserve-llminferenceservice-full.json",
    "PodAutoscaler": "aibrix-podautoscaler.yaml",
    "StormService": "aibrix-stormservice.yaml",
    "LeaderWorkerSet": "leaderworkerset-v1.json",
    "Rollout": "argo-rollouts-rollout.json",
}
ONE_GPU = "Deployment: adopted by /scale, replicaSet goes, 1 GPU"
NO_GPU = "Deployment: refused: 1 GPU per pod in the policy, 0 in the template of "
NO_SCALE = "{0}: refused: {0} of {1} serves no /scale; {2}"
EXPECTED = {
    "aibrix-heterogeneous-l20-deployment.yaml": [ONE_GPU],
    "aibrix-podautoscaler-kpa.yaml": [
        NO_SCALE.format("PodAutoscaler", "autoscaling.aibrix.ai/v1alpha1", "name what it scales")
    ],
    "aibrix-quickstart-deployment.yaml": [ONE_GPU],
    "aibrix-stormservice-vllm-1p1d.yaml": ["StormService: only read, until its target says `victims`; by pods"],
    "dynamo-vllm-agg.yaml": [
        NO_SCALE.format(
            "DynamoGraphDeployment",
            "nvidia.com/v1beta1",
            "name the DynamoGraphDeploymentScalingAdapter of one of its components",
        )
    ],
    "fma-inject-launcher-replicaset.yaml": ["ReplicaSet: adopted by /scale, replicaSet goes, 1 GPU"],
    "gaie-vllm-gpu-deployment-three-replicas.yaml": [ONE_GPU],
    "kserve-isvc-huggingface-fluid.yaml": [
        NO_SCALE.format(
            "InferenceService", "serving.kserve.io/v1beta1", "name the Deployment that it makes, NAME-predictor"
        )
    ],
    "llm-d-modelservice-rendered-dra-claims.yaml": [NO_GPU + "dra-llm-d-modelservice-decode"],
    "llm-d-modelservice-rendered-gaudi.yaml": [ONE_GPU + " as habana.ai/gaudi"],
    "lws-hpa-horizontal-pod-autoscaler.yaml": [
        "HorizontalPodAutoscaler: its bounds are moved, of LeaderWorkerSet leaderworkerset-sample"
    ],
    "lws-vllm-multinode-16gpu.yaml": ["LeaderWorkerSet: adopted by /scale, ordinal goes, 2 pods of 8 GPUs"],
    "nim-operator-nimservice-autoscaling.yaml": [
        "NIMCache: refused: no kind NIMCache is known",
        "NIMService: refused: no kind NIMService is known",
    ],
    "ray-service-llm-serve.yaml": [
        NO_SCALE.format("RayService", "ray.io/v1", "its pods count as GPUs of others, and nothing of it is moved")
    ],
}


@cache
def artefacts() -> Path:
    return folder("artefacts", "REBALANCER_ARTEFACTS")


@cache
def definition(kind: str) -> Any:  # noqa: ANN401  JSON
    if kind not in DEFINED:
        return None
    text = (artefacts() / "crds" / DEFINED[kind]).read_text()
    return json.loads(text) if DEFINED[kind].endswith(".json") else yaml.safe_load(text)


def verdicts(text: str) -> Iterator[str]:
    """What becomes of each object of a manifest."""
    for obj in yaml.safe_load_all(text):
        if isinstance(obj, dict) and "kind" in obj and obj["kind"] not in BESIDE:
            yield f"{obj['kind']}: {verdict(obj)}"


def verdict(obj: dict[str, Any]) -> str:
    name, api_version = obj["kind"], obj["apiVersion"]
    if name == "HorizontalPodAutoscaler":
        hpa = SHAPES["hpas"].value(wire_of(SHAPES["hpas"], obj))
        assert isinstance(hpa, Hpa)
        return f"its bounds are moved, of {hpa.target.kind} {hpa.target.name}"
    kind = kind_named(name, api_version)
    assert kind is not None
    try:
        shape = look(kind)
    except NoScale as error:
        return f"refused: {error}"
    if shape is None:
        return f"refused: no kind {name} is known"
    workload = value_of("targets", wire_of(shape, obj), shape)
    assert isinstance(workload, Workload), workload
    if not kind.victims:
        return f"only read, until its target says `victims`; by {'its template' if workload.templated else 'pods'}"
    pool = a_pool(resource=next(iter(workload.gpus), "nvidia.com/gpu"))
    each = max(1, workload.gpus.get(pool.resource, 0))
    view = target_view(workload, pool, None, (), None, victims=kind.victims)
    differ = gpus_differ(view, each, workload.pods)
    if differ is not None:
        return f"refused: {differ}"
    size = gpus(each) if workload.pods == 1 else f"{counted(workload.pods, 'pod')} of {gpus(each)}"
    other = "" if pool.resource == "nvidia.com/gpu" else f" as {pool.resource}"
    return f"adopted by /scale, {kind.victims} goes, {size}{other}"


def look(kind: TargetKind) -> WireShape | None:
    for resource, shape in BUILT_IN.items():
        if (resource.api_version, resource.kind) == (kind.api_version, kind.kind):
            return shape
    found = definition(kind.kind)
    if found is None:
        return None
    names = found["spec"]["names"]
    return shape_of(served_as(f"{kind.api_version}/{names['plural']}", kind.kind), scale_paths(found, kind))


def wire_of(shape: WireShape, obj: dict[str, Any]) -> Any:  # noqa: ANN401  a wire shape
    return msgspec.convert(obj, shape.wire)


def test_every_manifest_has_a_verdict() -> None:
    table = {file.name: list(verdicts(file.read_text())) for file in sorted((artefacts() / "workloads").iterdir())}
    for name, found in table.items():
        for each in found or ["no workload: nothing of it is a target"]:
            print(f"| {name} | {each} |")  # noqa: T201  the table: pytest -s shows it
    assert {name: table[name] for name in EXPECTED} == EXPECTED
