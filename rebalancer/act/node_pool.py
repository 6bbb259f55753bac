"""Karpenter's NodePool: its limits and a hold on consolidation. Never its template, which would drift every node."""

from rebalancer.act.driver import Refused, same_object
from rebalancer.act.node_pool_parts import Parts, patch, whole
from rebalancer.act.port import Port
from rebalancer.domain.plan import NodePoolChange
from rebalancer.kube.resources import NODEPOOLS, Object, Ref


class NodePoolDriver:
    """Patches a NodePool, if it is still at the revision just read."""

    def __init__(self, kube: Port, installation: str = "") -> None:
        self._kube = kube
        self._installation = installation

    async def look(self, change: NodePoolChange) -> Object:
        """The NodePool. Raises Refused: installation, recreated, moved (its limit), under-use, originals, kind."""
        obj = await self._kube.get(_ref(change))
        same_object(obj, change.uid, f"nodepool/{change.name}")
        wanted = self._wanted(obj, change)
        if change.kind in {"limit", "restore-limit"}:
            limit = Parts.of(obj).limit(change.resource)
            if limit != change.limit_from:
                raise Refused("moved", f"nodepool/{change.name} has limit {limit}, the plan saw {change.limit_from}")
            _above_use(obj, change.resource, wanted.limit(change.resource))
        return obj

    async def write(self, change: NodePoolChange, seen: Object) -> None:
        """Patch what differs."""
        body = patch(seen, self._wanted(seen, change), self._installation)
        if body is not None:
            await self._kube.patch(_ref(change), body, resource_version=seen["metadata"]["resourceVersion"])

    async def shows(self, change: NodePoolChange) -> bool:
        """Whether the NodePool is as `change` wants it."""
        obj = await self._kube.get(_ref(change))
        given_back = change.kind in {"restore-limit", "end-hold"} and Parts.saved(obj, self._installation) is None
        return obj["metadata"]["uid"] == change.uid and (given_back or Parts.of(obj) == self._wanted(obj, change))

    def _wanted(self, obj: Object, change: NodePoolChange) -> Parts:
        return _wanted(Parts.of(obj), Parts.saved(obj, self._installation), change)


def _wanted(now: Parts, saved: Parts | None, change: NodePoolChange) -> Parts:
    """The parts after the change. Raises Refused when there is nothing to restore from."""
    if change.kind == "limit":
        return now.with_limit(change.resource, None if change.limit_to is None else str(change.limit_to))
    if change.kind == "hold":
        return now.with_hold()
    if saved is None:
        raise Refused("originals", f"nodepool/{change.name} has nothing saved to restore")
    if change.kind == "restore-limit":
        return _restored(now, saved, change)
    if change.kind == "end-hold":
        return now.without_hold(saved)
    raise Refused("kind", f"{change.kind} is nothing that is done to a NodePool")


def _restored(now: Parts, saved: Parts, change: NodePoolChange) -> Parts:
    """With the saved limit; with `limit_to` where more than that is still in use, so that the rest comes later."""
    own = saved.limit(change.resource)
    if own is not None and change.limit_to is not None and change.limit_to > own:
        return now.with_limit(change.resource, str(change.limit_to))
    return now.with_limit_of(saved, change.resource)


def _above_use(obj: Object, resource: str, limit: int | None) -> None:
    """A limit under what runs ends no node, but stops the replacement of one."""
    used = whole((obj.get("status", {}).get("resources") or {}).get(resource, 0), f"the use of {resource}")
    if limit is not None and limit < used:
        raise Refused("under-use", f"limit {limit} is under the {used} of {resource} in use")


def _ref(change: NodePoolChange) -> Ref:
    return Ref(NODEPOOLS, None, change.name)
