"""Devices by claims: which of them each node has, who holds them, and what pods and templates ask for.

Looked at only where a pool of the policy names a DeviceClass.
"""

from collections.abc import Collection, Iterable

from rebalancer.domain.cluster import ClusterObject
from rebalancer.domain.devices import (
    ClaimTemplate,
    DeviceClass,
    OnNode,
    Place,
    ResourceClaim,
    ResourceSlice,
    current,
    on_node,
    places_of,
)
from rebalancer.state.objects import Change, Objects

Stock = tuple[str, str]  # driver, and pool of the driver


class Devices:
    """Slices and claims by what they have in common; `moved` is told of every change, before anything is asked."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._slices: dict[Stock, dict[str, ResourceSlice]] = {}
        self._of_node: dict[str, set[Stock]] = {}
        self._claims: dict[Stock, dict[tuple[str, str], ResourceClaim]] = {}
        self._of_pod: dict[str, dict[tuple[str, str], ResourceClaim]] = {}

    def moved(self, change: Change) -> frozenset[str]:
        """An object was added, changed or removed: the nodes whose devices may be others now, or be held by others."""
        return frozenset().union(*(self._moved(obj, there=obj is change[1]) for obj in change if obj))

    def _moved(self, obj: ClusterObject, *, there: bool) -> Collection[str]:
        match obj:
            case ResourceSlice():
                return self._slice(obj, there=there)
            case ResourceClaim():
                return self._claim(obj, there=there)
            case DeviceClass():
                return tuple(self._of_node)
        return ()

    def _slice(self, obj: ResourceSlice, *, there: bool) -> Collection[str]:
        stock, stocks = (obj.driver, obj.pool), self._of_node.setdefault(obj.node or "", set())
        slices = self._slices.setdefault(stock, {})
        if there:
            slices[obj.name] = obj
            stocks.add(stock)
        else:
            slices.pop(obj.name, None)
            if all(one.node != obj.node for one in slices.values()):
                stocks.discard(stock)
        return (obj.node or "",)

    def _claim(self, obj: ResourceClaim, *, there: bool) -> Collection[str]:
        key, stocks = (obj.namespace, obj.name), {place[:2] for place in obj.devices}
        buckets = [self._claims.setdefault(stock, {}) for stock in stocks]
        for bucket in (*buckets, *(self._of_pod.setdefault(pod, {}) for pod in obj.pods)):
            if there:
                bucket[key] = obj
            else:
                bucket.pop(key, None)
        for pod in {*obj.pods}:
            if not self._of_pod[pod]:
                del self._of_pod[pod]
        return {one.node or "" for stock in stocks for one in self._slices.get(stock, {}).values()}

    # --- what is asked

    def on_node(self, node: str, name: str, ours: Collection[str]) -> OnNode:
        """The devices of class `name` on a node; `ours`: UIDs of the pods of models there."""
        stocks = self._of_node.get(node, ())
        slices = [one for stock in stocks for one in self._slices[stock].values()]
        claims = (claim for stock in stocks for claim in self._claims.get(stock, {}).values())
        return on_node(self._objects.one(DeviceClass, name), name, slices, places_of(claims, ours))

    def of_pod(self, pod: str, name: str) -> int:
        """Devices of class `name` that the pod holds; of a claim of several pods the first by UID holds them."""
        kind = self._objects.one(DeviceClass, name)
        claims = [claim for claim in self._of_pod.get(pod, {}).values() if min(claim.pods) == pod]
        places = {place for claim in claims for place in claim.devices}
        return 0 if kind is None else sum(self._selects(kind, place) for place in places)

    def _selects(self, kind: DeviceClass, place: Place) -> bool:
        slices = current(self._slices.get(place[:2], {}).values())
        devices = (device for one in slices for device in one.devices if device.name == place[2])
        return any(kind.selects(place[0], device) for device in devices)

    def requested(self, namespace: str, templates: Iterable[str], name: str) -> int:
        """Devices of class `name` that each pod gets by these ResourceClaimTemplates."""
        of_pod = (self._objects.one(ClaimTemplate, each, namespace) for each in templates)
        return sum(template.asks.get(name, 0) for template in of_pod if template is not None)
