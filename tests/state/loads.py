"""What tests of readings and offered work share: a model with two pods, and what was made of its samples."""

from collections.abc import Iterable

from rebalancer.domain.events import Event, MetricSample
from rebalancer.domain.policy import Policy
from rebalancer.domain.readings import ModelLoad, NoReading, Signal
from rebalancer.domain.snapshot import Snapshot
from rebalancer.state import ClusterState
from rebalancer.state.checkpoint import ModelPast
from rebalancer.state.ring_level import REQUESTS, WORK
from rebalancer.state.rings import Rings
from tests.builders import NOW
from tests.state.objects import (
    a_cluster_node,
    a_ready_pod,
    a_sample,
    a_state,
    a_workload,
    at_offset,
)

NEVER_SEEN, ABSENT = NoReading("never-seen"), NoReading("absent")


def load_of(found: ClusterState | Snapshot, model: str = "b", now: float = NOW) -> ModelLoad:
    snapshot = found if isinstance(found, Snapshot) else found.peek(now)
    return next(load for load in snapshot.loads if load.model == model)


def signal_of(state: ClusterState, name: str, now: float = NOW) -> Signal:
    return load_of(state, now=now).signals[name]


def two_pods(policy: Policy | None = None) -> ClusterState:
    """Model b with pods b-1 and b-2, both Ready for minutes."""
    return a_state(policy, a_cluster_node(), a_workload(replicas=2), a_ready_pod("b-1"), a_ready_pod("b-2"))


def minutes_of(
    model: str = "b", pods: Iterable[str] = ("b-1", "b-2"), running: float = 4.0, minutes: int = 10
) -> list[Event]:
    """A sample of each pod every 5 s until NOW."""
    return [
        a_sample(model, pod, at=NOW - 60.0 * minutes + 5.0 * n, running=running)
        for n in range(1, 12 * minutes + 1)
        for pod in pods
    ]


def kept(state: ClusterState, channel: int) -> list[float]:
    """One channel of model b in every observed second, as the checkpoint has it."""
    rings = Rings(1)
    rings.restore(0, ModelPast.from_bytes(state.rings_bytes("b")).rings)
    return [float(value) for value in rings.series(0, channel)[1]]


def requests_per_second(state: ClusterState) -> list[float]:
    return kept(state, REQUESTS)


def work_per_second(state: ClusterState) -> list[float]:
    return kept(state, WORK)


def as_delivered(samples: list[MetricSample]) -> list[MetricSample]:
    """Kafka numbers records in the order in which it hands them out."""
    return [at_offset(sample, offset) for offset, sample in enumerate(samples)]
