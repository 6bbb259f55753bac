"""Holds the embedded API and the simulated cluster together: what clients ask for goes in, what came of it out."""

import asyncio
from collections import deque
from collections.abc import Callable

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.sandbox.api import Obj, Revision, Store
from rebalancer.sandbox.api.resources import DEPLOYMENTS, NODECLAIMS, NODEPOOLS, NODES, PODS
from rebalancer.sandbox.manifests import manifest, namespace
from rebalancer.world import World
from rebalancer.world.faults import CORDONED

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class Puppet:
    """`obey`, let the world go on, `show`. `woken` is set when a client asked for something."""

    def __init__(self, world: World, store: Store) -> None:
        self.woken = asyncio.Event()
        self._world = world
        self._store = store
        self._orders: deque[Callable[[], None]] = deque()
        self._showing = False
        self._observed = dict.fromkeys(world.deployments, 1)  # generations obeyed and not yet shown
        for name in sorted({ref.namespace for ref in world.deployments}):
            store.put(namespace(name))
        self.show()
        store.subscribe(self._hear)

    # --- in

    def obey(self) -> None:
        """Carry out what clients have asked for since the last time, at the world's `now`."""
        while self._orders:
            self._orders.popleft()()

    def _hear(self, change: Revision) -> None:
        """Turn a client's change into an order; our own are no news."""
        order = None if self._showing else self._order(change)
        if order is not None:
            self._orders.append(order)
            self.woken.set()

    def _order(self, change: Revision) -> Callable[[], None] | None:  # noqa: PLR0911  # one per kind of object
        world, obj, metadata = self._world, change.obj, change.obj["metadata"]
        space, name = metadata.get("namespace", ""), metadata["name"]
        leaving = change.kind == "DELETED" or "deletionTimestamp" in metadata
        match change.resource:
            case resource if resource == DEPLOYMENTS:
                ref = WorkloadRef(space, "Deployment", name)
                replicas = 0 if leaving else int(obj["spec"].get("replicas", 1))
                generation = metadata["generation"]
                return (lambda: self._scale(ref, replicas, generation)) if ref in world.deployments else None
            case resource if resource == PODS and leaving:
                grace = metadata.get("deletionGracePeriodSeconds", 0)
                return lambda: world.delete_pod(space, name, grace)
            case resource if resource == PODS:
                return lambda: world.set_deletion_cost(space, name, _cost(obj))
            case resource if resource == NODES and name in world.nodes and not leaving:
                cordoned = bool(obj["spec"].get("unschedulable"))
                return lambda: self._cordon(name, cordoned=cordoned)
            case resource if resource == NODEPOOLS and name in world.node_pools:
                return lambda: world.set_limit(name, _limit(obj, world.node_pools[name].resource))
            case resource if resource == NODECLAIMS and name in world.node_claims and leaving:
                return lambda: world.drain(name) if name in world.node_claims else None
        return None

    def _scale(self, ref: WorkloadRef, replicas: int, generation: int) -> None:
        self._world.scale(ref, replicas)
        self._observed[ref] = generation

    def _cordon(self, name: str, *, cordoned: bool) -> None:
        """`kubectl cordon`, also at the head of a drain, and `uncordon`."""
        node = self._world.nodes.get(name)
        if node is not None and cordoned != (CORDONED in node.taints):
            self._world.faults.cordon(node, off=not cordoned)

    # --- out

    def show(self) -> None:
        """Bring the API up to date with the world."""
        self._showing = True
        try:
            for thing, gone in self._world.take_changes():
                self._show(thing, gone=gone)
            for ref, generation in self._observed.items():
                if self._store.get(DEPLOYMENTS, ref.name, ref.namespace) is not None:
                    seen = {"status": {"observedGeneration": generation}}  # `kubectl rollout status` waits for it
                    self._store.patch(DEPLOYMENTS, ref.name, seen, ref.namespace)
            self._observed.clear()
        finally:
            self._showing = False

    def _show(self, thing: object, *, gone: bool) -> None:
        wanted = manifest(thing)
        there = self._store.get(wanted.resource, wanted.name, wanted.namespace)
        if gone:
            self._store.remove(wanted.resource, wanted.name, wanted.namespace)
        elif there is None:
            self._store.put(wanted.whole)
        else:
            self._store.patch(wanted.resource, wanted.name, wanted.news, wanted.namespace)


def _cost(pod: Obj) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _limit(node_pool: Obj, resource: str) -> int | None:
    text = (node_pool["spec"].get("limits") or {}).get(resource)
    return None if text is None else int(text)
