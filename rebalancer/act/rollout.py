"""Waits until the service's own pods run as its Deployment says: an old pod that still acts would take over again.

A pod that is told to end is in no count of the Deployment's status any more, and still finishes a write: it is looked
for by itself.
"""

from rebalancer.kube.client import KubeClient
from rebalancer.kube.resources import DEPLOYMENTS, PODS, Object, Ref
from rebalancer.obs.clock import Clock

LOOK_SECONDS = 1.0


class StillOld(Exception):
    """The Deployment did not come to its newest template in time; the text says how far it is."""


async def rolled_out(kube: KubeClient, deployment: Ref, clock: Clock, *, within_seconds: float) -> None:
    """Wait until the Deployment runs nothing but its newest template; at once where there is no such Deployment.

    Raises StillOld, and KubeErrors.
    """
    deadline = clock.monotonic() + within_seconds
    while True:
        deployed = await _find(kube, deployment)
        if deployed is None:
            return
        ending = await _ending(kube, deployed)
        if _is_new(deployed) and not ending:
            return
        if clock.monotonic() > deadline:
            raise StillOld(
                f"deployment/{deployment.namespace}/{deployment.name} after {within_seconds:g} s: "
                + ", ".join([_progress(deployed), *(f"{pod} is still ending" for pod in ending)])
            )
        await clock.sleep(LOOK_SECONDS)


async def _find(kube: KubeClient, deployment: Ref) -> Object | None:
    """By a list: the service's account may list Deployments, not get them."""
    items = (await kube.list(DEPLOYMENTS, deployment.namespace)).items
    return next((each for each in items if each["metadata"]["name"] == deployment.name), None)


async def _ending(kube: KubeClient, deployment: Object) -> list[str]:
    """Names of the Deployment's pods that were told to end and have not."""
    selector = deployment["spec"]["selector"]["matchLabels"]
    metadata = [pod["metadata"] for pod in (await kube.list(PODS, deployment["metadata"]["namespace"])).items]
    return [
        each["name"]
        for each in metadata
        if "deletionTimestamp" in each and selector.items() <= (each.get("labels") or {}).items()
    ]


def _progress(deployment: Object) -> str:
    status = deployment.get("status", {})
    return f"{status.get('updatedReplicas', 0)} of {status.get('replicas', 0)} pods are of its newest template"


def _is_new(deployment: Object) -> bool:
    spec, status = deployment.get("spec", {}), deployment.get("status", {})
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    wanted, updated = spec.get("replicas", 1), status.get("updatedReplicas", 0)
    return bool(seen and updated >= wanted and status.get("replicas", 0) == updated)
