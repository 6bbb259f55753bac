"""What goes wrong in a cluster, in the time that Kubernetes takes to notice and to act on it.

A machine that dies stays Ready for 40 s, its pods are evicted 300 s after that, and hang in Terminating until somebody
answers for them. A Node object that is gone leaves its pods behind for 40-60 s. Devices drop from what a node shows
while their pods run on. Nothing of it happens unless somebody asks.
"""

from collections.abc import Callable
from functools import partial

from rebalancer.domain.cluster import Taint
from rebalancer.world.agenda import Agenda
from rebalancer.world.cluster import Cluster
from rebalancer.world.things import Deployment, WorldNode, WorldPod

NOT_READY_AFTER_SECONDS = 40.0  # node-monitor-grace-period
EVICTED_AFTER_SECONDS = 300.0  # the NoExecute taint's default tolerationSeconds
QUARANTINE_SECONDS = 40.0  # pods of a missing node are kept so long, in case it comes back
COLLECTED_EVERY_SECONDS = 20.0  # PodGC's period
CORDONED = Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")

Deed = Callable[[], None]


class Faults:
    """Takes things away, gives them back."""

    def __init__(self, agenda: Agenda, cluster: Cluster) -> None:
        self._agenda = agenda
        self._cluster = cluster
        self._orphaned: dict[
            str, tuple[WorldNode, float]
        ] = {}  # uid of a missing node -> when its pods may be collected

    def collect_late(self) -> None:
        """From now on pods outlive their Node object until PodGC finds them."""
        self._cluster.pod_gc = True
        self._agenda.after(COLLECTED_EVERY_SECONDS, self._collect)

    # --- nodes

    def silence(self, node: WorldNode) -> None:
        """The machine dies, or its kubelet no longer answers and nobody reaches its pods."""
        node.alive = False
        since = node.uid, self._agenda.now
        self._agenda.after(NOT_READY_AFTER_SECONDS, partial(self._unready, node, since))
        self._cluster.revision += 1  # nothing to see in the API yet, but who serves has changed
        node.taken = since

    def _unready(self, node: WorldNode, since: tuple[str, float]) -> None:
        if node.taken != since or not node.listed:
            return
        self._show(node, ready=False)
        for pod in tuple(node.pods.values()):
            if pod.ready_at is not None:
                self._cluster.show(pod)
        self._agenda.after(EVICTED_AFTER_SECONDS, partial(self._evict, node, since))

    def _evict(self, node: WorldNode, since: tuple[str, float]) -> None:
        if node.taken == since and node.listed:
            for pod in tuple(node.pods.values()):
                self._cluster.delete(pod)

    def heal(self, node: WorldNode) -> None:
        """The machine answers again: what was deleted meanwhile ends, what ran is Ready, what loaded loads anew."""
        if node.alive or not node.listed:
            return
        node.alive, node.taken = True, None
        self._cluster.revision += 1
        self._show(node, ready=True)
        for pod in tuple(node.pods.values()):
            self._recover(pod)

    def _recover(self, pod: WorldPod) -> None:
        if pod.deleted_at is not None:
            self._cluster.ended(pod)
        elif pod.loaded:
            self._cluster.show(pod)
        elif not pod.failed:
            self._cluster.load(pod)

    def _show(self, node: WorldNode, *, ready: bool) -> None:
        if node.ready != ready:
            node.ready, node.ready_changed_at = ready, self._agenda.now
            self._changed(node)

    def remove(self, node: WorldNode) -> None:
        """The Node object goes, and the machine with it; its pods are left."""
        if node.listed:
            self._cluster.remove_node(node)

    def register_again(self, node: WorldNode) -> None:
        """The kubelet of a removed node comes back under the same name: pods that nobody has collected run on."""
        if node.listed or node.name in self._cluster.nodes:
            return
        node.listed = node.alive = True
        node.taken = None  # else what fell silent before it went would still end this one
        node.ready, node.ready_changed_at = True, self._agenda.now
        node.uid = self._cluster.uid("node")
        self._cluster.add_node(node)
        for pod in tuple(node.pods.values()):
            self._recover(pod)

    def _collect(self) -> None:
        """What PodGC does every 20 s: pods of a node that is missing for 40 s are deleted by force."""
        self._agenda.after(COLLECTED_EVERY_SECONDS, self._collect)
        for node in {id(pod.node): pod.node for pod in self._cluster.pods.values() if pod.node is not None}.values():
            if not node.listed and node.uid not in self._orphaned:
                self._orphaned[node.uid] = node, self._agenda.now + QUARANTINE_SECONDS
        for uid, (node, due) in tuple(self._orphaned.items()):
            if self._agenda.now >= due:
                del self._orphaned[uid]
                if not node.listed:
                    self._cluster.collect(node)

    # --- devices

    def show_devices(self, node: WorldNode, gpus: int | None) -> None:
        """The device plugin reports so many devices, None = all; what runs on the others runs on."""
        if node.shown != gpus:
            node.shown = gpus
            self._changed(node)

    def lose_devices(self, node: WorldNode, gpus: int) -> None:
        """The machine has so many devices less, under whatever holds them."""
        node.gpus = max(0, node.gpus - gpus)
        self._changed(node)

    def cordon(self, node: WorldNode, *, off: bool = False, by: str = "") -> None:
        """Nobody new lands there, as whoever handles a termination sees to; or it is over. `by`: who did."""
        node.cordoned_by = "" if off else by
        others = tuple(taint for taint in node.taints if taint != CORDONED)
        node.taints = others if off else (*others, CORDONED)
        self._changed(node)

    def _changed(self, node: WorldNode) -> None:
        if node.listed:
            self._cluster.touch(node)

    # --- pods

    def crash(self, pod: WorldPod) -> None:
        """Ends the pod's containers, which start again: it is not Ready for the time of a load."""
        if pod.ready:
            pod.loaded = False
            self._cluster.show(pod)
            self._cluster.load(pod)

    def fail(self, pod: WorldPod) -> None:
        """End the pod in phase Failed; its ReplicaSet makes another."""
        self._cluster.fail(pod)

    def stick(self, pod: WorldPod) -> None:
        """Take the pod out of service: it never becomes Ready again by itself."""
        pod.stuck, pod.loaded = True, False
        self._cluster.show(pod)

    def free(self, pod: WorldPod) -> None:
        """Whatever held it up is over: a load goes on, an end comes to its end."""
        pod.stuck, pod.clings = False, False
        if pod.node is not None:
            self._recover(pod)

    # --- rollouts

    def roll(self, deployment: Deployment, gpus: int | None = None, *, broken: bool = False) -> None:
        """A new template, of pods that hold so many devices (None: as before). Of a broken one none becomes Ready."""
        deployment.generation += 1
        deployment.gpus = deployment.gpus if gpus is None else gpus
        deployment.broken = broken
        self._cluster.disturb(deployment)
