"""The door that the service writes through: every write is shown to the oracle with what it will come to."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rebalancer.kube.effects import name_of
from rebalancer.kube.errors import KubeError
from rebalancer.kube.resources import Call, Object, Ref, Verb
from rebalancer.obs.effects import effect
from rebalancer.world import Deployment, World, WorldHpa, WorldPod, WorldScaledObject
from rebalancer.world.port import WorldPort
from rebalancer.world.replicas import victims
from tests.machine.oracle import Oracle

Bounds = tuple[int, int]


class JudgedPort(WorldPort):
    """A simulated API server whose every write is judged."""

    def __init__(self, world: World, oracle: Oracle, refuses: Callable[[Ref], None]) -> None:
        super().__init__(world, refuses)
        self._judged = world
        self._oracle = oracle
        self.answers: Counter[str] = Counter()

    async def get(self, ref: Ref) -> Object:
        with self._answered(""):
            return await super().get(ref)

    @contextmanager
    def _answered(self, well: str) -> Iterator[None]:
        """Count how the API server answers."""
        try:
            yield
        except KubeError:
            self.answers["error"] += 1
            raise
        self.answers[well] += 1

    async def put_scale(self, ref: Ref, replicas: int, resource_version: str) -> Object:
        owner = self._deployment(ref)
        before, active = owner.replicas, owner.active
        with _effect("update", ref, "scale"):
            with self._answered("stored"):
                stored = await super().put_scale(ref, replicas, resource_version)
            taken = [pod for pod in active if pod.deleted_at is not None]
            self._oracle.ours[owner.ref] = replicas, replicas
            self._tell(owner, before, replicas, taken, [])
        return stored

    async def patch(self, ref: Ref, body: Any, *, resource_version: str | None = None) -> Object:  # noqa: ANN401  # JSON
        thing = None if ref.resource.plural in {"pods", "nodes", "nodepools"} else self._thing(ref)
        before = None if thing is None else _bounds(thing)
        with _effect("patch", ref):
            with self._answered("stored"):
                stored = await super().patch(ref, body, resource_version=resource_version)
            if isinstance(thing, WorldHpa | WorldScaledObject) and before is not None:
                owner = self._judged.deployments.get(thing.target)
                if owner is not None and owner.replicas > 0:
                    self._clamps(owner, before, _bounds(thing))
        return stored

    def _clamps(self, owner: Deployment, before: Bounds, after: Bounds) -> None:
        """What the HPA will make of the new bounds at its next look."""
        self._oracle.ours[owner.ref] = after
        now, active = owner.replicas, owner.active
        then = min(max(now, after[0]), after[1])
        going = victims(active, max(0, len(active) - then))
        before_it = {pod.uid for pod in victims(active, max(0, len(active) - before[1]))}  # by bounds not followed yet
        self._oracle.ended(pod.uid for pod in going if pod.uid in before_it)
        taken = [pod for pod in going if pod.uid not in before_it]
        least_before, least = min(now, before[0]), min(then, after[0])
        given_away = [] if least >= least_before else victims(active, max(0, len(active) - least))
        given = min(max(now, before[0]), before[1])  # what it makes of the old ones: fewer than that is no raise
        most = after[1] if after[1] > before[1] else then  # a higher minimum below the same maximum asks for no more
        self._tell(owner, max(now, given), max(then, most), taken, given_away)

    def _tell(
        self, owner: Deployment, before: int, after: int, taken: list[WorldPod], given_away: list[WorldPod]
    ) -> None:
        if self._oracle.handing_back:
            self._oracle.asked.pop(owner.ref, None)
            self._oracle.ours.pop(owner.ref, None)
            return
        self._oracle.asked[owner.ref] = after
        self._oracle.wrote()
        if taken or given_away:
            self._oracle.taken(owner, taken, given_away)
        if after > before:
            self._oracle.raised(owner, before, after)


def _effect(verb: Verb, ref: Ref, subresource: str = "") -> AbstractContextManager[None]:
    """As `kube.calls` names it for the real API server."""
    return effect(name_of(Call(verb, ref.resource, ref.path, subresource)), ref.path)


def _bounds(thing: object) -> Bounds:
    assert isinstance(thing, WorldHpa | WorldScaledObject)
    low = thing.minimum if thing.minimum is not None else 0
    return low, 100 if thing.maximum is None else thing.maximum
