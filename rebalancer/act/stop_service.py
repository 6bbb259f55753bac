"""Stops the service itself before its writes are handed back: one that still runs would write again.

Its Deployment goes to 0 replicas, and its pods are waited for: a terminating one still finishes a write.
"""

from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import Conflict, NotFound
from rebalancer.kube.resources import PODS, Object, Ref
from rebalancer.obs.clock import Clock

LOOK_SECONDS = 1.0
TRIES = 5  # a Deployment that its controller writes meanwhile is read again


class StillThere(Exception):
    """The service did not end in time; the text names its pods."""


async def stop_service(kube: KubeClient, deployment: Ref, clock: Clock, *, within_seconds: float) -> bool:
    """Scale the Deployment to 0 and wait until none of its pods is left; False when there is no such Deployment.

    Raises StillThere, and KubeErrors.
    """
    try:
        scale = await _to_nothing(kube, deployment)
    except NotFound:
        return False
    selector = dict(pair.split("=", 1) for pair in scale["status"]["selector"].split(","))
    deadline = clock.monotonic() + within_seconds
    while pods := await _pods(kube, deployment.namespace, selector):
        if clock.monotonic() > deadline:
            raise StillThere(f"still there after {within_seconds:g} s: {', '.join(pods)}")
        await clock.sleep(LOOK_SECONDS)
    return True


async def _to_nothing(kube: KubeClient, deployment: Ref, tries: int = TRIES) -> Object:
    """The Scale, asked for no replicas."""
    scale = await kube.get_scale(deployment)
    if scale.get("spec", {}).get("replicas", 0) == 0:
        return scale
    try:
        return await kube.put_scale(deployment, 0, scale["metadata"]["resourceVersion"])
    except Conflict:
        if tries == 1:
            raise
    return await _to_nothing(kube, deployment, tries - 1)


async def _pods(kube: KubeClient, namespace: str | None, selector: dict[str, str]) -> list[str]:
    """Names of the pods that carry these labels."""
    pods = (await kube.list(PODS, namespace)).items
    return [
        pod["metadata"]["name"] for pod in pods if selector.items() <= (pod["metadata"].get("labels") or {}).items()
    ]
