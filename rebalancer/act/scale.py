"""Writes the replicas of a target that no autoscaler owns, through its `/scale`; they take effect within a second."""

import msgspec

from rebalancer.act.driver import Ask, Refused, resource_of, same_object, together
from rebalancer.act.port import Port
from rebalancer.act.recent import Recent
from rebalancer.domain.plan import Change
from rebalancer.domain.snapshot import TargetView
from rebalancer.kube.resources import HPAS, Object, Ref
from rebalancer.obs.clock import Clock

HPA_AGE_SECONDS = 1.0


class _ScaleTarget(msgspec.Struct):
    kind: str
    name: str


class _HpaSpec(msgspec.Struct, rename="camel"):
    scale_target_ref: _ScaleTarget


class _Meta(msgspec.Struct):
    name: str


class _Hpa(msgspec.Struct):
    metadata: _Meta
    spec: _HpaSpec


class ScaleDriver:
    """Sets a target's replicas, if it is still at the revision just read."""

    def __init__(self, kube: Port, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._hpas: dict[str, Recent[list[_Hpa]]] = {}

    async def look(self, change: Change) -> Object:
        """The target's Scale. Raises Refused: recreated, moved, or foreign (an HPA scales it)."""
        target = change.target
        scale, hpas = await together(self._kube.get_scale(_ref(target)), self._hpas_in(target.namespace))
        same_object(scale, target.uid, _name(target))
        _without_hpa(target, hpas)
        seen, now = (
            _replicas(scale),
            target.replicas if target.unconfirmed_replicas is None else target.unconfirmed_replicas,
        )
        if seen != now:
            raise Refused("moved", f"{_name(target)} asks for {seen} replicas, the plan saw {now}")
        return scale

    async def write(self, change: Change, seen: Object) -> Ask:
        """Ask for `replicas_to`; what the server stored."""
        version = seen["metadata"]["resourceVersion"]
        stored = _replicas(await self._kube.put_scale(_ref(change.target), change.replicas_to, version))
        return Ask(stored, stored)

    async def shows(self, change: Change) -> bool:
        """Whether the target asks for `replicas_to`."""
        scale = await self._kube.get_scale(_ref(change.target))
        return scale["metadata"]["uid"] == change.target.uid and _replicas(scale) == change.replicas_to

    async def _hpas_in(self, namespace: str) -> list[_Hpa]:
        """Read live, for a cache may not know the newest HPA yet."""

        async def read() -> list[_Hpa]:
            return (await self._kube.list(HPAS, namespace, into=_Hpa)).items

        if namespace not in self._hpas:
            self._hpas[namespace] = Recent(read, self._clock, HPA_AGE_SECONDS)
        return await self._hpas[namespace].get()


def _without_hpa(target: TargetView, hpas: list[_Hpa]) -> None:
    """An HPA would take the write back within 15 s, and we it."""
    for hpa in hpas:
        owned = hpa.spec.scale_target_ref
        if (owned.kind, owned.name) == (target.kind, target.name):
            raise Refused("foreign", f"HPA {hpa.metadata.name} scales {_name(target)}; use its bounds")


def _ref(target: TargetView) -> Ref:
    return Ref(resource_of(target), target.namespace, target.name)


def _name(target: TargetView) -> str:
    return f"{target.kind.lower()}/{target.namespace}/{target.name}"


def _replicas(scale: Object) -> int:
    """The API server leaves zero out."""
    return int(scale.get("spec", {}).get("replicas", 0))
