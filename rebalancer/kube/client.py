"""All verbs of the Kubernetes API: those of a reader, and the writing ones, which are never tried again."""

from collections.abc import Mapping
from typing import Any, Final

from rebalancer.kube.reader import KubeReader
from rebalancer.kube.resources import Call, Object, Ref, Resource

MERGE: Final = "application/merge-patch+json"
STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"


class KubeClient(KubeReader):
    """Made and closed as a `KubeReader`; a write ends within its deadline with a result or a KubeError."""

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Create an object in the namespace it names. Raises Conflict(already_exists) and Invalid."""
        path = resource.path(obj["metadata"].get("namespace"))
        return await self._caller.write(Call("create", resource, path), obj)

    async def create_token(self, account: Ref, audience: str, seconds: int) -> Object:
        """Ask for a token of a service account that only `audience` accepts; a TokenRequest with its status."""
        call = Call("create", account.resource, account.path, "token")
        spec = {"audiences": [audience], "expirationSeconds": seconds}
        return await self._caller.write(
            call, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        )

    async def review(self, resource: Resource, spec: Object) -> Object:
        """The status that the server gives a review (TokenReview, SubjectAccessReview) of `spec`; it keeps nothing."""
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
        answered = await self.create(resource, obj)
        status: Object = answered.get("status", {})
        return status

    async def patch(
        self,
        ref: Ref,
        body: Any,  # noqa: ANN401 - a JSON object, or a list for JSON_PATCH
        *,
        resource_version: str | None = None,
        content_type: str = MERGE,
        subresource: str = "",
    ) -> Object:
        """Patch an object and return it as stored.

        With `resource_version`, which goes into the body, raises Conflict if the object has moved on.
        """
        if resource_version is not None:
            body = _with_version(body, resource_version)
        call = Call("patch", ref.resource, ref.path, subresource, content_type=content_type)
        return await self._caller.write(call, body)

    async def patch_status(self, ref: Ref, body: Object, *, resource_version: str | None = None) -> Object:
        """Merge into the status of an object that has the status subresource."""
        return await self.patch(ref, body, resource_version=resource_version, subresource="status")

    async def put_scale(self, ref: Ref, replicas: int, resource_version: str) -> Object:
        """Set a target's replicas if it is still at that revision, else raise Conflict."""
        metadata = {"name": ref.name, "namespace": ref.namespace}
        scale = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": metadata,
            "spec": {"replicas": replicas},
        }
        call = Call("update", ref.resource, ref.path, "scale")
        return await self._caller.write(call, _with_version(scale, resource_version))

    async def delete(self, ref: Ref, *, uid: str | None = None, grace_seconds: int | None = None) -> None:
        """Delete an object; with `uid` only that very one, else raise Conflict. Raises NotFound."""
        call = Call("delete", ref.resource, ref.path)
        await self._caller.write(call, _delete_options(uid, grace_seconds))

    async def evict(self, pod: Ref, uid: str, *, grace_seconds: int | None = None) -> None:
        """Ask for a pod to go, as its disruption budgets allow.

        Raises Temporary when a budget says not now, NotFound when the pod is gone already, Invalid
        when its budgets contradict each other. When another pod has its name by now, the API server
        itself tries for some 10 s: that ends as Ambiguous at our deadline, rarely as Conflict.
        """
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": _delete_options(uid, grace_seconds),
        }
        await self._caller.write(Call("create", pod.resource, pod.path, "eviction"), eviction)


def _with_version(body: Object, resource_version: str) -> Object:
    metadata: Mapping[str, Any] = body.get("metadata", {})
    return {**body, "metadata": {**metadata, "resourceVersion": resource_version}}


def _delete_options(uid: str | None, grace_seconds: int | None) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid is not None:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options
