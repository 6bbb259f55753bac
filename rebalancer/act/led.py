"""The API as a leader writes to it: only while it may act, for no longer than it may, and with its epoch on the object.

Everything the gate writes goes through here, so that no write can forget to ask.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from rebalancer.act.originals import ANNOTATION as ORIGINALS
from rebalancer.act.port import Port
from rebalancer.kube.errors import Ambiguous, KubeError
from rebalancer.kube.reader import Listing
from rebalancer.kube.resources import HPAS, NODEPOOLS, SCALEDOBJECTS, Object, Ref, Resource
from rebalancer.kube.wire import RAW, T
from rebalancer.leader.lease import EPOCH
from rebalancer.leader.right import Right

STAMPED: Final = frozenset({SCALEDOBJECTS, HPAS, NODEPOOLS})
"""What carries the epoch: workloads and pods get no annotation of ours that is not for Kubernetes."""

A = TypeVar("A")


class NotLeading(KubeError):
    """Another replica leads, or nobody does. Nothing was written."""


class Led:
    """Implements `port.Port`: reads pass, writes ask first and end by the instant at which the right to act ends."""

    def __init__(self, kube: Port, right: Right) -> None:
        self._kube = kube
        self._right = right

    async def get(self, ref: Ref) -> Object:
        """Read one object."""
        return await self._kube.get(ref)

    async def get_scale(self, ref: Ref) -> Object:
        """Read the Scale of a target."""
        return await self._kube.get_scale(ref)

    async def list(self, resource: Resource, namespace: str | None = None, *, into: type[T] = RAW) -> Listing[T]:
        """Read all objects of a namespace or the cluster."""
        return await self._kube.list(resource, namespace, into=into)

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Create an object. Raises NotLeading."""
        return await self._while_leading(lambda: self._kube.create(resource, obj))

    async def patch(
        self,
        ref: Ref,
        body: Any,  # noqa: ANN401  # a JSON object
        *,
        resource_version: str | None = None,
    ) -> Object:
        """Merge into an object, with the epoch where it carries one. Raises NotLeading."""
        if ref.resource in STAMPED and self._right.epoch is not None:
            body = stamped(body, self._right.epoch)
        return await self._while_leading(lambda: self._kube.patch(ref, body, resource_version=resource_version))

    async def patch_status(self, ref: Ref, body: Object, *, resource_version: str | None = None) -> Object:
        """Merge into the status of an object. Raises NotLeading."""
        return await self._while_leading(lambda: self._kube.patch_status(ref, body, resource_version=resource_version))

    async def put_scale(self, ref: Ref, replicas: int, resource_version: str) -> Object:
        """Set a target's replicas. Raises NotLeading."""
        return await self._while_leading(lambda: self._kube.put_scale(ref, replicas, resource_version))

    async def evict(self, pod: Ref, uid: str) -> None:
        """Ask for the eviction of a pod. Raises NotLeading."""
        await self._while_leading(lambda: self._kube.evict(pod, uid))

    async def delete(self, ref: Ref, *, uid: str | None = None, grace_seconds: int | None = None) -> None:
        """Delete an object. Raises NotLeading."""
        await self._while_leading(lambda: self._kube.delete(ref, uid=uid, grace_seconds=grace_seconds))

    async def _while_leading(self, write: Callable[[], Awaitable[A]]) -> A:
        why_not = self._right.why_not()
        if why_not is not None:
            raise NotLeading(why_not)
        return await _within(self._right.seconds_left(), write())


async def _within(seconds: float, call: Awaitable[A]) -> A:
    """What `call` gives, cut off after `seconds`: what was sent by then may have been applied."""
    if math.isinf(seconds):
        return await call
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError as error:
        raise Ambiguous("the right to act ended while the write was under way; it may have been applied") from error


def stamped(body: Object, epoch: int) -> Object:
    """A merge patch that writes the epoch, too; one that gives an object back takes it away by itself."""
    metadata = body.get("metadata", {})
    annotations = metadata.get("annotations", {})
    if annotations.get(ORIGINALS, "") is None:
        return body
    return {**body, "metadata": {**metadata, "annotations": {**annotations, EPOCH: str(epoch)}}}
