"""The verbs of the Kubernetes API for one object; `KubeClient` has them, and what plays a cluster in memory."""

from typing import Any, Protocol

from rebalancer.kube.resources import Object, Ref, Resource


class ObjectPort(Protocol):
    """Read, create and patch; each raises KubeError, whose kinds `rebalancer.kube.errors` explains."""

    async def get(self, ref: Ref) -> Object:
        """Read one object."""
        ...

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Create an object."""
        ...

    async def patch(
        self,
        ref: Ref,
        body: Any,  # noqa: ANN401  # a JSON object
        *,
        resource_version: str | None = None,
    ) -> Object:
        """Merge into an object, if it is still at that revision."""
        ...
