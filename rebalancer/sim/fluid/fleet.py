"""Replicas of several models on a few nodes, as Kubernetes would place and end them, in whole seconds.

Pods wait first-come, each for the node that it leaves fullest; one that fits nowhere does not hold up those behind it.
A scale-down ends pods that wait first, then those that load, then those that serve; of these who has most siblings on
its node, then the youngest. GPUs are free when the pod is gone. All of it is what `rebalancer.world` does.
A model's replicas are one Deployment that may use every node, or one for each pool.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rebalancer.sim.scenario import PRIMARY, ScenarioModel

NEVER = 1 << 62


@dataclass(slots=True, eq=False)
class FluidPod:
    """One replica.

    model: place of its model among the fleet's models.
    pool: the pool that its Deployment is for, None for any.
    node: place of its node among the fleet's nodes, None while it waits for one.
    ready_at: second from which it serves, NEVER until it has a node.
    gone_at: second in which its GPUs are free, NEVER until it is asked to go.
    """

    model: int
    pool: int | None = None
    node: int | None = None
    ready_at: int = NEVER
    gone_at: int = NEVER


@dataclass(slots=True)
class Fleet:
    """The pods of several models on their nodes. Lists by model are in the order of `models`, by node of `free`.

    models: the models, in the scenario's order.
    free: GPUs that no pod holds, by node; 0 for a node that is gone.
    by_model: whether pods that wait are placed in the order of models, instead of first come, first served.
    pool_of: the pool of each node, PRIMARY or ELASTIC; all are primary where it is given empty.
    split: whether each model has a Deployment for each pool, and begins with that for the primary one; otherwise it
        has one, for any node.
    now: the second up to which everything has happened.
    desired: replicas that are asked for, by model.
    ready: Ready replicas, by model.
    loading: replicas that have a node and are not Ready yet, by model.
    waiting: replicas that wait for a node, by model.
    used: GPUs that pods hold, those of ending ones included.
    used_in: the same by pool: of the primary one, then of the elastic one.
    starts: replicas that got a node; those that models begin with do not count.
    stops: replicas with a node that were asked to go, or that died with their machine.
    queued: pods that have come into the queue so far, those included that got a node at once.
    _removed: nodes that are gone for good, whose places new ones take.
    _on: pods that hold GPUs, by node; ending ones included.
    _open: nodes that take pods, in ascending order, by the pool that a Deployment is for; None: any.
    _pods: pods that nobody asked to go, by model; the oldest first.
    _queue: pods that wait for a node, first come first.
    _ending: pods that were asked to go and still hold their GPUs.
    _next: the next second at which something changes by itself, NEVER when nothing will.
    """

    models: Sequence[ScenarioModel]
    free: list[int]  # GPUs by node
    by_model: bool = False  # waiting pods in the order of models instead of first-come
    pool_of: list[int] = field(default_factory=list)
    split: bool = False
    now: int = 0
    desired: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    loading: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    used: int = 0
    used_in: list[int] = field(default_factory=lambda: [0, 0])
    starts: int = 0
    stops: int = 0
    queued: int = 0
    _removed: list[int] = field(default_factory=list)
    _on: list[int] = field(default_factory=list)  # pods by node, ending ones included
    _open: dict[int | None, list[int]] = field(default_factory=dict)  # nodes that take pods, by a Deployment's pool
    _pods: list[list[FluidPod]] = field(default_factory=list)
    _queue: list[FluidPod] = field(default_factory=list)
    _ending: list[FluidPod] = field(default_factory=list)
    _next: int = NEVER

    def __post_init__(self) -> None:
        count = len(self.models)
        self.desired, self.ready, self.loading, self.waiting = ([0] * count for _ in range(4))
        self._pods = [[] for _ in range(count)]
        self.pool_of = self.pool_of or [PRIMARY] * len(self.free)
        self._on = [0] * len(self.free)
        for node in range(len(self.free)):
            self._admit(node)
        for index, model in enumerate(self.models):
            self.ask(index, model.first, PRIMARY if self.split else None)
        self._place()
        for pods in self._pods:
            for pod in pods:
                if pod.node is not None:
                    pod.ready_at = 0
        self.starts = 0
        self.advance(0)

    def ask(self, index: int, replicas: int, pool: int | None = None) -> None:
        """Ask for that many replicas of a model from now on, from its Deployment for `pool`; None: it has one only."""
        mine = [pod for pod in self._pods[index] if pool is None or pod.pool == pool]
        for _ in range(replicas - len(mine)):
            self._create(index, pool)
        for pod in self._victims(mine, max(0, len(mine) - replicas)):
            self._end(pod)
        self._place()
        self._next = min(self._next, self.now)

    def want(self, index: int, replicas: int) -> bool:
        """As `ask`, where the number is another one; whether that one is under the model's floor, which is done too."""
        if replicas == self.desired[index]:
            return False
        self.ask(index, replicas)
        return replicas < self.models[index].floor

    def advance(self, now: int) -> None:
        """Live through everything that happens until `now`, that second's beginning included."""
        while self._next <= now:
            self.now = max(self.now, self._next)
            self._free()
            self._place()
            self._load()  # last: what is placed may start in no time
            self._look_ahead()
        self.now = now

    @property
    def next_event(self) -> int:
        """The next second at which something changes by itself, NEVER when nothing will."""
        return self._next

    def serving(self, index: int) -> list[FluidPod]:
        """The Ready replicas of a model: who they are, for worlds in which a replica has requests of its own."""
        return [pod for pod in self._pods[index] if pod.ready_at <= self.now]

    def ending(self, index: int) -> list[FluidPod]:
        """The replicas of a model that were asked to go and still hold their GPUs."""
        return [pod for pod in self._ending if pod.model == index]

    def desired_in(self, pool: int) -> list[int]:
        """Replicas asked for of the Deployments for that pool, by model."""
        return [sum(pod.pool == pool for pod in pods) for pods in self._pods]

    def ready_in(self, pool: int) -> list[int]:
        """Ready replicas on that pool's nodes, by model."""
        return [
            sum(pod.node is not None and self.pool_of[pod.node] == pool and pod.ready_at <= self.now for pod in pods)
            for pods in self._pods
        ]

    @property
    def queue(self) -> list[FluidPod]:
        """The pods that wait, first come first."""
        return self._queue

    def holds(self, node: int) -> bool:
        """Whether anything runs there, or still ends."""
        return self._on[node] > 0

    def add(self, gpus: int, pool: int) -> int:
        """A new node, in the place of one that was removed where there is such; its place."""
        if self._removed:
            node = min(self._removed)
            self._removed.remove(node)
        else:
            node = len(self.free)
            self.free.append(0)
            self._on.append(0)
            self.pool_of.append(pool)
        self.pool_of[node] = pool
        self.become(node, gpus)
        return node

    def remove(self, node: int) -> None:
        """The node is gone for good."""
        self.become(node, 0)
        self._removed.append(node)

    def become(self, node: int, gpus: int) -> list[int]:
        """The node's machine is another one, which offers `gpus`. Ready replicas that died with the old, by model.

        A machine without GPUs is none.
        """
        died = [0] * len(self.models)
        for pod in [pod for pods in self._pods for pod in pods if pod.node == node]:
            died[pod.model] += pod.ready_at <= self.now
            self._take_off(pod)
            self.stops += 1
            self._hold(pod, -1)
            pod.node, pod.ready_at = None, NEVER
            self._wait(pod)
        for pod in [pod for pod in self._ending if pod.node == node]:
            self._ending.remove(pod)
            self._hold(pod, -1)
        self.free[node] = gpus
        self._close(node)
        if gpus:
            self._admit(node)
        self._next = min(self._next, self.now)
        return died

    def drain(self, node: int) -> None:
        """Nobody lands on the node any more; who is there ends, and its ReplicaSet makes another at once."""
        self._close(node)
        for pod in [pod for pods in self._pods for pod in pods if pod.node == node]:
            self._end(pod)
            self._create(pod.model, pod.pool)
        self._next = min(self._next, self.now)

    def _admit(self, node: int) -> None:
        for pool in (None, self.pool_of[node]):
            nodes = self._open.setdefault(pool, [])
            nodes.append(node)
            nodes.sort()

    def _close(self, node: int) -> None:
        for nodes in self._open.values():
            if node in nodes:
                nodes.remove(node)

    def _create(self, index: int, pool: int | None) -> None:
        pod = FluidPod(index, pool)
        self._pods[index].append(pod)
        self.desired[index] += 1
        self._wait(pod)

    def _wait(self, pod: FluidPod) -> None:
        self._queue.append(pod)
        self.waiting[pod.model] += 1
        self.queued += 1

    def _hold(self, pod: FluidPod, sign: int) -> None:
        """Count the GPUs of a pod with a node as held, or as held no more."""
        gpus = sign * self.models[pod.model].gpus
        self.used += gpus
        if pod.node is not None:
            self.used_in[self.pool_of[pod.node]] += gpus
            self._on[pod.node] += sign

    def _take_off(self, pod: FluidPod) -> None:
        """It serves, or loads, no more."""
        counts = self.ready if pod.ready_at <= self.now else self.loading
        counts[pod.model] -= 1

    def _end(self, pod: FluidPod) -> None:
        self._pods[pod.model].remove(pod)
        self.desired[pod.model] -= 1
        if pod.node is None:
            self._queue.remove(pod)
            self.waiting[pod.model] -= 1
            return
        self._take_off(pod)
        self.stops += 1
        pod.gone_at = self.now + self.models[pod.model].release_seconds
        self._ending.append(pod)

    def _load(self) -> None:
        for index, pods in enumerate(self._pods):
            if self.loading[index]:
                self.ready[index] = sum(pod.ready_at <= self.now for pod in pods)
                self.loading[index] = len(pods) - self.ready[index] - self.waiting[index]

    def _free(self) -> None:
        """One pod after the other, as they end: a small one may take what a large one waits for."""
        for pod in [pod for pod in self._ending if pod.gone_at <= self.now]:
            self._ending.remove(pod)
            self._hold(pod, -1)
            if pod.node is not None:
                self.free[pod.node] += self.models[pod.model].gpus
            self._place()

    def _victims(self, mine: list[FluidPod], count: int) -> list[FluidPod]:
        """Who goes of one Deployment's pods, as `world.replicas` has it: first to last."""
        if not count:
            return []
        siblings = Counter(pod.node for pod in mine if pod.node is not None)
        order = [
            (
                pod.node is None,
                pod.ready_at > self.now,
                0 if pod.node is None else siblings[pod.node],
                pod.ready_at if pod.ready_at <= self.now else 0,
                age,  # the younger, the later in the list
            )
            for age, pod in enumerate(mine)
        ]
        return [mine[age] for *_, age in sorted(order, reverse=True)[:count]]

    def _place(self) -> None:
        still = []
        for pod in sorted(self._queue, key=_model) if self.by_model else self._queue:
            model = self.models[pod.model]
            nodes = self._open.get(pod.pool, ())
            fitting = (node for node in nodes if self.free[node] >= model.gpus)
            # The one that it leaves fullest, as the world; who may use both pools prefers the primary one: it is paid
            # for, or does not go.
            node = min(fitting, key=lambda node: (self.pool_of[node], self.free[node]), default=None)
            if node is None:
                still.append(pod)
                continue
            self.free[node] -= model.gpus
            pod.node, pod.ready_at = node, self.now + model.start_seconds
            self._hold(pod, 1)
            self.waiting[pod.model] -= 1
            self.loading[pod.model] += 1
            self.starts += 1
        self._queue = still

    def _look_ahead(self) -> None:
        loading = [pod.ready_at for index, pods in enumerate(self._pods) if self.loading[index] for pod in pods]
        ending = [pod.gone_at for pod in self._ending]
        self._next = min((at for at in (*loading, *ending) if self.now < at < NEVER), default=NEVER)


def _model(pod: FluidPod) -> int:
    return pod.model
