"""Finds the workload of a pod that is gone by the pod's name, which begins with the workload's. Pure."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from rebalancer.domain.policy import Model
from rebalancer.ingest.past.looks import PodThen

# What Kubernetes puts behind the name of each kind of workload; of others nobody can tell.
PODS: Final = {
    "Deployment": "-[a-z0-9]{1,10}-[a-z0-9]{5}",
    "Rollout": "-[a-z0-9]{1,10}-[a-z0-9]{5}",
    "ReplicaSet": "-[a-z0-9]{5}",
    "StatefulSet": "-[0-9]+",
    "LeaderWorkerSet": "-[0-9]+",
}
# Before the five characters at random a name has room for so many; what is longer is cut there, the hash of the
# ReplicaSet first.
MOST_BEFORE: Final = 58
HASHES: Final = {"Deployment": 10, "Rollout": 10, "ReplicaSet": 0}

PodNow = Callable[[str, str], tuple[str, str, float] | None]


def pod_names(kind: str, workload: str) -> str:
    """A regular expression of the names that pods of a workload may have."""
    whole = re.escape(workload) + PODS[kind]
    room = MOST_BEFORE - len(workload) - 1
    if kind not in HASHES or room > HASHES[kind]:
        return whole
    return f"{whole}|{re.escape(f'{workload}-'[:MOST_BEFORE])}[a-z0-9]{{{max(0, room) + 5}}}"


def pods_then(models: Iterable[Model], pod_now: PodNow) -> PodThen:
    """Finds a pod's model by its owner where it is still there (`pod_now`), else by its name."""
    by_namespace: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    for model in models:
        for target in model.targets:
            if target.kind in PODS:
                pattern = re.compile(pod_names(target.kind, target.name), re.ASCII)
                by_namespace.setdefault(model.namespace, []).append((pattern, model.id))

    def pod_then(namespace: str, name: str, at: float) -> tuple[str, str, float] | None:
        now = pod_now(namespace, name)
        if now is not None and now[2] <= at:
            return now
        for pattern, model in by_namespace.get(namespace, ()):
            if pattern.fullmatch(name):
                return model, f"{namespace}/{name}", 0.0
        return None

    return pod_then
