"""The few verbs of the Kubernetes API that the gate's drivers use; `KubeClient` has them all.

A simulated cluster that answers them in memory is written to by the very same gate, checks and drivers.
"""

from typing import Protocol

from rebalancer.kube.object_port import ObjectPort
from rebalancer.kube.reader import Listing
from rebalancer.kube.resources import Object, Ref, Resource
from rebalancer.kube.wire import RAW, T


class Port(ObjectPort, Protocol):
    """The verbs beside those for one object; each raises KubeError, whose kinds `rebalancer.kube.errors` explains."""

    async def get_scale(self, ref: Ref) -> Object:
        """Read the Scale of a target."""
        ...

    async def list(self, resource: Resource, namespace: str | None = None, *, into: type[T] = RAW) -> Listing[T]:
        """Read all objects of a namespace or the cluster."""
        ...

    async def patch_status(self, ref: Ref, body: Object, *, resource_version: str | None = None) -> Object:
        """Merge into the status of an object."""
        ...

    async def put_scale(self, ref: Ref, replicas: int, resource_version: str) -> Object:
        """Set a target's replicas if it is still at that revision."""
        ...

    async def evict(self, pod: Ref, uid: str) -> None:
        """Ask for that very pod to go, as its disruption budgets allow."""
        ...

    async def delete(self, ref: Ref, *, uid: str | None = None, grace_seconds: int | None = None) -> None:
        """Delete that very object."""
        ...
