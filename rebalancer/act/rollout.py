"""Waits until the service's own pods run as its Deployment says: an old pod that still acts would take over again.

Under the strategy Recreate no new pod is made before the last old one is gone, terminating ones included.
"""

from rebalancer.kube.client import KubeClient
from rebalancer.kube.resources import DEPLOYMENTS, Object, Ref
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
        if deployed is None or _is_new(deployed):
            return
        if clock.monotonic() > deadline:
            status = deployed.get("status", {})
            progress = (
                f"{status.get('updatedReplicas', 0)} of {status.get('replicas', 0)} pods are of its newest template"
            )
            raise StillOld(
                f"deployment/{deployment.namespace}/{deployment.name} after {within_seconds:g} s: {progress}"
            )
        await clock.sleep(LOOK_SECONDS)


async def _find(kube: KubeClient, deployment: Ref) -> Object | None:
    """By a list: the service's account may list Deployments, not get them."""
    items = (await kube.list(DEPLOYMENTS, deployment.namespace)).items
    return next((each for each in items if each["metadata"]["name"] == deployment.name), None)


def _is_new(deployment: Object) -> bool:
    spec, status = deployment.get("spec", {}), deployment.get("status", {})
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    wanted, updated = spec.get("replicas", 1), status.get("updatedReplicas", 0)
    return bool(seen and updated >= wanted and status.get("replicas", 0) == updated)
