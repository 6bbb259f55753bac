"""Sees what happens in the embedded API, as it happens: pods from birth to end, and the cluster at each scale write.

It knows the policy's names, floors and sizes, and nothing of what the service thinks.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalancer.domain.policy import Model, Policy
from rebalancer.obs.clock import Clock
from rebalancer.sandbox.api import Obj, Revision, Store
from rebalancer.sandbox.api.resources import DEPLOYMENTS, NODES, OVERRIDES, PODS

DISRUPTED = "karpenter.sh/disrupted"


@dataclass(frozen=True, slots=True)
class TargetPlace:
    """What a Deployment is: one model's target in one pool.

    model: id of the model.
    pool: name of the pool.
    gpus: GPUs of one of its pods.
    floor: replicas below which no write may take the model, counted over all its targets.
    """

    model: str
    pool: str
    gpus: int
    floor: int


@dataclass(slots=True)
class PodLife:
    """One pod's instants as the witness saw them, in UTC epoch seconds.

    name: name of the pod.
    place: the target that it belongs to.
    born_at: when it was first seen.
    node: name of its node, None until it got one.
    bound_at: when it got its node, None until then.
    ready_at: when it became Ready for the first time, None until then.
    deleted_at: when somebody asked it to end, None until then; the same as `gone_at` where nobody had asked.
    gone_at: when its object went, None until then.
    """

    name: str
    place: TargetPlace
    born_at: float
    node: str | None = None
    bound_at: float | None = None
    ready_at: float | None = None
    deleted_at: float | None = None
    gone_at: float | None = None

    def holds(self, at: float) -> bool:
        """Whether it had GPUs at that instant."""
        return self.bound_at is not None and self.bound_at <= at and (self.gone_at is None or self.gone_at > at)

    def ready(self, at: float) -> bool:
        """Whether it served at that instant."""
        up = self.ready_at is not None and self.ready_at <= at
        return up and (self.deleted_at is None or self.deleted_at > at)


@dataclass(frozen=True, slots=True)
class ScaleWrite:
    """One change of a Deployment's replicas.

    at: UTC epoch seconds at which it was seen.
    deployment: name of the Deployment.
    place: the target that the Deployment is.
    before: replicas that it asked for before.
    after: replicas that it asks for from then on.
    left: replicas that the model then asks for in all its targets, less its pods on nodes that are being disrupted;
        pods that somebody had asked to end already are not subtracted.
    fits: whether a raise found its GPUs free, node by node, after all that had been asked for earlier; True for a
        decrease.
    pool_asks: GPUs for which all targets of the pool then ask together.
    """

    at: float
    deployment: str
    place: TargetPlace
    before: int
    after: int
    left: int
    fits: bool
    pool_asks: int


@dataclass(slots=True)
class Facts:
    """All that was seen. `phases`: of overrides, (when, name, phase)."""

    pods: dict[str, PodLife] = field(default_factory=dict)
    writes: list[ScaleWrite] = field(default_factory=list)
    phases: list[tuple[float, str, str]] = field(default_factory=list)

    def of(self, model: str) -> list[PodLife]:
        """The pods of a model."""
        return [pod for pod in self.pods.values() if pod.place.model == model]

    def ready(self, model: str, at: float) -> int:
        """Replicas of the model that served at an instant."""
        return sum(1 for pod in self.of(model) if pod.ready(at))


class Witness:
    """Subscribes to a store; `facts` grows."""

    def __init__(self, store: Store, policy: Policy, clock: Clock) -> None:
        self.facts = Facts()
        self._store = store
        self._clock = clock
        self._places = {
            (model.namespace, target.name): _place(model, target.pool)
            for model in policy.models
            for target in model.targets
        }
        self._nodes_of = {pool.name: (pool.node_labels, pool.resource) for pool in policy.pools}
        for pod in store.list(PODS):
            self._pod(pod, pod["metadata"]["uid"])
        store.subscribe(self._see)

    def _see(self, change: Revision) -> None:
        uid = change.obj["metadata"].get("uid", "")
        if change.resource == PODS and change.kind == "DELETED":
            life = self.facts.pods.get(uid)
            if life is not None:
                life.gone_at = self._clock.now()
                life.deleted_at = life.deleted_at or life.gone_at
        elif change.resource == PODS:
            self._pod(change.obj, uid)
        elif change.resource == OVERRIDES:
            self._override(change.obj)
        elif change.resource == DEPLOYMENTS and change.previous is not None and change.kind == "MODIFIED":
            before, after = change.previous["spec"].get("replicas", 1), change.obj["spec"].get("replicas", 1)
            if before != after:
                self._write(change.obj, before, after)

    # --- pods

    def _pod(self, pod: Obj, uid: str) -> None:
        now = self._clock.now()
        place = self._places.get((pod["metadata"]["namespace"], pod["metadata"]["labels"]["app"]))
        if place is None:
            return
        life = self.facts.pods.setdefault(uid, PodLife(pod["metadata"]["name"], place, now))
        if pod["spec"].get("nodeName") and life.bound_at is None:
            life.node, life.bound_at = pod["spec"]["nodeName"], now
        if _is_ready(pod) and life.ready_at is None:
            life.ready_at = now
        if "deletionTimestamp" in pod["metadata"] and life.deleted_at is None:
            life.deleted_at = now

    def _override(self, override: Obj) -> None:
        name, phase = override["metadata"]["name"], override.get("status", {}).get("phase", "")
        last = next((seen for _, of, seen in reversed(self.facts.phases) if of == name), "")
        if phase != last:
            self.facts.phases.append((self._clock.now(), name, phase))

    # --- writes

    def _write(self, deployment: Obj, before: int, after: int) -> None:
        name = deployment["metadata"]["name"]
        place = self._places.get((deployment["metadata"]["namespace"], name))
        if place is None:
            return
        targets = [(each, there) for each in self._store.list(DEPLOYMENTS) if (there := self._place_of(each))]
        mine = [each for each, there in targets if there.model == place.model]
        in_pool = [(each, there) for each, there in targets if there.pool == place.pool]
        left = sum(each["spec"]["replicas"] for each in mine) - self._on_disrupted_nodes(mine)
        asks = sum(each["spec"]["replicas"] * there.gpus for each, there in in_pool)
        fits = after <= before or self._fits(place.pool, in_pool)
        self.facts.writes.append(
            ScaleWrite(self._clock.now(), name, place, before, after, left, fits=fits, pool_asks=asks)
        )

    def _place_of(self, deployment: Obj) -> TargetPlace | None:
        return self._places.get((deployment["metadata"]["namespace"], deployment["metadata"]["name"]))

    def _fits(self, pool: str, targets: Iterable[tuple[Obj, TargetPlace]]) -> bool:
        """Whether all that the pool's targets ask for now has a node: those without one are put where there is room."""
        free = self._free(pool)
        for deployment, place in targets:
            pods = self._pods_of(deployment)
            bound = sum(1 for pod in pods if pod["spec"].get("nodeName"))
            for _ in range(deployment["spec"]["replicas"] - bound):
                node = min((each for each in free if free[each] >= place.gpus), key=free.__getitem__, default=None)
                if node is None:
                    return False
                free[node] -= place.gpus
        return True

    def _free(self, pool: str) -> dict[str, int]:
        """GPUs per usable node that no pod holds, those on their way out included."""
        labels, resource = self._nodes_of[pool]
        free = {
            node["metadata"]["name"]: int(node["status"]["allocatable"].get(resource, 0))
            for node in self._store.list(NODES, labels=labels)
            if not _disrupted(node)
        }
        for pod in self._store.list(PODS):
            node = pod["spec"].get("nodeName")
            if node in free:
                free[node] -= int(pod["spec"]["containers"][0]["resources"]["requests"].get(resource, 0))
        return free

    def _pods_of(self, deployment: Obj) -> list[Obj]:
        """The Deployment's pods that nobody has asked to end."""
        metadata = deployment["metadata"]
        pods = self._store.list(PODS, metadata["namespace"], {"app": metadata["name"]})
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def _on_disrupted_nodes(self, deployments: Iterable[Obj]) -> int:
        disrupted = {node["metadata"]["name"] for node in self._store.list(NODES) if _disrupted(node)}
        return sum(1 for each in deployments for pod in self._pods_of(each) if pod["spec"].get("nodeName") in disrupted)


def _place(model: Model, pool: str) -> TargetPlace:
    return TargetPlace(model.id, pool, model.gpus_per_pod, model.min_replicas)


def _is_ready(pod: Obj) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _disrupted(node: Obj) -> bool:
    return any(taint["key"] == DISRUPTED for taint in node["spec"].get("taints", ()))
