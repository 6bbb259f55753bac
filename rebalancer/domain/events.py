"""Events from outside (metric samples, notices of lost capacity, Kubernetes objects), and records rejected as none.

`Position` orders records of one source; the newest by (source, time, partition, offset) wins. Absent is not zero: a
gauge or counter that a sample does not carry is None.
"""

from typing import Annotated

from msgspec import Meta, Struct

from rebalancer.domain.cluster import ClusterObject
from rebalancer.domain.instant import Instant

METRIC_SAMPLE_TYPE = "io.rebalancer.metric.sample.v1"
METRIC_READINGS_TYPE = "io.rebalancer.metric.readings.v1"
CAPACITY_NOTICE_TYPE = "io.rebalancer.capacity.notice.v1"
# What a wire value may be. 1e12 is more than any counter here reaches, so whatever is above it is a fault, not a load;
# a mean of ones may come out as 1.0000000000000002.
Amount = Annotated[float, Meta(ge=0, le=1e12)]
Ratio = Annotated[float, Meta(ge=0, le=1.000001)]
Mebibytes = Annotated[float, Meta(ge=0, le=1e9)]  # of one pod's GPUs; DCGM's blank for 32 bits is 2147483632
MAX_AHEAD_SECONDS = 5.0  # an event further in the future than this is rejected: its clock cannot be trusted


class Position(Struct, frozen=True, order=True, gc=False):
    """Where a record stands in Kafka."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"


class Gauges(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """Values of one model or pod at one instant; None: the sample does not carry the gauge.

    running: requests in work.
    waiting: requests in the queue.
    kv_cache_use: share of the KV cache in use, 0-1.
    gpu_utilisation: share of the time in which the GPUs had work, 0-1.
    fb_used_mib: framebuffer memory of the GPUs in use, MiB.
    fb_free_mib: framebuffer memory of the GPUs that is free, MiB.
    ttft_p95_seconds: 95th percentile of the time to the first token, seconds.
    latency_p95_seconds: 95th percentile of the latency, seconds.
    latency_p99_seconds: 99th percentile of the latency, seconds; it stands in where no 95th is measured.
    ttft_p95_above_seconds: what the 95th percentile of the time to the first token lies above, seconds: it fell into
        its histogram's last bucket, which has no upper bound.
    latency_p95_above_seconds: the same of the latency.
    latency_p99_above_seconds: the same of the latency's 99th percentile.
    """

    running: Amount | None = None
    waiting: Amount | None = None
    kv_cache_use: Ratio | None = None
    gpu_utilisation: Ratio | None = None
    fb_used_mib: Mebibytes | None = None
    fb_free_mib: Mebibytes | None = None
    ttft_p95_seconds: Amount | None = None
    latency_p95_seconds: Amount | None = None
    latency_p99_seconds: Amount | None = None
    ttft_p95_above_seconds: Amount | None = None
    latency_p95_above_seconds: Amount | None = None
    latency_p99_above_seconds: Amount | None = None

    @property
    def ttft(self) -> tuple[float | None, bool]:
        """The time to the first token, and whether it lies somewhere above that; (None, False) where nobody tells."""
        if self.ttft_p95_seconds is None:
            return self.ttft_p95_above_seconds, self.ttft_p95_above_seconds is not None
        return self.ttft_p95_seconds, False

    @property
    def latency(self) -> tuple[float | None, bool]:
        """The latency, and whether it lies somewhere above that; (None, False) where nobody tells.

        A 99th percentile is above the 95th that nobody measured: the SLO is kept where it is.
        """
        if self.latency_p95_seconds is not None:
            return self.latency_p95_seconds, False
        if self.latency_p95_above_seconds is not None:
            return self.latency_p95_above_seconds, True
        if self.latency_p99_seconds is not None:
            return self.latency_p99_seconds, False
        return self.latency_p99_above_seconds, self.latency_p99_above_seconds is not None


class Counters(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """Counts since the producer started; None: the sample does not carry the counter.

    start_time: when counting began; another start time means that the producer restarted.
    requests_finished: requests answered.
    requests_left: requests whose clients gave up or that were turned away, none of them finished; None counts as none.
    prompt_tokens: tokens read.
    generated_tokens: tokens written.
    """

    start_time: Instant
    requests_finished: Amount | None = None
    requests_left: Amount | None = None
    prompt_tokens: Amount | None = None
    generated_tokens: Amount | None = None


class MetricSample(Struct, frozen=True, gc=False, tag="metric"):
    """One producer's measurements of a model, or of one of its pods, at one instant.

    source: name of the producer (CloudEvents source).
    id: the producer's id of the record (CloudEvents id).
    at: when it was measured, by the producer's clock (event time).
    model: model id or one of the model's aliases; "" where the pod alone says whose it is.
    interval_seconds: seconds between two samples of the producer.
    gauges: values at that instant.
    pod: UID of the pod, or its name beside `namespace`; None where the sample is of the whole model.
    counters: counts up to that instant, None where the producer has none.
    position: where the record stands in Kafka (the first of those it is gathered from), None where it came another way.
    namespace: namespace of a pod that is told by its name; None where `pod` is its UID.
    order: of several samples of one instant the one with the highest is the fullest; 0 where the position orders them.
    """

    source: str
    id: str
    at: Instant
    model: str
    interval_seconds: float
    gauges: Gauges
    pod: str | None = None
    counters: Counters | None = None
    position: Position | None = None
    namespace: str | None = None
    order: int = 0


class CapacityNotice(Struct, frozen=True, tag="notice"):
    """Word that a node or instance will vanish, or that an earlier notice of it is taken back.

    source: name of the producer (CloudEvents source).
    id: the producer's id of the record.
    at: when the notice was given (event time).
    kind: one of `notice_kinds.KINDS`.
    deadline: when the capacity vanishes at the earliest.
    node: name of the node, None where `instance_id` names the capacity.
    instance_id: the cloud's id of the instance, None where `node` names the capacity.
    voluntary: whether it is consolidation or drift, so that a replacement node comes by itself.
    cancelled: whether it takes earlier notices back: those of its `event`, or all of its kind where that is "".
    position: where the record stands in Kafka, None where it came another way.
    ends_at: the capacity vanishes before this instant or is spared; None where only the deadline is known.
    event: the source's name for one of several plans for the same capacity (AWS Health: the event's ARN), "" for none.
    confidence: how sure it is, one of `notice_kinds.CONFIDENCES`.
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
    confidence: str = "certain"


