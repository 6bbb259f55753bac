"""For each trap objects that are in it, and objects that are not."""

from typing import NamedTuple

from rebalancer.domain.policy import Policy
from tests.builders import a_model, a_policy, a_pool, an_elastic_pool
from tests.survey.manifests import (
    Manifest,
    a_budget,
    a_deployment,
    a_gpu_node,
    a_manifest,
    a_node_pool,
    a_pod_monitor,
    a_quota,
    a_rule,
    a_running_pod,
    a_scaled_object,
    a_trigger,
    an_exporter,
    an_hpa,
)

POLICY = a_policy(
    a_model("b", min_replicas=2, max_replicas=4, pools=("a100", "spot"), load_seconds=460.0),
    pools=(a_pool(), an_elastic_pool()),
)
TWO_GPUS = {"resources": {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "1"}}}
ON_SPOT = {"nodeSelector": {"karpenter.sh/capacity-type": "spot"}}
NEVER = {"karpenter.sh/do-not-disrupt": "true"}


def static(name: str) -> Manifest:
    """A NodePool of two nodes, whatever pods there are."""
    pool = a_node_pool()
    return pool | {"metadata": pool["metadata"] | {"name": name}, "spec": pool["spec"] | {"replicas": 2}}


def an_overlay(**spec: object) -> Manifest:
    """A NodeOverlay of all nodes of a type."""
    requirements = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]}]
    return a_manifest("karpenter.sh/v1alpha1", "NodeOverlay", "p5", {"requirements": requirements, **spec})


FOLLOWED = a_policy(a_model("b", min_replicas=2, max_replicas=8, actuation="metric"), pools=(a_pool(),))
OUR_TRIGGER: Manifest = {
    "type": "metrics-api",
    "metadata": {
        "url": "http://rebalancer.rebalancer.svc:8080/v1/models/b/desired/a100",
        "valueLocation": "replicas",
        "targetValue": "1",
        "aggregateFromKubeServiceEndpoints": "true",
        "aggregationType": "max",
    },
}
AT_ONCE = {
    "scaleUp": {"tolerance": "0"},
    "scaleDown": {"tolerance": "0", "stabilizationWindowSeconds": 0},
}
FOLLOWS: Manifest = {
    "minReplicaCount": 2,
    "fallback": {"failureThreshold": 3, "replicas": 2, "behavior": "currentReplicasIfHigher"},
    "advanced": {"horizontalPodAutoscalerConfig": {"behavior": AT_ONCE}},
}


class Fixture(NamedTuple):
    """Objects that are in a trap, others that are not, and what is known beside them."""

    bad: list[Manifest]
    good: list[Manifest]
    policy: Policy | None = None
    series: dict[str, frozenset[tuple[str, str]]] | None = None


