"""A scenario: what arrives as work, what serves it, and what there is to serve it with."""

from dataclasses import dataclass

from rebalancer.sim.demand import F64

BY_MINUTE = frozenset({"S1a", "S1b"})  # users were promised a p99 by the minute, as Faro's lost utility measures it


@dataclass(frozen=True, slots=True)
class ScenarioModel:
    """One model as a scenario serves it.

    A second's arrivals wait max(0, backlog / ready - `headroom_seconds`) s. They are turned away where the backlog
    holds more than `queue_base` + `queue_per_replica` x ready requests.

    name: name of the model.
    work: replica-seconds of work that arrive in each second; the shape is (seconds,).
    requests: requests that carry the work of each second; the shape is (seconds,).
    first: replicas that it begins with.
    floor: its floor, in replicas; who asks for fewer gets them, and breaches it.
    most: replicas that controllers ask for at most.
    gpus: GPUs of one replica.
    priority: weight of one of its late requests, for controllers that weigh models; in a score all count alike.
    start_seconds: seconds from the placement of a replica on a node until it serves.
    release_seconds: seconds from when a replica is asked to go until its GPUs are free.
    slo_wait_seconds: seconds of waiting above which a request is late; of a `deferred` model seconds from its arrival
        until it is finished.
    headroom_seconds: seconds of backlog per Ready replica for which nobody waits: what replicas have in hand.
    patience_seconds: seconds of waiting above which clients leave; their requests are lost.
    queue_base: requests that the backlog may hold, whatever serves; inf: nobody is turned away.
    queue_per_replica: requests that it may hold besides for each Ready replica.
    slots: requests that a full replica has in hand, as metrics count them: the batch of the measured profiles.
    scale: requests of `slots` that one recorded request stands for; above 1 where a trace was thinned or its work
        multiplied.
    deferred: whether its requests have a deadline instead of a longest wait.
    """

    name: str
    work: F64
    requests: F64
    first: int
    floor: int = 1
    most: int = 1_000_000
    gpus: int = 1
    priority: float = 1.0
    start_seconds: int = 60
    release_seconds: int = 0
    slo_wait_seconds: float = 2.0
    headroom_seconds: float = 0.5
    patience_seconds: float = 30.0
    queue_base: float = float("inf")
    queue_per_replica: float = 0.0
    slots: float = 64.0
    scale: float = 1.0
    deferred: bool = False

    @property
    def recorded_slots(self) -> float:
        """Recorded requests that a full replica has in hand: a score counts recorded ones."""
        return self.slots / self.scale

    def in_hand(self, busy_share: float) -> float:
        """Recorded requests in service on one replica that is busy for that share of its time."""
        return busy_share * self.recorded_slots


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A machine that goes or comes: from then on its node has other GPUs, and nobody runs on it.

    second: second in which it happens.
    node: place of the node among the scenario's `nodes`.
    gpus: GPUs that the node offers from then on, 0 where the machine is gone.
    notice_seconds: seconds before `second` at which a machine that goes is announced, and Karpenter hears of it and
        drains it at once; 0: nobody announces it.
    """

    second: int
    node: int
    gpus: int
    notice_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Launches:
    """Nodes that Karpenter brings for pods that wait, and takes when they stay empty.

    gpus: GPUs of each node.
    most: nodes that there are at most at a time.
    took: what one order after the other comes to: seconds from the order until the node takes pods, None where the
        cloud has no capacity; after the last the first again.
    rest_seconds: seconds after such a refusal for which nothing is ordered.
    empty_seconds: seconds after which a node goes on which nothing runs.
    """

    gpus: int
    most: int
    took: tuple[int | None, ...]
    rest_seconds: int = 45
    empty_seconds: int = 300


PRIMARY, ELASTIC = 0, 1  # the pools of a scenario: GPUs that models own, and GPUs that nobody does


@dataclass(frozen=True, slots=True)
class Scenario:
    """Models on one set of nodes.

    name: name of the scenario or family, such as S2; of recorded traffic the name of the trace.
    day: the day that is played, as `suite.cases` names days; "" where it has none.
    models: the models that are served.
    nodes: GPUs of each node before any of `changes`; a fixed budget is their sum.
    seconds: seconds to play.
    usd_per_gpu_hour: USD for an hour of a GPU that pods hold in the primary pool; 0: it costs nothing, or no price is
        known.
    by_model: whether pods that wait for a node are placed in the order of models, instead of first come, first served.
    surges: seconds in which sudden surges begin, from which recovery is measured; empty where demand has none.
    changes: machines that go and come.
    elastic: how many of the last `nodes` are of the elastic pool, as are those that `launches` brings.
    elastic_usd_per_gpu_hour: USD for an hour of a GPU that pods hold in the elastic pool; of launched nodes of each
        GPU, used or not, from the order on; 0: it costs nothing, or no price is known.
    launches: nodes that Karpenter brings, None where it brings none.
    """

    name: str
    day: str
    models: tuple[ScenarioModel, ...]
    nodes: tuple[int, ...]
    seconds: int
    usd_per_gpu_hour: float = 0.0
    by_model: bool = False
    surges: tuple[int, ...] = ()
    changes: tuple[NodeChange, ...] = ()
    elastic: int = 0
    elastic_usd_per_gpu_hour: float = 0.0
    launches: Launches | None = None

    @property
    def gpus(self) -> int:
        """The budget: all that there can be at a time."""
        return sum(self.nodes) + (self.launches.gpus * self.launches.most if self.launches else 0)

    @property
    def pool_of(self) -> tuple[int, ...]:
        """The pool of each node."""
        primary = len(self.nodes) - self.elastic
        return (*(PRIMARY,) * primary, *(ELASTIC,) * self.elastic)

    @property
    def has_elastic(self) -> bool:
        """Whether there is an elastic pool."""
        return bool(self.elastic or self.launches)

    @property
    def has_prices(self) -> bool:
        """Whether it says what GPUs cost."""
        return bool(self.usd_per_gpu_hour or self.elastic_usd_per_gpu_hour)
