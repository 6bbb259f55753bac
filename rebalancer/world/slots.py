"""GPUs with engines asleep on them, as Fast Model Actuation keeps them: what a pod finds there is how long it starts.

Each GPU of a node is a slot with one launcher, which holds a few engines: one awake at most, the others asleep. Which
free GPU of its node a pod gets is chance, as a device plugin knows nothing of engines.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rebalancer.world.things import WorldNode, WorldPod


@dataclass(frozen=True, slots=True)
class Sleeping:
    """How replicas start where engines sleep.

    sleepers: engines that a launcher keeps beside the one that is awake; the one that slept longest goes first.
    hot_seconds: to wake an engine that sleeps on the pod's GPU.
    warm_seconds: to start an engine in a launcher.
    cold_seconds: from nothing; so long takes a wake that fails.
    failed_share: wakes that fail, as a share.
    """

    sleepers: int
    hot_seconds: float = 5.0
    warm_seconds: float = 90.0
    cold_seconds: float = 180.0
    failed_share: float = 0.0


@dataclass(slots=True, eq=False)
class WorldLauncher:
    """The launcher of one GPU.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    created_at: UTC epoch seconds at which it was created, which is when its node was.
    requester: the pod for which its engine serves, None while it serves for none.
    engines: ids of the models whose engines it holds, the one that was awake last at the end.
    """

    namespace: str
    name: str
    uid: str
    created_at: float
    requester: WorldPod | None = None
    engines: list[str] = field(default_factory=list)


class Slots:
    """The launchers of all nodes. `kinds`: starts by kind and by model, a failed wake as cold."""

    def __init__(self, sleeping: Sleeping, namespace: str, seed: int = 0) -> None:
        self.kinds: Counter[tuple[str, str]] = Counter()
        self._sleeping = sleeping
        self._namespace = namespace
        self._random = random.Random(seed)
        self._launchers: dict[str, list[WorldLauncher]] = {}  # by node
        self._of: dict[str, WorldLauncher] = {}  # by the requester's UID

    def add(self, node: WorldNode) -> list[WorldLauncher]:
        """A node with empty launchers."""
        launchers = [
            WorldLauncher(self._namespace, f"launcher-{node.name}-{gpu}", f"{node.uid}/{gpu}", node.created_at)
            for gpu in range(node.gpus)
        ]
        self._launchers[node.name] = launchers
        return launchers

    def bind(self, pod: WorldPod) -> tuple[WorldLauncher, float]:
        """The launcher of a free GPU of its node, and the seconds of the start. Raises ValueError for several GPUs."""
        if pod.gpus != 1 or pod.node is None:
            raise ValueError(f"{pod.name} asks for {pod.gpus} GPUs: only engines on one GPU sleep here")
        free = [launcher for launcher in self._launchers[pod.node.name] if launcher.requester is None]
        launcher, model, rules = self._random.choice(free), pod.owner.model, self._sleeping
        kind, seconds = "warm", rules.warm_seconds
        if model in launcher.engines:
            fails = self._random.random() < rules.failed_share
            kind, seconds = ("cold", rules.cold_seconds) if fails else ("hot", rules.hot_seconds)
            launcher.engines.remove(model)
        launcher.engines = [*launcher.engines[-rules.sleepers :], model] if rules.sleepers else [model]
        launcher.requester = pod
        self._of[pod.uid] = launcher
        self.kinds[kind, model] += 1
        return launcher, seconds

    def release(self, pod: WorldPod) -> WorldLauncher | None:
        """The pod is gone, its engine sleeps; None where it was bound to none."""
        launcher = self._of.pop(pod.uid, None)
        if launcher is not None:
            launcher.requester = None
        return launcher

    def engines(self, pod: str) -> Sequence[str]:
        """Models whose engines the launcher holds that serves for the pod of that UID, its own among them."""
        launcher = self._of.get(pod)
        return () if launcher is None else launcher.engines
