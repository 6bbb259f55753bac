"""The writes of a drain: a node is cordoned under our name and uncordoned again, a pod is evicted or deleted.

What the API server answers to an eviction: 201, it goes; 429, its disruption budget says not now: tried again after
5 s, then 10 s, or what Retry-After says; 500 that names two budgets: nobody can help that but people, so it is told and
tried again an hour later; another 5xx, it may have gone: the next plan tries again where it has not; 404, it is gone;
409, another pod has its name, so it is gone too. What admission denies rests as any write does (`rests`).
"""

from typing import Final, NamedTuple

from rebalancer.act.driver import Refused
from rebalancer.act.port import Port
from rebalancer.domain.drain import cordons, in_last_seconds, is_drained
from rebalancer.domain.plan import DrainChange
from rebalancer.domain.policy import Pool
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.snapshot import Snapshot
from rebalancer.kube.errors import Conflict, Invalid, KubeError, Temporary
from rebalancer.kube.resources import NODES, PODS, Object, Ref
from rebalancer.obs.clock import Clock

CORDONED_BY: Final = "rebalancer.io/cordoned-by"
FIRST_REST_SECONDS: Final = 5.0
LONGEST_REST_SECONDS: Final = 10.0
FORGOTTEN_SECONDS: Final = 3600.0


class DrainDriver:
    """Writes to nodes and to pods on them. Nodes are read before; pods are named by their UID."""

    def __init__(self, kube: Port, installation: str) -> None:
        self._kube = kube
        self._name = installation

    async def look(self, change: DrainChange) -> Object:
        """The node; of a pod nothing is read. Raises Refused when somebody else has cordoned the node."""
        if change.pod:
            return {}
        obj = await self._kube.get(Ref(NODES, None, change.node))
        by = (obj["metadata"].get("annotations") or {}).get(CORDONED_BY)
        if change.kind == "uncordon" and by != self._name:
            raise Refused("installation", f"node/{change.node} is not cordoned by us but by {by or 'somebody else'}")
        if change.kind == "cordon" and obj.get("spec", {}).get("unschedulable"):
            raise Refused("moved", f"node/{change.node} is cordoned already")
        return obj

    async def write(self, change: DrainChange, seen: Object) -> None:
        """Write once. Raises Refused where another pod has the name."""
        if not change.pod:
            cordon = change.kind == "cordon"
            body = {
                "metadata": {"annotations": {CORDONED_BY: self._name if cordon else None}},
                "spec": {"unschedulable": True if cordon else None},
            }
            version = seen["metadata"]["resourceVersion"]
            await self._kube.patch(Ref(NODES, None, change.node), body, resource_version=version)
            return
        pod = Ref(PODS, change.namespace, change.pod)
        try:
            if change.kind == "delete":
                await self._kube.delete(pod, uid=change.uid, grace_seconds=change.grace_seconds)
            else:
                await self._kube.evict(pod, change.uid)
        except Conflict as error:
            raise Refused("moved", f"pod/{change.pod} is another one now: {error}") from error

    async def shows(self, change: DrainChange) -> bool:
        """Whether the node is as we want it; of a pod the watch will tell."""
        if change.pod:
            return False
        obj = await self._kube.get(Ref(NODES, None, change.node))
        return bool(obj.get("spec", {}).get("unschedulable")) == (change.kind == "cordon")


def check_drain(change: DrainChange, facts: Snapshot, pools: dict[str, Pool]) -> None:
    """Raise Refused unless the node is still ours to drain, and the pod still runs there.

    Checks: moved, deadline, floor (as many Ready elsewhere as its end waits for).
    """
    notice = next((each for each in facts.notices if each.node == change.node), None)
    pool, node = pools.get(change.pool), _node(change, facts)
    if pool is None or node is None:
        raise Refused("moved", f"node/{change.node} is in no pool of the policy any more")
    if change.kind == "uncordon":
        if (notice is not None and cordons(notice, facts.at)) or not node.cordoned:
            raise Refused("moved", f"node/{change.node} is under notice again, or uncordoned already")
        return
    if notice is None or not is_drained(pool, node, notice, facts.at):
        raise Refused("moved", f"node/{change.node} is not to be drained by us any more")
    if change.kind == "cordon":
        return
    if change.kind == "delete" and not in_last_seconds(notice, facts.at):
        raise Refused("deadline", f"node/{change.node} does not go within the last seconds: budgets are respected")
    targets = [target for model in facts.models if model.id == change.model for target in model.targets]
    running = [pod for target in targets for pod in target.pods if pod.phase != "terminating"]
    if not any(pod.uid == change.uid and change.node in pod.nodes for pod in running):
        raise Refused("moved", f"pod/{change.pod} does not run on node/{change.node} any more")
    doomed = {each.node for each in facts.notices if each.counts(facts.at)}
    ready = sum(pod.phase == "ready" and not pod.on(doomed) for pod in running)
    if ready < change.floor:
        raise Refused("floor", f"{ready} of {change.model} would be Ready elsewhere, and its floor is {change.floor}")


def _node(change: DrainChange, facts: Snapshot) -> NodeView | None:
    nodes = (node for pool in facts.pools if pool.name == change.pool for node in pool.nodes)
    return next((node for node in nodes if node.name == change.node), None)


class _Declined(NamedTuple):
    times: int
    until_monotonic: float
    forgotten_monotonic: float
    why: str


class EvictionRests:
    """By UID of a pod: how often its eviction was declined, and until when it is not asked for again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._declined: dict[str, _Declined] = {}

    def ask(self, change: DrainChange) -> None:
        """Raise Refused while the pod's eviction rests."""
        rest, now = self._declined.get(change.uid), self._clock.monotonic()
        if change.kind != "evict" or rest is None or now >= rest.until_monotonic:
            return
        raise Refused("disruption-budget", f"{rest.why}; it is tried again in {rest.until_monotonic - now:.0f} s")

    def declined(self, change: DrainChange, error: KubeError) -> bool:
        """Whether its budgets declined it: not now (Temporary), or because they contradict each other."""
        contradicting = isinstance(error, Invalid) and error.two_budgets
        if change.kind != "evict" or not (isinstance(error, Temporary) or contradicting):
            return False
        now = self._clock.monotonic()
        self._declined = {uid: one for uid, one in self._declined.items() if one.forgotten_monotonic > now}
        before = self._declined.get(change.uid)
        times = 1 if before is None else before.times + 1
        rest = FORGOTTEN_SECONDS
        if isinstance(error, Temporary):
            rest = min(LONGEST_REST_SECONDS, FIRST_REST_SECONDS * times)
            rest = max(rest, error.retry_after_seconds or 0.0)
        self._declined[change.uid] = _Declined(times, now + rest, now + FORGOTTEN_SECONDS, str(error))
        return True
