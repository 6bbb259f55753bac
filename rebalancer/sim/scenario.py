"""A scenario: what arrives as work, what serves it, and what there is to serve it with."""

from dataclasses import dataclass

from rebalancer.sim.demand import F64


@dataclass(frozen=True, slots=True)
class Model:
    """One model as a scenario serves it.

    `work`: (seconds,) replica-seconds of work that arrive in each second; `requests`: (seconds,) how many carry it.
    A second's arrivals wait max(0, backlog / ready - `headroom_seconds`) s: late above `slo_wait_seconds`, gone above
    `patience_seconds`, turned away where the backlog holds more than `queue_base` + `queue_per_replica` x ready
    requests (the fluid form of allocation.md). A replica serves `start_seconds` after it was placed; its GPUs are free
    `release_seconds` after it was asked to go.
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


@dataclass(frozen=True, slots=True)
class Change:
    """From that second on a node (its place among `nodes`) offers so many GPUs, and nobody runs on it."""

    second: int
    node: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """Models on one set of nodes. `nodes`: GPUs of each; a fixed budget is their sum. `seconds` to play.

    `surges`: seconds in which sudden surges begin, where demand has such; recovery is measured from them. `changes`, in
    order of time: machines that go and come. One is empty from its notice on, as draining leaves it; what it serves at
    that moment is served. The fast path plays them, the full world does not yet.
    """

    name: str
    day: str
    models: tuple[Model, ...]
    nodes: tuple[int, ...]
    seconds: int
    usd_per_gpu_hour: float = 0.0
    by_model: bool = False
    surges: tuple[int, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def gpus(self) -> int:
        """The budget."""
        return sum(self.nodes)
