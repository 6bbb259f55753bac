"""What comes in: typed events, and typed rejections of what cannot be one.

`Position` orders records of one source; newest by (source, time, partition, offset) wins. Absent is not zero: a gauge
or counter that a sample does not carry is None.
"""

from typing import Annotated

from msgspec import Meta, Struct

from rebalancer.domain.cluster import ClusterObject
from rebalancer.domain.instant import Instant

METRIC_SAMPLE_TYPE = "io.rebalancer.metric.sample.v1"
# What a wire value may be. 1e12 is more than any counter here reaches, so whatever is above it is a fault, not a load;
# a mean of ones may come out as 1.0000000000000002.
Amount = Annotated[float, Meta(ge=0, le=1e12)]
Ratio = Annotated[float, Meta(ge=0, le=1.000001)]
Mebibytes = Annotated[float, Meta(ge=0, le=1e9)]  # of one pod's GPUs; DCGM's blank for 32 bits is 2147483632
MAX_AHEAD_SECONDS = 5.0  # an event further in the future than this is rejected: its clock cannot be trusted


class Position(Struct, frozen=True, order=True):
    """Where a record stands in Kafka."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"


class Gauges(Struct, frozen=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """Instant values of one model or pod. Ratios 0-1, latencies in seconds, memory in MiB."""

    running: Amount | None = None
    waiting: Amount | None = None
    kv_cache_use: Ratio | None = None
    gpu_utilisation: Ratio | None = None
    fb_used_mib: Mebibytes | None = None
    fb_free_mib: Mebibytes | None = None
    ttft_p95_seconds: Amount | None = None
    latency_p95_seconds: Amount | None = None
    latency_p99_seconds: Amount | None = None


class Counters(Struct, frozen=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """Cumulative since `start_time` (epoch seconds; a new start time means the producer restarted).

    `requests_left`: whose clients gave up or that were turned away, none of those finished; None counts as none.
    """

    start_time: Instant
    requests_finished: Amount | None = None
    requests_left: Amount | None = None
    prompt_tokens: Amount | None = None
    generated_tokens: Amount | None = None


class MetricSample(Struct, frozen=True, tag="metric"):
    """One producer's look at a model (`pod` None) or at one of its pods (`pod` = UID) at `at`, event time."""

    source: str
    id: str
    at: Instant
    model: str
    interval_seconds: float
    gauges: Gauges
    pod: str | None = None
    counters: Counters | None = None
    position: Position | None = None


class CapacityNotice(Struct, frozen=True, tag="notice"):
    """Capacity that will vanish at `deadline`.

    `kind`: spot-interruption, rebalance, scheduled-change, reservation-interruption, state-change, or disruption
    (Karpenter's taint or a NodeClaim's deletion). `voluntary`: consolidation, drift: its replacement node
    comes by itself. `node` or `instance_id` says which; `cancelled` takes an earlier notice back. `ends_at`: the
    capacity may vanish until then, and is spared when it did not; None where only the deadline is told. `event`: which
    of several plans for the same capacity it is about, as its source names them (AWS Health: the event's ARN); "" where
    it does not: then `cancelled` takes back all of that kind.
    """

    source: str
    id: str
    at: Instant
    kind: str
    deadline: Instant
    node: str | None = None
    instance_id: str | None = None
    voluntary: bool = False
    cancelled: bool = False
    position: Position | None = None
    ends_at: Instant | None = None
    event: str = ""


class Rejection(Struct, frozen=True, tag="rejection"):
    """A record that could not become an event; the dead-letter topic keeps its bytes beside this."""

    position: Position
    at: Instant
    reason: str
    detail: str


class ObjectsListed(Struct, frozen=True, tag="listed"):
    """The full truth about one source: what is not in `objects` is gone.

    But for what is `unreadable` (`NAMESPACE/NAME`): it is there, nobody knows how, and what was known of it stands.
    """

    source: str
    at: Instant
    objects: tuple[ClusterObject, ...] = ()
    unreadable: tuple[str, ...] = ()


class ObjectChanged(Struct, frozen=True, tag="changed"):
    """One object as it stands now."""

    source: str
    at: Instant
    object: ClusterObject


class ObjectUnreadable(Struct, frozen=True, tag="unreadable"):
    """One object (`NAMESPACE/NAME`) was added or changed and cannot be read: as in a list, what was known stands."""

    source: str
    at: Instant
    name: str


class ObjectGone(Struct, frozen=True, tag="gone"):
    """One object was deleted."""

    source: str
    at: Instant
    object: ClusterObject


class SourceState(Struct, frozen=True, tag="source"):
    """A source came alive (`trouble` None), or why it is not; `absent` = the cluster does not have that API."""

    source: str
    at: Instant
    trouble: str | None = None
    absent: bool = False


Event = MetricSample | CapacityNotice | ObjectsListed | ObjectChanged | ObjectUnreadable | ObjectGone | SourceState
