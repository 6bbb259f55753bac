"""Cluster Autoscaler's status ConfigMap as it is written on AKS since 1.30, composed field by field of its schema."""

from typing import Any

STATUS = """\
autoscalerStatus: Running
clusterWide:
  health:
    lastProbeTime: "2026-10-02T14:29:22Z"
    nodeCounts:
      registered:
        ready: 4
        total: 4
    status: Healthy
nodeGroups:
- health:
    cloudProviderTarget: 3
    lastProbeTime: "2026-10-02T14:29:22Z"
    maxSize: 5
    minSize: 1
    nodeCounts:
      registered:
        ready: 2
        total: 2
      unregistered: 1
    status: Healthy
  name: aks-gpu1-25795745-vmss
  scaleDown:
    candidates: 1
    status: CandidatesPresent
  scaleUp:
    backoffInfo: {}
    status: InProgress
- health:
    cloudProviderTarget: 1
    maxSize: 4
    nodeCounts:
      registered:
        total: 1
    status: Healthy
  name: https://cloud.example/zones/b/instanceGroups/gke-prod-gpu-1a2b3c4d-grp
  scaleUp:
    backoffInfo:
      errorCode: QUOTA_EXCEEDED
      errorMessage: "Quota 'NVIDIA_H100_GPUS' exceeded. Limit: 8.0 in region eu-west4."
    status: Backoff
- health:
    cloudProviderTarget: 2
    maxSize: 4
    status: Unhealthy
  name: eks-gpu-0cc8d4ef
time: 2026-10-02 14:29:22.999645779 +0000 UTC
"""


def status(text: str = STATUS) -> dict[str, Any]:
    """The ConfigMap with that status."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "cluster-autoscaler-status",
            "namespace": "kube-system",
            "uid": "uid-cas",
            "resourceVersion": "7",
        },
        "data": {"status": text},
    }
