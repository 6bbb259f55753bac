"""Quotas, queues and jobs as the API server sends them."""

from typing import Any

from tests.ingest.manifests import meta

KUEUE = "kueue.x-k8s.io/v1beta2"


def resource_quota(**spec: object) -> dict[str, Any]:
    """8 GPUs, 6 of them used."""
    hard = {"requests.nvidia.com/gpu": "8", "requests.cpu": "500m"}
    used = {"requests.nvidia.com/gpu": "6", "requests.cpu": "0"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta("gpus"),
        "spec": {"hard": hard} | spec,
        "status": {"hard": hard, "used": used},
    }


def limit_range() -> dict[str, Any]:
    """Containers have 4 GPUs at most and a core where they say nothing."""
    row = {"type": "Container", "max": {"nvidia.com/gpu": "4"}, "defaultRequest": {"cpu": "1"}, "default": {"cpu": "2"}}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta("small"), "spec": {"limits": [row]}}


def priority_class(**fields: object) -> dict[str, Any]:
    """A class that ends no other pods."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": meta("serving-high", ""),
        "value": 1000,
        "preemptionPolicy": "Never",
    } | fields


def job() -> dict[str, Any]:
    """A Job of a JobSet that ends two hours after it began."""
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "tune", "uid": "u", "controller": True}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta("tune-workers-0", ownerReferences=[owner]),
        "spec": {"activeDeadlineSeconds": 7200},
        "status": {"startTime": "2027-01-15T07:00:00Z", "active": 1},
    }


def local_queue() -> dict[str, Any]:
    """Leads to ClusterQueue research."""
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": meta("llms"), "spec": {"clusterQueue": "research"}}


def cluster_queue() -> dict[str, Any]:
    """4 GPUs of its own, 2 more from the cohort, 1 of its own lent at most; 3 are used."""
    gpu = {"name": "nvidia.com/gpu", "nominalQuota": "4", "borrowingLimit": "2", "lendingLimit": "1"}
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "a100", "resources": [gpu]}]}
    used = {"name": "a100", "resources": [{"name": "nvidia.com/gpu", "total": "3", "borrowed": "0"}]}
    return {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": meta("research", ""),
        "spec": {
            "cohortName": "all",
            "resourceGroups": [group],
            "stopPolicy": "None",
            "preemption": {"reclaimWithinCohort": "LowerPriority"},
        },
        "status": {"flavorsReservation": [used], "flavorsUsage": [used]},
    }


def cohort() -> dict[str, Any]:
    """Below another one, with nothing of its own."""
    return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": meta("all", ""), "spec": {"parentName": "company"}}


def resource_flavor() -> dict[str, Any]:
    """Nodes with a label."""
    return {
        "apiVersion": KUEUE,
        "kind": "ResourceFlavor",
        "metadata": meta("a100", ""),
        "spec": {"nodeLabels": {"pool": "a100"}},
    }


ALL = {
    "resourcequotas": resource_quota,
    "limitranges": limit_range,
    "priorityclasses": priority_class,
    "jobs": job,
    "localqueues": local_queue,
    "clusterqueues": cluster_queue,
    "cohorts": cohort,
    "resourceflavors": resource_flavor,
}
