"""The simulated cluster's API behind a link that may be cut: then every call fails, reads included."""

from typing import Any

from rebalancer.kube.errors import KubeError, Temporary
from rebalancer.kube.reader import Listing
from rebalancer.kube.resources import OVERRIDES, Object, Ref, Resource
from rebalancer.kube.wire import RAW, T
from rebalancer.world import World
from rebalancer.world.port import WorldPort


class CutPort(WorldPort):
    """`away`: nobody answers. `scaled`, `told`: each number and each override's status that was written, and when."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.away = False
        self.scaled: list[tuple[float, str, int, int]] = []
        self.told: list[tuple[float, str, Object]] = []
        self._of = world

    def reach(self) -> None:
        """Raises Temporary while the link is cut."""
        if self.away:
            raise Temporary("the API server does not answer: connection refused")

    async def get(self, ref: Ref) -> Object:
        self.reach()
        return await super().get(ref)

    async def get_scale(self, ref: Ref) -> Object:
        self.reach()
        return await super().get_scale(ref)

    async def list(self, resource: Resource, namespace: str | None = None, *, into: type[T] = RAW) -> Listing[T]:
        self.reach()
        return await super().list(resource, namespace, into=into)

    async def create(self, resource: Resource, obj: Object) -> Object:
        self.reach()
        return await super().create(resource, obj)

    async def put_scale(self, ref: Ref, replicas: int, resource_version: str) -> Object:
        self.reach()
        before = self._deployment(ref).replicas
        done = await super().put_scale(ref, replicas, resource_version)
        self.scaled.append((self._of.now, ref.name, before, replicas))
        return done

    async def patch(self, ref: Ref, body: Any, *, resource_version: str | None = None) -> Object:  # noqa: ANN401  # JSON
        self.reach()
        return await super().patch(ref, body, resource_version=resource_version)

    async def patch_status(self, ref: Ref, body: Object, *, resource_version: str | None = None) -> Object:
        self.reach()
        if ref.resource != OVERRIDES:
            raise KubeError(f"{ref.path} has no status here")
        self.told.append((self._of.now, ref.name, body["status"]))
        return body

    def phase(self, override: str, until: float) -> str | None:
        """What its object said at that instant; None: nothing."""
        told = [status["phase"] for at, name, status in self.told if name == override and at <= until]
        return told[-1] if told else None

    async def delete(self, ref: Ref, *, uid: str | None = None, grace_seconds: int | None = None) -> None:
        self.reach()
        await super().delete(ref, uid=uid, grace_seconds=grace_seconds)