def slept(seconds: int) -> Manifest:
    return {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", f"curl localhost/drain; sleep {seconds}"]}}}}


def an_early_claim(version: str, **spec: object) -> Manifest:
    return a_manifest(f"resource.k8s.io/{version}", "ResourceClaim", "gpu", spec)


def an_affinity(*values: str) -> Manifest:
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeSelector": {}, "affinity": {"nodeAffinity": required}}


FIXTURES = {
    "average-value": Fixture(
        [a_scaled_object(a_trigger(query="avg(DCGM_FI_DEV_GPU_UTIL)", threshold="70"))],
        [
            a_scaled_object(),
            a_scaled_object({**a_trigger(query="avg(DCGM_FI_DEV_GPU_UTIL)"), "metricType": "Value"}),
            a_scaled_object(a_trigger(query="avg(x)"), advanced={"scalingModifiers": {"formula": "x * 2"}}),
        ],
    ),
    "bare-series": Fixture(
        [a_scaled_object(a_trigger(query='vllm:num_requests_waiting{model="b"}'))],
        [
            a_scaled_object(a_trigger(query="vllm:num_requests_waiting"), maxReplicaCount=1),
            a_scaled_object(a_trigger(query='sum(vllm:num_requests_waiting{model="b"})')),
        ],
    ),
    "vanished-is-zero": Fixture(
        [a_scaled_object({"type": "prometheus", "metadata": {"query": "sum(x)", "threshold": "4"}})],
        [a_scaled_object()],
    ),
    "dead-field": Fixture(
        [a_scaled_object(a_trigger(metricName="gpu_utilization"))],
        [a_scaled_object({"type": "mysql", "metadata": {"metricName": "queue"}})],
    ),
    "refused-field": Fixture(
        [a_scaled_object({"type": "cpu", "metadata": {"type": "Utilization", "value": "60"}})],
        [a_scaled_object({"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}})],
    ),
    "dead-activation": Fixture(
        [a_scaled_object(a_trigger(activationThreshold="50"))],
        [
            a_scaled_object(a_trigger(activationThreshold="0"), minReplicaCount=0),
            a_scaled_object(a_trigger(activationThreshold="0"), idleReplicaCount=0),
        ],
    ),
    "late-activation": Fixture(
        [a_scaled_object(a_trigger(activationThreshold="50"), minReplicaCount=0)],
        [
            a_scaled_object(a_trigger(activationThreshold="50")),
            a_scaled_object(a_trigger(activationThreshold="1"), minReplicaCount=0),
        ],
    ),
    "metric-not-followed": Fixture(
        [
            a_deployment(),
            a_scaled_object({**OUR_TRIGGER, "metricType": "Value"}, **FOLLOWS),
        ],
        [a_deployment(), a_scaled_object(OUR_TRIGGER, **FOLLOWS)],
        policy=FOLLOWED,
    ),
    "metric-followed-late": Fixture(
        [a_deployment(), a_scaled_object(OUR_TRIGGER, fallback=FOLLOWS["fallback"], minReplicaCount=2)],
        [a_deployment(), a_scaled_object(OUR_TRIGGER, **FOLLOWS)],
        policy=FOLLOWED,
    ),
    "dead-timing": Fixture(
        [a_scaled_object(cooldownPeriod=60)],
        [
            a_scaled_object(cooldownPeriod=60, minReplicaCount=0),
            a_scaled_object({**a_trigger(), "useCachedMetrics": True}, pollingInterval=30),
        ],
    ),
    "unsaid-minimum": Fixture(
        [a_scaled_object(minReplicaCount=None)],
        [a_scaled_object(minReplicaCount=0)],
    ),
    "idle-not-below": Fixture(
        [a_scaled_object(idleReplicaCount=1)],
        [a_scaled_object(idleReplicaCount=0)],
    ),
    "pinning-fallback": Fixture(
        [a_scaled_object(fallback={"failureThreshold": 3, "replicas": 3})],
        [
            a_scaled_object(fallback={"failureThreshold": 3, "replicas": 3, "behavior": "currentReplicasIfHigher"}),
            a_scaled_object(fallback={"failureThreshold": 3, "replicas": 8}),
        ],
    ),
    "fallback-of-resources": Fixture(
        [
            a_scaled_object(
                {"type": "cpu", "metadata": {"value": "60"}}, fallback={"failureThreshold": 3, "replicas": 8}
            )
        ],
        [
            a_scaled_object({"type": "cpu", "metadata": {"value": "60"}}),
            a_scaled_object(fallback={"failureThreshold": 3, "replicas": 8}),
        ],
    ),
    "paused": Fixture(
        [
            a_scaled_object(annotations={"autoscaling.keda.sh/paused": "yes"}),
            a_scaled_object(
                annotations={"autoscaling.keda.sh/paused-replicas": "0", "autoscaling.keda.sh/paused": "false"}
            ),
        ],
        [a_scaled_object(annotations={"autoscaling.keda.sh/paused": "false"})],
    ),
    "two-autoscalers": Fixture(
        [a_scaled_object(), an_hpa("of-b")],
        [
            a_scaled_object(),
            an_hpa("keda-hpa-b", ownerReferences=[{"kind": "ScaledObject", "name": "b"}]),
            an_hpa("of-c", target="c"),
        ],
    ),
    "parent": Fixture(
        [
            a_manifest("serving.kserve.io/v1alpha2", "LLMInferenceService", "c", {"replicas": 1}),
            a_manifest("serving.kserve.io/v1alpha2", "LLMInferenceService", "d", {"prefill": {"replicas": 1}}),
            a_manifest("serving.kserve.io/v1alpha2", "LLMInferenceService", "e", {"scaling": {}}),
            a_manifest("ray.io/v1", "RayService", "f"),
            a_manifest("serving.kserve.io/v1beta1", "InferenceService", "b", {}),
        ],
        [
            a_manifest(
                "serving.kserve.io/v1beta1",
                "InferenceService",
                "b",
                {},
                annotations={"serving.kserve.io/autoscalerClass": "external"},
            ),
            a_manifest("serving.kserve.io/v1alpha2", "LLMInferenceService", "b", {"model": {}}),
        ],
    ),
    "gpu-limits": Fixture([a_deployment(container=TWO_GPUS)], [a_deployment()]),
    "claims": Fixture(
        [a_deployment(gpus=0, pod={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]})],
        [a_deployment(pod={"resourceClaims": [{"name": "net"}]}), a_deployment()],
    ),
    "policy-gpus": Fixture([a_deployment(gpus=4)], [a_deployment()], POLICY),
    "absent-target": Fixture([a_deployment("c")], [a_deployment(), a_deployment("b-spot")], POLICY),
    "unpinned": Fixture(
        [a_deployment(pod={"nodeSelector": {}})],
        [a_deployment(), a_deployment("c", pod=an_affinity("a100", "h100"))],
    ),
    "outside-pool": Fixture(
        [a_deployment(), a_gpu_node({"pool": "spot"}), a_running_pod("n1")],
        [a_deployment(), a_gpu_node({"pool": "a100"}), a_running_pod("n1"), a_running_pod("n2", "b-2")],
        POLICY,
    ),
    "never-disrupt-on-spot": Fixture(
        [a_deployment(annotations=NEVER, pod=ON_SPOT)],
        [a_deployment(annotations=NEVER), a_deployment(annotations={**NEVER, next(iter(NEVER)): "10m"}, pod=ON_SPOT)],
    ),
    "grace-within-prestop": Fixture(
        [
            a_deployment(container=slept(90), pod={"terminationGracePeriodSeconds": 60}),
            a_deployment(container=slept(30)),
        ],
        [a_deployment(container=slept(30), pod={"terminationGracePeriodSeconds": 60})],
    ),
    "grace-beyond-notice": Fixture(
        [a_deployment(pod={"terminationGracePeriodSeconds": 120} | ON_SPOT)],
        [
            a_deployment(pod={"terminationGracePeriodSeconds": 120}),
            a_deployment(pod={"terminationGracePeriodSeconds": 90} | ON_SPOT),
        ],
    ),
    "blocking-budget": Fixture(
        [a_deployment(), a_budget(maxUnavailable=0)],
        [a_deployment(), a_budget(minAvailable=1), a_budget("web", app="web", maxUnavailable=0)],
    ),
    "two-budgets": Fixture(
        [a_deployment(), a_budget("b"), a_budget("also")],
        [a_deployment(), a_deployment("c"), a_budget("b"), a_budget("c", app="c")],
    ),
    "quota": Fixture(
        [a_deployment(), a_scaled_object(), a_quota(7)],
        [a_deployment("c", gpus=0), a_deployment(), a_scaled_object(), a_quota(8)],
    ),
    "consolidation": Fixture(
        [
            a_node_pool(
                {"karpenter.k8s.aws/instance-family": [], "karpenter.k8s.aws/instance-gpu-name": ["l4"]},
                consolidateAfter="30s",
            ),
            a_node_pool(
                {"karpenter.k8s.aws/instance-family": []},
                {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
                consolidateAfter="30s",
            ),
            a_node_pool(consolidateAfter="30s"),
        ],
        [
            a_node_pool(consolidateAfter="5m"),
            a_node_pool(consolidateAfter="Never"),
            a_node_pool(consolidateAfter="30s", consolidationPolicy="WhenEmpty"),
            a_node_pool({"karpenter.k8s.aws/instance-family": ["m6i"]}, consolidateAfter="30s"),
        ],
    ),
    "mixed-shapes": Fixture(
        [
            a_node_pool({"karpenter.k8s.aws/instance-gpu-name": ["l4", "h100"]}),
            a_node_pool({"node.kubernetes.io/instance-type": ["p4d.24xlarge", "g5.xlarge"]}),
        ],
        [
            a_node_pool({"karpenter.k8s.aws/instance-family": ["g5", "m6i"]}),
            a_node_pool({"karpenter.k8s.aws/instance-family": ["g6", "gr6"]}),
        ],
    ),
    "mixed-capacity": Fixture(
        [a_node_pool({"karpenter.sh/capacity-type": ["spot", "on-demand"]})],
        [
            a_node_pool({"karpenter.sh/capacity-type": ["on-demand", "reserved"]}),
            a_node_pool({"karpenter.sh/capacity-type": ["spot"]}, {"terminationGracePeriod": "2m"}),
        ],
    ),
    "endless-drain": Fixture(
        [a_node_pool({"karpenter.sh/capacity-type": ["spot"]})],
        [a_node_pool({"karpenter.sh/capacity-type": ["spot"]}, {"terminationGracePeriod": "2m"}), a_node_pool()],
    ),
    "utc-budget": Fixture(
        [a_node_pool(budgets=[{"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}])],
        [
            a_node_pool(budgets=[{"nodes": "0", "schedule": "0 * * * *", "duration": "30m"}]),
            a_node_pool(budgets=[{"nodes": "20%"}, {"nodes": "0", "schedule": "@daily", "duration": "1h"}]),
        ],
    ),
    "shared-gpus": Fixture(
        [
            a_gpu_node({"nvidia.com/gpu.sharing-strategy": "mps"}),
            a_gpu_node({"nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.present": "false"}),
            a_gpu_node({"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}),
        ],
        [a_gpu_node({"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"})],
    ),
    "no-gpus-offered": Fixture(
        [a_gpu_node(allocatable=0)],
        [a_manifest("v1", "Node", "unknown"), a_gpu_node({"nvidia.com/gpu.present": "false"}, 0), a_gpu_node()],
    ),
    "static-capacity": Fixture(
        [static("spot")],
        [static("other"), a_node_pool()],
        POLICY,
    ),
    "overlay-capacity": Fixture(
        [an_overlay(capacity={"nvidia.com/gpu": "8"})],
        [an_overlay(price="1.5"), an_overlay(capacity={"smarter-devices/fuse": "1"})],
    ),
    "never-removed": Fixture(
        [a_deployment(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})],
        [a_deployment(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}), a_deployment()],
    ),
    "unfilled": Fixture(
        [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": {"model": None}}}],
        [a_deployment()],
    ),
    "removed-version": Fixture([an_early_claim("v1alpha2")], [an_early_claim("v1"), an_early_claim("v1beta1")]),
    "early-version": Fixture([an_early_claim("v1beta1")], [an_early_claim("v1")]),
    "removed-field": Fixture(
        [
            an_early_claim("v1", resourceClassName="gpu"),
            a_node_pool(consolidationPolicy="WhenUnderutilized"),
            a_node_pool(expireAfter="720h"),
            a_node_pool(template={"kubelet": {}}),
            a_deployment(pod={"resourceClaims": [{"name": "gpu", "source": {"resourceClaimTemplateName": "one"}}]}),
        ],
        [
            an_early_claim("v1", devices={}),
            a_node_pool(consolidationPolicy="Balanced"),
            a_deployment(pod={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}),
        ],
    ),
    "used-over-free": Fixture(
        [a_rule("DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE > 0.9")],
        [a_rule("DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.9")],
    ),
    "bandwidth-for-memory": Fixture(
        [a_rule("DCGM_FI_DEV_MEM_COPY_UTIL > 90")],
        [a_rule("DCGM_FI_DEV_MEM_COPY_UTIL > 90", alert="GpuBandwidth"), a_rule("DCGM_FI_DEV_FB_USED > 70000")],
    ),
    "seldom-scraped": Fixture(
        [a_deployment(), a_pod_monitor("2m")],
        [
            a_deployment(),
            a_deployment("web", gpus=0),
            a_pod_monitor("1m"),
            a_pod_monitor("2m", app="web"),
            a_pod_monitor("2m", namespaceSelector={"matchNames": ["other"]}),
        ],
    ),
    "series-of-no-pod": Fixture(
        [a_running_pod(name="b-2")],
        [a_running_pod(name="b-1"), a_running_pod(name="b-2")],
        series={"DCGM_FI_DEV_FB_USED": frozenset({("serving", "b-1"), ("monitoring", "dcgm-x1")})},
    ),
    "unread-exporter": Fixture(
        [a_running_pod()],
        [a_deployment()],
        series={"gpu_usage": frozenset()},
    ),
    "series-without-pods": Fixture(
        [an_exporter()],
        [
            an_exporter(image="node-exporter:1"),
            an_exporter({"DCGM_EXPORTER_KUBERNETES": "true"}),
            an_exporter(args=["--kubernetes"]),
        ],
    ),
}


TOGETHER = {"two-autoscalers", "two-budgets", "quota", "blocking-budget", "seldom-scraped"}
