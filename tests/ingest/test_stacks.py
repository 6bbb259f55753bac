"""Each stack that people install, from its own manifest to what `explain` says of its model: docs/stacks.md.

A manifest of `../shared/artefacts` counts as it is, but for its name. What only a running controller makes, and what
nobody ships as text, is composed from `tests.ingest.manifests` and marked so.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from rebalancer.api.text.explain import WIDTH, render_explain
from rebalancer.domain.cluster import ClusterObject
from rebalancer.domain.memory import Memory
from rebalancer.domain.target_kinds import TargetKind, kind_named
from rebalancer.ingest.kinds import NoScale
from rebalancer.ingest.objects import SHAPES, Unusable, WireShape, value_of
from rebalancer.planning import plan
from tests.builders import NOW, a_model, a_policy, a_pool
from tests.house.repository import ROOT
from tests.ingest.manifests import deployment, hpa, meta, pod_autoscaler, scaled_object
from tests.ingest.test_conformance import artefacts, definition, look
from tests.ingest.test_owners import below
from tests.state.objects import a_cluster_node, a_state, listed

PAGE = ROOT / "docs/stacks.md"
COMPOSED = "composed"
FIELDS = ("moved", "owner", "refused")
AUTOSCALERS = {"HorizontalPodAutoscaler": "hpas", "ScaledObject": "scaledobjects", "PodAutoscaler": "podautoscalers"}

Json = dict[str, Any]


class Named(NamedTuple):
    """What a policy of the stack names as its target, beside what else stands in the cluster."""

    target: Json
    source: str
    beside: tuple[Json, ...] = ()


def shipped(file: str, kind: str, number: int = 0) -> Json:
    """The object of a manifest, with the name and the metadata that the API server would show."""
    text = (artefacts() / "workloads" / file).read_text()
    found: Json = [each for each in yaml.safe_load_all(text) if each and each["kind"] == kind][number]
    return found | {"metadata": meta("llama")}


def below_shipped(file: str, kind: str, child: Json, mode: str = "") -> Json:
    return below(shipped(file, kind), child, mode)


def stateful_set() -> Json:
    return deployment() | {"kind": "StatefulSet"}


def adapter() -> Json:
    """Dynamo's scaling adapter of one component: replicas only, as its definition has it."""
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentScalingAdapter",
        "metadata": meta("llama"),
        "spec": {"replicas": 3, "dgdRef": {"name": "vllm-agg", "componentName": "VllmDecodeWorker"}},
    }


def rollout() -> Json:
    """An Argo Rollout with a template of its own, at rest as its controller leaves it."""
    made = deployment(status={"HPAReplicas": 3, "selector": "app=llama"})
    return made | {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}


