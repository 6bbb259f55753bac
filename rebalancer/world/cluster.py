"""Nodes, Deployments and pods, and what kubelets, the scheduler and the ReplicaSet controller do with them."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from uuid import NAMESPACE_OID, uuid5

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world.agenda import Agenda
from rebalancer.world.replicas import to_create, to_replace, victims
from rebalancer.world.scheduler import place
from rebalancer.world.slots import Slots
from rebalancer.world.things import Deployment, WorldNode, WorldPod

LOAD_JITTER = 0.1  # a load takes its time +- 10 %
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' own: no vowels, no words


class ThingChange(NamedTuple):
    """A thing was made or altered, or is gone."""

    thing: object
    gone: bool


class Cluster:
    """Everything happens at `agenda.now`. `changes` collects what to tell, the latest state of each thing once.

    `revision` counts the changes of all things, `revisions` says of each thing by its id when it changed last.
    `starts`: pods that got a node; `stops`: pods with a node that were deleted, or lost with it. `pod_gc`: whether pods
    outlive their Node object until somebody collects them (`world.faults`), or go with it. `slots`: GPUs
    on which engines sleep, None where none do. `uids_by_owner`: whether a pod's UID, by which ties are broken, depends
    on its Deployment alone and not on what else was made before it.
    """

    def __init__(
        self,
        agenda: Agenda,
        seed: int,
        load_jitter: float = LOAD_JITTER,
        slots: Slots | None = None,
        *,
        uids_by_owner: bool = False,
    ) -> None:
        self.slots = slots
        self.pod_gc = False
        self.nodes: dict[str, WorldNode] = {}
        self.deployments: dict[WorkloadRef, Deployment] = {}
        self.pods: dict[tuple[str, str], WorldPod] = {}
        self.pending: dict[str, WorldPod] = {}
        self.changes: dict[int, ThingChange] = {}
        self.revisions: dict[int, int] = {}
        self.starts = 0
        self.stops = 0
        self._unsettled: dict[WorkloadRef, Deployment] = {}
        self._agenda = agenda
        self._seed = seed
        self._load_jitter = load_jitter
        self._random = random.Random(seed)
        self._named = 0
        self._uids_by_owner = uids_by_owner
        self._born = Counter[str]()  # pods by their Deployment's UID
        self.revision = 0

    # --- names

    def uid(self, kind: str) -> str:
        """A new uid, the same in every run."""
        self._named += 1
        return str(uuid5(NAMESPACE_OID, f"{self._seed}/{kind}/{self._named}"))

    def _pod_uid(self, owner: Deployment) -> str:
        self._born[owner.uid] += 1
        if not self._uids_by_owner:
            return self.uid("pod")
        return str(uuid5(NAMESPACE_OID, f"{owner.uid}/{self._born[owner.uid]}"))

    def suffix(self) -> str:
        """Five letters as Kubernetes puts behind generated names."""
        return "".join(self._random.choices(SUFFIX_LETTERS, k=5))

    def touch(self, thing: object, *, gone: bool = False) -> None:
        """Note that `thing` is not what it was."""
        self.changes[id(thing)] = ThingChange(thing, gone)
        self.revision += 1
        self.revisions[id(thing)] = self.revision

    # --- nodes

    def add_node(self, node: WorldNode) -> None:
        """A node is there and Ready."""
        self.nodes[node.name] = node
        self.touch(node)
        for launcher in self.slots.add(node) if self.slots is not None else ():
            self.touch(launcher)

    def remove_node(self, node: WorldNode) -> None:
        """The machine is gone, and at once all that ran on it; the API may show it for longer."""
        self.nodes.pop(node.name, None)
        node.alive = node.listed = False
        self.touch(node, gone=True)
        if not self.pod_gc:
            self.collect(node)

    def collect(self, node: WorldNode) -> None:
        """End all pods of a node at once."""
        for pod in tuple(node.pods.values()):
            self.stops += pod.deleted_at is None
            self._gone(pod)

    # --- replicas

    def add_deployment(self, deployment: Deployment) -> None:
        """A Deployment is there; its pods come when things settle."""
        self.deployments[deployment.ref] = deployment
        self.disturb(deployment)

    def scale(self, ref: WorkloadRef, replicas: int, writer: str = "") -> None:
        """Ask for that many replicas, as the field manager `writer`. Raises KeyError."""
        deployment = self.deployments[ref]
        if deployment.replicas != replicas:
            deployment.replicas, deployment.writer = replicas, writer
            self.disturb(deployment)

    def recreate(self, old: Deployment, replicas: int) -> None:
        """The Deployment goes with its pods, another of its name comes."""
        self.touch(old, gone=True)
        for pod in old.active:
            self.delete(pod)
        self._unsettled.pop(old.ref, None)
        again = replace(old, uid=self.uid("deployment"), replicas=replicas, created_at=self._agenda.now, pods={})
        again.writer, again.generation, again.broken, again.proven = "", 0, False, 0
        self.add_deployment(again)

    def settle(self) -> None:
        """Let controllers and scheduler do what there is to do now."""
        while self._unsettled:
            _, deployment = self._unsettled.popitem()
            self._reconcile(deployment)
        if self.pending:
            self._schedule()

    def disturb(self, deployment: Deployment) -> None:
        """Let its controller look at it when things settle."""
        if self.deployments.get(deployment.ref) is not deployment:
            return  # it was deleted, its last pods end
        self._unsettled[deployment.ref] = deployment
        self.touch(deployment)

    def _reconcile(self, deployment: Deployment) -> None:
        """Make or delete pods until as many are active as asked for."""
        active = deployment.active
        if deployment.rolling:
            for _ in range(to_create(deployment, active)):
                self._create(deployment)
            for pod in to_replace(deployment, deployment.active):
                self.delete(pod)
            return
        if len(active) == deployment.replicas and all(pod.ready for pod in active):
            deployment.proven = deployment.generation
        for _ in range(deployment.replicas - len(active)):
            self._create(deployment)
        for pod in victims(active, max(0, len(active) - deployment.replicas)):
            self.delete(pod)

    def _create(self, owner: Deployment) -> None:
        begin = f"{owner.ref.name}-{template_hash(owner)}-"
        name = begin + self.suffix()
        while (owner.ref.namespace, name) in self.pods:  # of 8,000 pods three pairs drew the same letters
            name = begin + self.suffix()
        pod = WorldPod(name=name, uid=self._pod_uid(owner), owner=owner, created_at=self._agenda.now)
        pod.gpus, pod.generation, pod.stuck = owner.gpus, owner.generation, owner.broken
        owner.pods[pod.uid] = self.pods[pod.key] = self.pending[pod.uid] = pod
        self.touch(pod)

    # --- a pod's life

    def _schedule(self) -> None:
        for pod, node in place(self.pending.values(), self.nodes.values()):
            del self.pending[pod.uid]
            pod.node, pod.placed_at = node, self._agenda.now
            node.used += pod.gpus
            node.pods[pod.uid] = pod
            self.starts += 1
            self.touch(pod)
            self.load(pod)

    def load(self, pod: WorldPod) -> None:
        """Starts the pod's containers; it is Ready once they are up."""
        seconds = pod.owner.load_seconds
        if self.slots is not None:
            launcher, seconds = self.slots.bind(pod)
            pod.launcher = launcher.name
            self.touch(launcher)
        jitter = 1 + self._random.uniform(-self._load_jitter, self._load_jitter)
        self._agenda.after(seconds * jitter, self._deed(self._loaded, pod))

    def _loaded(self, pod: WorldPod) -> None:
        runs = pod.node is not None and pod.node.alive and not pod.stuck and not pod.failed
        if runs and not pod.loaded and pod.deleted_at is None and self.pods.get(pod.key) is pod:
            pod.loaded = True
            self.show(pod)

    def show(self, pod: WorldPod) -> None:
        """The API shows whether it is Ready, from now on; of a pod that has gone it shows nothing."""
        if self.pods.get(pod.key) is not pod:
            return
        shown = pod.loaded and pod.node is not None and pod.node.ready
        pod.ready_at = self._agenda.now if shown else None
        self.touch(pod)
        if pod.owner.generation:
            self.disturb(pod.owner)
        elif self.deployments.get(pod.owner.ref) is pod.owner:  # a deleted one shows nothing any more
            self.touch(pod.owner)

    def delete(self, pod: WorldPod, grace_seconds: float | None = None) -> None:
        """Ask the pod to end. Its GPUs are held until it has: that takes its stop time, at most the grace."""
        if pod.deleted_at is not None:
            return
        pod.deleted_at = self._agenda.now
        if pod.node is None:
            self._gone(pod)
        else:
            grace = pod.owner.grace_seconds if grace_seconds is None else grace_seconds
            pod.ends_at = self._agenda.now + grace
            self.stops += 1
            self.touch(pod)
            self._agenda.after(min(grace, pod.owner.stop_seconds), self._deed(self.ended, pod))
        self.disturb(pod.owner)

    def ended(self, pod: WorldPod) -> None:
        """The kubelet reports its end, if there is one to do so and nothing holds the object."""
        if pod.node is None or (pod.node.alive and not pod.clings):
            self._gone(pod)

    def fail(self, pod: WorldPod) -> None:
        """End a pod that stays as an object in phase Failed: its devices are free, its ReplicaSet makes another."""
        if pod.node is None or pod.deleted_at is not None or pod.failed:
            return
        pod.failed, pod.loaded, pod.ready_at = True, False, None
        pod.node.used -= pod.gpus
        self.stops += 1
        self.touch(pod)
        self.disturb(pod.owner)

    def _gone(self, pod: WorldPod) -> None:
        if self.pods.get(pod.key) is not pod:
            return
        del self.pods[pod.key]
        self.pending.pop(pod.uid, None)
        del pod.owner.pods[pod.uid]
        if pod.node is not None:
            pod.node.used -= 0 if pod.failed else pod.gpus
            del pod.node.pods[pod.uid]
        launcher = None if self.slots is None else self.slots.release(pod)
        if launcher is not None:
            self.touch(launcher)
        self.touch(pod, gone=True)
        self.disturb(pod.owner)

    def _deed(self, deed: Callable[[WorldPod], None], pod: WorldPod) -> Callable[[], None]:
        return lambda: deed(pod)


def template_hash(owner: Deployment) -> str:
    """Stands for the pod template: ten letters, as in a ReplicaSet's name."""
    return owner.uid.replace("-", "")[owner.generation :][:10]