class Rejection(Struct, frozen=True, tag="rejection"):
    """A record that could not become an event; the dead-letter topic has its bytes beside this.

    position: where the record stands in Kafka.
    at: when it was rejected.
    reason: one of a small closed set of words, by which rejections are counted.
    detail: sentence for people: which part of the record is wrong, and how.
    """

    position: Position
    at: Instant
    reason: str
    detail: str


class ObjectsListed(Struct, frozen=True, tag="listed"):
    """A complete list of one source's objects: whatever is in neither `objects` nor `unreadable` is gone.

    source: one of `cluster.SOURCES`.
    at: when the list came.
    objects: every object that could be read.
    unreadable: `NAMESPACE/NAME` of objects that exist and cannot be read; state goes on with their last readable
        version.
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
    """One object (`NAMESPACE/NAME`) came or changed and cannot be read: its last readable version goes on to count."""

    source: str
    at: Instant
    name: str


class ObjectGone(Struct, frozen=True, tag="gone"):
    """One object was deleted."""

    source: str
    at: Instant
    object: ClusterObject


class SourceState(Struct, frozen=True, tag="source"):
    """A source came alive, or it says why it is not.

    source: one of `cluster.SOURCES`.
    at: when that was seen.
    trouble: sentence that says why it is not alive, None while it is.
    absent: whether the cluster does not have that API at all.
    denied: whether nobody gave us the right to read it.
    """

    source: str
    at: Instant
    trouble: str | None = None
    absent: bool = False
    denied: bool = False


Event = MetricSample | CapacityNotice | ObjectsListed | ObjectChanged | ObjectUnreadable | ObjectGone | SourceState