def queued() -> Json:
    """A Deployment that Kueue's webhook has given a queue."""
    made = deployment()
    made["spec"]["template"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "llms"
    made["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    return made


ISVC, LLM = "kserve-isvc-huggingface-fluid.yaml", "kserve-llmisvc-single-node-qwen2-7b.yaml"
GRAPH, NIM, RAY = "dynamo-vllm-agg.yaml", "nim-operator-nimservice-autoscaling.yaml", "ray-service-llm-serve.yaml"


def stacks() -> Mapping[str, Named]:
    plain = deployment()
    external = below_shipped(ISVC, "InferenceService", plain, "external")
    kserve_hpa = below_shipped(ISVC, "InferenceService", hpa())
    return {
        "vLLM production-stack, plain": Named(plain, COMPOSED),
        "vLLM production-stack under KEDA": Named(plain, COMPOSED, (scaled_object(),)),
        "vLLM production-stack under an HPA": Named(plain, COMPOSED, (hpa(),)),
        "KServe InferenceService": Named(shipped(ISVC, "InferenceService"), ISVC),
        "its Deployment under KServe's HPA": Named(
            below_shipped(ISVC, "InferenceService", plain), COMPOSED, (kserve_hpa,)
        ),
        "its Deployment, class `external`": Named(external, COMPOSED),
        "KServe LLMInferenceService": Named(shipped(LLM, "LLMInferenceService"), LLM),
        "its Deployment": Named(below_shipped(LLM, "LLMInferenceService", plain), COMPOSED),
        "llm-d modelservice, decode": Named(
            shipped("llm-d-modelservice-rendered-pd.yaml", "Deployment"), "llm-d-modelservice-rendered-pd.yaml"
        ),
        "llm-d modelservice, GPUs by claims": Named(
            shipped("llm-d-modelservice-rendered-dra-claims.yaml", "Deployment"),
            "llm-d-modelservice-rendered-dra-claims.yaml",
        ),
        "llm-d modelservice, requester": Named(
            shipped("fma-inject-launcher-replicaset.yaml", "ReplicaSet"), "fma-inject-launcher-replicaset.yaml"
        ),
        "llm-d WVA's HPA": Named(plain, COMPOSED, (hpa(),)),
        "llm-d VariantAutoscaling": Named(
            shipped("llm-d-wva-variantautoscaling-with-cost.yaml", "VariantAutoscaling"),
            "llm-d-wva-variantautoscaling-with-cost.yaml",
        ),
        "Dynamo graph": Named(shipped(GRAPH, "DynamoGraphDeployment"), GRAPH),
        "Dynamo component's Deployment": Named(below_shipped(GRAPH, "DynamoGraphDeployment", plain), COMPOSED),
        "Dynamo scaling adapter": Named(adapter(), COMPOSED),
        "AIBrix Deployment": Named(
            shipped("aibrix-quickstart-deployment.yaml", "Deployment"), "aibrix-quickstart-deployment.yaml"
        ),
        "AIBrix Deployment under a PodAutoscaler": Named(plain, COMPOSED, (pod_autoscaler(),)),
        "AIBrix StormService": Named(
            shipped("aibrix-stormservice-vllm-1p1d.yaml", "StormService"), "aibrix-stormservice-vllm-1p1d.yaml"
        ),
        "RayService": Named(shipped(RAY, "RayService"), RAY),
        "LeaderWorkerSet with vLLM": Named(
            shipped("lws-vllm-multinode-16gpu.yaml", "LeaderWorkerSet"), "lws-vllm-multinode-16gpu.yaml"
        ),
        "Triton under its chart's HPA": Named(plain, COMPOSED, (hpa(),)),
        "NIM chart, StatefulSet": Named(stateful_set(), COMPOSED),
        "NIM chart, StatefulSet under its HPA": Named(
            stateful_set(),
            COMPOSED,
            (hpa({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "llama"}}),),
        ),
        "Argo Rollout": Named(rollout(), COMPOSED),
        "Deployment in a queue of Kueue": Named(queued(), COMPOSED),
        "NIM operator's Deployment": Named(below_shipped(NIM, "NIMService", plain), COMPOSED),
    }


def outcome(stack: Named) -> str:
    """What `config check` or `explain` says of a model whose policy names the stack's target, in one line."""
    kind = kind_named(stack.target["kind"], stack.target["apiVersion"])
    assert kind is not None
    try:
        shape = look(kind)
    except NoScale as error:
        return f"`config check --cluster` refuses it: {error}"
    assert shape is not None, f"no definition of {kind.kind} among the artefacts"
    return "; ".join(f"{name}: {' / '.join(said)}" for name, said in explained(stack, kind, shape).items())


def explained(stack: Named, kind: TargetKind, shape: WireShape) -> dict[str, list[str]]:
    """The lines of `explain` that say by what the model is moved, who else has a claim and what is refused."""
    target = value(stack.target, shape)
    resource = next(iter(getattr(target, "gpus", None) or ()), "nvidia.com/gpu")
    pods = getattr(target, "pods", 1)
    spec = {"pool": "a100", "kind": kind.kind, "name": "llama", "api_version": kind.api_version}
    each = max(1, getattr(target, "gpus", {}).get(resource, 0))
    model = a_model("llama", targets=(spec,), pods_per_replica=pods, gpus_per_replica=each * pods)
    nodes = tuple(a_cluster_node(f"n{n}", gpus=8, allocatable={resource: 8}) for n in range(4))
    beside = tuple(value(each, SHAPES[AUTOSCALERS[each["kind"]]]) for each in stack.beside)
    policy = a_policy(model, pools=(a_pool(gpus=32, resource=resource),))
    state = a_state(policy, *nodes, *beside)
    state.apply(listed(kind.source, target, at=NOW - 60.0), NOW - 60.0)
    snapshot = state.snapshot(NOW, 1)
    text = render_explain(plan(snapshot, policy, Memory()).plan, snapshot, "llama")
    found: dict[str, list[str]] = {}
    label = ""
    for line in text.splitlines()[1:]:
        label = line[:WIDTH].strip() or label
        if label in FIELDS:
            found.setdefault(label, []).append(line[WIDTH:].strip())
    return found


def value(obj: Json, shape: WireShape) -> ClusterObject:
    source = AUTOSCALERS.get(obj["kind"], "targets")
    read = value_of(source, msgspec.convert(obj, shape.wire), shape)
    assert not isinstance(read, Unusable), read
    return read


def rows() -> list[str]:
    return [f"| {name} | {stack.source} | {outcome(stack)} |" for name, stack in stacks().items()]


def test_the_page_tells_of_each_stack_what_explain_or_config_check_says() -> None:
    table = rows()
    print("\n".join(table))  # noqa: T201  the table: pytest -s shows it
    assert re.findall(r"^\| .*(?:yaml|composed) \|.*$", PAGE.read_text(), re.MULTILINE) == table


@pytest.mark.parametrize("kind", ["InferenceService", "RayService"])
def test_a_kind_without_a_scale_is_refused_with_what_to_name_instead(kind: str) -> None:
    assert definition(kind) is not None
    named = {"InferenceService": "name the Deployment that it makes", "RayService": "its pods count as GPUs of others"}
    found = kind_named(kind, {"InferenceService": "serving.kserve.io/v1beta1", "RayService": "ray.io/v1"}[kind])
    assert found is not None
    with pytest.raises(NoScale, match=named[kind]):
        look(found)
