"""What the API server showed when the watches last came: pods, nodes, announced ends, and what users ask for.

Everything that a write is judged by is read here, so that nobody is judged by what could not be known.
"""

from collections import deque
from collections.abc import Iterable
from math import ceil, inf

from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import World, WorldNode, WorldPod
from tests.machine.verdicts import Seen
from tests.machine.worlds import CARRIED, CONCURRENCY, NOT_READY_SECONDS, SERVICE_SECONDS, STEP_SECONDS

GRACE_SECONDS = 30.0
MARGIN_SECONDS = 60.0
RECENT_STEPS = 24  # two minutes: what the metrics have had time to say


class Shown:
    """The world as it was shown. `deadlines`: when announced nodes go."""

    def __init__(self, world: World, policy: Policy, levels: dict[str, float]) -> None:
        self.policy = policy
        self.deadlines: dict[str, float] = {}
        self.clock_is_wrong = False  # the service's: by it deadlines come sooner or later than they do
        self.rolled_at = 0.0
        self._world = world
        self._seen: dict[str, Seen] = {}
        self._pods_of: dict[WorkloadRef, list[Seen]] = {}
        self._replicas: dict[WorkloadRef, int] = {}
        self._held: dict[str, int] = {}  # GPUs by node
        self._listed: set[str] = set()  # nodes at the last look
        self._away: dict[str, bool] = {}  # nodes that there ever were: whether each was gone or silent at the last look
        self._back: frozenset[str] = frozenset()  # pools of those that are there again
        self._mistimed: set[str] = set()  # nodes that were under notice while the service's clock was wrong
        self._looked_at = self._acts_at = world.now
        self._needs = {model: deque([_need(level * CARRIED)], RECENT_STEPS) for model, level in levels.items()}

    def look(self, acts_at: float | None = None) -> None:
        """The API server as it is when the watches come. `acts_at`: when a plan is made of it; None: now."""
        self._looked_at = self._world.now
        now = self._acts_at = self._looked_at if acts_at is None else acts_at
        # Who registers again before it is taken all the same; who does so afterwards may be another machine.
        listed = self._listed & self._world.nodes.keys()
        self.deadlines = {name: at for name, at in self.deadlines.items() if now <= at or name in listed}
        self._listed = {*self._world.nodes}
        self._back = self._pools_with_a_node_back()
        self._mistimed = {name for name in self.deadlines if self.clock_is_wrong or name in self._mistimed}
        self._seen = {pod.uid: self._see(pod, now) for pod in self._world.pods.values()}
        self._pods_of = {}
        for pod in self._world.pods.values():
            self._pods_of.setdefault(pod.owner.ref, []).append(self._seen[pod.uid])
        self._replicas = {ref: owner.replicas for ref, owner in self._world.deployments.items()}
        self._held = {node.name: held_gpus(node) for node in self._world.nodes.values()}

    def _pools_with_a_node_back(self) -> frozenset[str]:
        """Pools of nodes that are there and Ready again: who waited for others' GPUs may have its own."""
        there = {node.name: node for node in self._world.nodes.values() if node.listed and node.ready}
        back = frozenset(there[name].labels["pool"] for name, away in self._away.items() if away and name in there)
        self._away = {name: name not in there for name in self._away | dict.fromkeys(there)}
        return back

    def _see(self, pod: WorldPod, now: float) -> Seen:
        """A pod is where the Node of that name is, as the API has it.

        Whether the machine that comes back under a name is the one on which a pod ran, or another one, cannot be known
        from outside: the pod says no more than the name. Its kubelet, or PodGC, ends it within a minute where it did
        not. Until then it serves, for all that can be asked of anybody.
        """
        active = pod.deleted_at is None and not pod.failed
        node = pod.node and self._world.nodes.get(pod.node.name, pod.node)
        if node is None:
            return Seen(
                serves=False,
                goes=False,
                counted=True,
                placed=False,
                active=active,
                gpus=pod.gpus,
                model=pod.owner.model,
            )
        return Seen(
            serves=pod.ready and node.listed and node.ready,
            goes=self._goes(node, now),
            counted=self._counts(node, now) and not pod.failed,
            placed=True,
            active=active,
            gpus=pod.gpus,
            model=pod.owner.model,
            loads=active and not pod.ready and node.listed and node.ready,
            overdue=node.name not in self._mistimed and now >= self.deadlines.get(node.name, inf) - MARGIN_SECONDS,
        )

    def _goes(self, node: WorldNode, now: float) -> bool | None:
        deadline = self.deadlines.get(node.name)
        if deadline is None:
            return False
        # Who is in no policy is replaced by nobody of ours.
        loads = (pod.owner.load_seconds for pod in node.pods.values() if self.model(pod.owner.model) is not None)
        return True if now >= deadline - max(loads, default=0.0) - GRACE_SECONDS - MARGIN_SECONDS else None

    def _counts(self, node: WorldNode, now: float) -> bool:
        """Whether its GPUs are any: there, and not silent for minutes."""
        silent = not node.ready and now - (node.ready_changed_at or 0.0) >= NOT_READY_SECONDS
        return node.listed and not silent and self._goes(node, now) is not True

    def _counted(self, pool: str) -> list[WorldNode]:
        now = self._acts_at
        return [node for node in self._world.nodes.values() if node.labels["pool"] == pool and self._counts(node, now)]

    def _may_go(self, node: WorldNode) -> bool:
        """Whether its end is near by what the service may have learnt of starts, which look longer by a step or two.

        It goes by the slowest model that was there since the notice came, and that one may have left.
        """
        pool = node.labels["pool"]
        here = (one for one in self._world.deployments.values() if one.node_selector["pool"] == pool)
        slowest = max((one.load_seconds for one in here), default=0.0) + 2 * STEP_SECONDS
        return self._acts_at >= self.deadlines.get(node.name, inf) - slowest - GRACE_SECONDS - MARGIN_SECONDS

    def measure(self, rates: dict[str, float]) -> None:
        """What users ask for now, in replicas without which requests pile up."""
        if any(one.rolling for one in self._world.deployments.values()):
            self.rolled_at = self._world.now
        for model, rate in rates.items():
            self._needs[model].append(_need(rate * SERVICE_SECONDS))

    def need(self, model: str) -> int:
        """What it has needed at least throughout the last two minutes."""
        return min(self._needs[model], default=0)

    def peak(self, model: str) -> int:
        """What it has needed at most in the last two minutes."""
        return max(self._needs[model], default=0)

    def shown(self) -> Iterable[tuple[WorkloadRef, list[Seen]]]:
        """The pods of each target as the API server showed them."""
        return self._pods_of.items()

    def model(self, name: str) -> Model | None:
        """The model as the policy in force has it."""
        return next((model for model in self.policy.models if model.id == name), None)

    def _pods(self, model: str) -> list[WorldPod]:
        return [pod for pod in self._world.pods.values() if pod.owner.model == model]

    def _above_limit(self, pool: str, more: int = 0) -> bool:
        """Whether people allow less than there is, and `more` GPUs."""
        limits = (one.gpu_limit for one in self.policy.pools if one.node_labels["pool"] == pool)
        here = (pod for pod in self._world.pods.values() if pod.owner.node_selector["pool"] == pool)
        held = sum(pod.gpus for pod in here if pod.node is not None)
        return held + more > next(limits, 0)


def held_gpus(node: WorldNode) -> int:
    """What is bound there: devices may have gone under it, which no raise elsewhere makes worse."""
    return sum(pod.gpus for pod in node.pods.values() if not pod.failed)


def _need(in_service: float) -> int:
    """Replicas below which requests pile up, of those that are served at a time."""
    return ceil(in_service / CONCURRENCY - 0.05)
