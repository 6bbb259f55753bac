"""Replicas of several models on a few nodes, as Kubernetes would place and end them, in whole seconds.

Pods wait first-come; one that fits nowhere does not hold up those behind it. A scale-down ends pods that wait first,
then those that load, the youngest first, then the youngest that serve. GPUs are free when the pod is gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rebalancer.sim.scenario import Model

NEVER = 1 << 62


@dataclass(slots=True, eq=False)
class Pod:
    """One replica. `node` None: it waits. `ready_at`, `gone_at`: seconds, NEVER until they are known."""

    model: int
    node: int | None = None
    ready_at: int = NEVER
    gone_at: int = NEVER


@dataclass(slots=True)
class Fleet:
    """`asked`, `ready`, `loading`, `waiting`: replicas by model. `used`: GPUs held, ending ones included."""

    models: Sequence[Model]
    free: list[int]  # GPUs by node
    by_model: bool = False  # waiting pods in the order of models instead of first-come
    now: int = 0
    asked: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    loading: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    used: int = 0
    starts: int = 0
    stops: int = 0
    _pods: list[list[Pod]] = field(default_factory=list)
    _queue: list[Pod] = field(default_factory=list)
    _ending: list[Pod] = field(default_factory=list)
    _next: int = NEVER

    def __post_init__(self) -> None:
        count = len(self.models)
        self.asked, self.ready, self.loading, self.waiting = ([0] * count for _ in range(4))
        self._pods = [[] for _ in range(count)]
        for index, model in enumerate(self.models):
            self.ask(index, model.first)
        self._place()
        for pods in self._pods:
            for pod in pods:
                pod.ready_at = 0
        self.starts = 0
        self.advance(0)

    def ask(self, index: int, replicas: int) -> None:
        """That many replicas of a model are wanted from now on."""
        while self.asked[index] < replicas:
            pod = Pod(index)
            self._pods[index].append(pod)
            self._queue.append(pod)
            self.asked[index] += 1
            self.waiting[index] += 1
        while self.asked[index] > replicas:
            self._end(index)
        self._next = min(self._next, self.now)

    def advance(self, now: int) -> None:
        """Live through everything that happens until `now`, that second's beginning included."""
        while self._next <= now:
            self.now = max(self.now, self._next)
            self._load()
            self._free()
            self._place()
            self._look_ahead()
        self.now = now

    @property
    def next_event(self) -> int:
        """The next second at which something changes by itself, NEVER when nothing will."""
        return self._next

    def serving(self, index: int) -> list[Pod]:
        """The Ready replicas of a model: who they are, for worlds in which a replica has requests of its own."""
        return [pod for pod in self._pods[index] if pod.ready_at <= self.now]

    def ending(self, index: int) -> list[Pod]:
        """The replicas of a model that were asked to go and still hold their GPUs."""
        return [pod for pod in self._ending if pod.model == index]

    def lose(self, node: int, gpus: int) -> None:
        """The node's machine is gone, with whatever ran there: it offers `gpus` from now on."""
        for pods in self._pods:
            for pod in [pod for pod in pods if pod.node == node]:
                self._vanish(pod)
        for pod in [pod for pod in self._ending if pod.node == node]:
            self._ending.remove(pod)
            self.used -= self.models[pod.model].gpus
        self.free[node] = gpus
        self._next = min(self._next, self.now)

    def _vanish(self, pod: Pod) -> None:
        """Its ReplicaSet makes another at once: it waits again."""
        if pod.ready_at <= self.now:
            self.ready[pod.model] -= 1
            self.stops += 1
        else:
            self.loading[pod.model] -= 1
        self.used -= self.models[pod.model].gpus
        pod.node, pod.ready_at = None, NEVER
        self.waiting[pod.model] += 1
        self._queue.append(pod)

    def _end(self, index: int) -> None:
        pods = self._pods[index]
        pod = max(pods, key=_first_to_go)
        pods.remove(pod)
        self.asked[index] -= 1
        if pod.node is None:
            self._queue.remove(pod)
            self.waiting[index] -= 1
            return
        if pod.ready_at <= self.now:
            self.ready[index] -= 1
        else:
            self.loading[index] -= 1
        self.stops += 1
        pod.gone_at = self.now + self.models[index].release_seconds
        self._ending.append(pod)

    def _load(self) -> None:
        for index, pods in enumerate(self._pods):
            if self.loading[index]:
                self.ready[index] = sum(pod.ready_at <= self.now for pod in pods)
                self.loading[index] = len(pods) - self.ready[index] - self.waiting[index]

    def _free(self) -> None:
        for pod in [pod for pod in self._ending if pod.gone_at <= self.now]:
            self._ending.remove(pod)
            gpus = self.models[pod.model].gpus
            self.used -= gpus
            if pod.node is not None:
                self.free[pod.node] += gpus

    def _place(self) -> None:
        still = []
        for pod in sorted(self._queue, key=_model) if self.by_model else self._queue:
            model = self.models[pod.model]
            node = max(range(len(self.free)), key=self.free.__getitem__)  # least allocated: Kubernetes' default
            if self.free[node] < model.gpus:
                still.append(pod)
                continue
            self.free[node] -= model.gpus
            self.used += model.gpus
            pod.node, pod.ready_at = node, self.now + model.start_seconds
            self.waiting[pod.model] -= 1
            self.loading[pod.model] += 1
            self.starts += 1
        self._queue = still

    def _look_ahead(self) -> None:
        loading = [pod.ready_at for index, pods in enumerate(self._pods) if self.loading[index] for pod in pods]
        ending = [pod.gone_at for pod in self._ending]
        self._next = min((at for at in (*loading, *ending) if self.now < at < NEVER), default=NEVER)


def _model(pod: Pod) -> int:
    return pod.model


def _first_to_go(pod: Pod) -> tuple[bool, int]:
    """Who waits, then who became (or will become) ready last."""
    return pod.node is None, pod.ready_at
