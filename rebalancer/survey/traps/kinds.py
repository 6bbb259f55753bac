"""What is read of a live cluster for the traps."""

from typing import Final

from rebalancer.kube.resources import Resource
from rebalancer.survey import live

KINDS: Final = (
    *live.KINDS,
    Resource("policy", "v1", "poddisruptionbudgets", namespaced=True, kind="PodDisruptionBudget"),
    Resource("", "v1", "resourcequotas", namespaced=True, kind="ResourceQuota"),
    Resource("apps", "v1", "daemonsets", namespaced=True, kind="DaemonSet"),
    Resource("monitoring.coreos.com", "v1", "prometheusrules", namespaced=True, kind="PrometheusRule"),
    Resource("monitoring.coreos.com", "v1", "podmonitors", namespaced=True, kind="PodMonitor"),
    Resource("monitoring.coreos.com", "v1", "servicemonitors", namespaced=True, kind="ServiceMonitor"),
    Resource("", "v1", "services", namespaced=True, kind="Service"),
    Resource("serving.kserve.io", "v1beta1", "inferenceservices", namespaced=True, kind="InferenceService"),
    Resource("serving.kserve.io", "v1alpha2", "llminferenceservices", namespaced=True, kind="LLMInferenceService"),
    Resource("apps.nvidia.com", "v1alpha1", "nimservices", namespaced=True, kind="NIMService"),
    Resource("nvidia.com", "v1beta1", "dynamographdeployments", namespaced=True, kind="DynamoGraphDeployment"),
    Resource("ray.io", "v1", "rayservices", namespaced=True, kind="RayService"),
    Resource("ray.io", "v1", "rayclusters", namespaced=True, kind="RayCluster"),
    Resource("karpenter.sh", "v1alpha1", "nodeoverlays", namespaced=False, kind="NodeOverlay"),
    Resource("autoscaling.aibrix.ai", "v1alpha1", "podautoscalers", namespaced=True, kind="PodAutoscaler"),
)
"""The kinds that a trap can be in, in the versions of their newest CRDs; an older CRD reads as not installed."""
