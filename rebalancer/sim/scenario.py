"""A scenario: what arrives as work, what serves it, and what there is to serve it with."""

from dataclasses import dataclass

from rebalancer.sim.demand import F64

BY_MINUTE = frozenset({"S1a", "S1b"})  # users were promised a p99 by the minute, as Faro's lost utility measures it


@dataclass(frozen=True, slots=True)
class ScenarioModel:
    """One model as a scenario serves it.

    `work`: (seconds,) replica-seconds of work that arrive in each second; `requests`: (seconds,) how many carry it.
    A second's arrivals wait max(0, backlog / ready - `headroom_seconds`) s: late above `slo_wait_seconds`, gone above
    `patience_seconds`, turned away where the backlog holds more than `queue_base` + `queue_per_replica` x ready
    requests. Of a `deferred` model late is what is finished later than `slo_wait_seconds` after it came. A replica
    serves `start_seconds` after it was placed; its GPUs are free `release_seconds` after it was asked to go.

    For metrics that count requests: a full replica has `slots` in hand, the batch of the measured profiles; a recorded
    request stands for `scale` of them, where a trace was thinned or its work multiplied. `recorded_slots`: the same
    batch in recorded requests, which are what a score counts.
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
        """Recorded requests that a full replica has in hand."""
        return self.slots / self.scale

    def in_hand(self, busy_share: float) -> float:
        """Recorded requests in service on one replica that is busy for that share of its time."""
        return busy_share * self.recorded_slots


@dataclass(frozen=True, slots=True)
class NodeChange:
    """From that second on a node (its place among `nodes`) offers so many GPUs, and nobody runs on it.

    A machine that goes may be announced `notice_seconds` before: Karpenter hears of it too and drains it at once.
    """

    second: int
    node: int
    gpus: int
    notice_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Launches:
    """Nodes that Karpenter brings for pods that wait, at most `most` of `gpus` each, and takes when they stay empty.

    `took`: from one order after the other, the seconds until the node takes pods, None where the cloud had no
    capacity; after the last the first again. Without capacity nothing is ordered for `rest_seconds`. A node on which
    nothing has run for `empty_seconds` goes.
    """

    gpus: int
    most: int
    took: tuple[int | None, ...]
    rest_seconds: int = 45
    empty_seconds: int = 300


PRIMARY, ELASTIC = 0, 1  # the pools of a scenario: GPUs that models own, and GPUs that nobody does


@dataclass(frozen=True, slots=True)
class Scenario:
    """Models on one set of nodes. `nodes`: GPUs of each; a fixed budget is their sum. `seconds` to play.

    `surges`: seconds in which sudden surges begin, where demand has such; recovery is measured from them. The last
    `elastic` of `nodes` are of the elastic pool, and so are those that `launches` brings. `changes`: machines that go
    and come. Prices: GPUs that pods hold, in the primary and in the elastic pool; of launched nodes all GPUs, used or
    not, from the order on.
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
