"""The steps that every driver shares: read one object, write it once, and read it again when the reply was lost."""

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple, Protocol, TypeVar

from msgspec import UNSET

from rebalancer.domain.snapshot import TargetView
from rebalancer.kube.resources import DEPLOYMENTS, Object, Resource, served_as

C_contra = TypeVar("C_contra", contravariant=True)
A = TypeVar("A")
B = TypeVar("B")


class Refused(Exception):
    """The gate's `check` declined a write. Nothing was written; the next cycle decides anew."""

    def __init__(self, check: str, why: str) -> None:
        super().__init__(f"{check}: {why}")
        self.check = check


class Ask(NamedTuple):
    """Replicas a target is asked for, and the lower bound of its autoscaler (the same where there is none)."""

    replicas: int
    minimum: int

    def __str__(self) -> str:
        return f"{self.replicas}" if self.minimum == self.replicas else f"{self.minimum}..{self.replicas}"


class Driver(Protocol[C_contra]):
    """Reads and writes one kind of object for changes of one type. All of them raise KubeError."""

    async def look(self, change: C_contra) -> Object:
        """The object as it is now. Raises Refused unless it is still what the plan saw."""
        ...

    async def write(self, change: C_contra, seen: Object) -> Ask | None:
        """Write once, only if the object is still as `seen`. What it now asks for, as stored, if it does."""
        ...

    async def shows(self, change: C_contra) -> bool:
        """Whether the object has our value: asked when the reply to a write was lost."""
        ...


def same_object(obj: Object, uid: str, what: str) -> None:
    """Raise Refused when an object of that name was deleted and made again since the plan saw it."""
    now_uid = obj["metadata"]["uid"]
    if now_uid != uid:
        raise Refused("recreated", f"{what} is another object now (uid {now_uid}, the plan saw {uid})")


def resource_of(target: TargetView) -> Resource:
    """Where the API serves the target."""
    return DEPLOYMENTS if target.shape is UNSET else served_as(target.shape.resource, target.kind)


async def together(first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
    """The results of two awaitables, awaited at the same time; of two errors the first one's is raised."""
    one, two = await asyncio.gather(first, second, return_exceptions=True)
    if isinstance(one, BaseException):
        raise one
    if isinstance(two, BaseException):
        raise two
    return one, two
