"""Everything that reads bytes of others: where real records of its kind are, and what it may say to bad ones.

Each `read` takes any bytes and raises nothing: what the decoder may refuse with is caught in it, by name.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from rebalancer.api.text.words import printable
from rebalancer.aws.queue import NoQueue, QueueRefusal, Received, answered
from rebalancer.cli.commands.events.sources import in_text
from rebalancer.cli.render.events import render_events, summary
from rebalancer.domain.cluster import DEVICE_SOURCES, SOURCES, ClusterObject
from rebalancer.domain.events import MetricSample, ObjectChanged
from rebalancer.domain.memory import Memory
from rebalancer.domain.producers import MetricProducer
from rebalancer.domain.snapshot import Snapshot
from rebalancer.ingest.aggregated import PartitionStretch, decode_readings, readings_records
from rebalancer.ingest.decode import decode_metric
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.notice_queue import record_of
from rebalancer.ingest.notices import decode_notice
from rebalancer.ingest.objects import SHAPES, SHAPES_BESIDE, STATEFUL_SETS, Unusable, WireShape, shape_of, value_of
from rebalancer.ingest.objects.targets import ScalePaths
from rebalancer.ingest.past.looks import read_range
from rebalancer.ingest.past.minutes import minutes
from rebalancer.ingest.producers.formats import DECODERS as DECODERS_OF_PRODUCERS
from rebalancer.ingest.producers.stream import ProducerStream
from rebalancer.ingest.prometheus_answer import read_answer
from rebalancer.ingest.understood import Understanding
from rebalancer.kube.errors import KubeError
from rebalancer.kube.resources import Resource
from rebalancer.kube.wire import change_decoder, decode_list
from rebalancer.leader.candidate import Candidate
from rebalancer.leader.lease import EPOCH, decoded
from rebalancer.leader.timing import TIMING
from rebalancer.planning import plan
from rebalancer.state import ClusterState
from rebalancer.survey.traps.series import pods_by_metric
from tests.builders import a_model, a_policy, a_pool, an_elastic_pool
from tests.fuzz.decoder import Decoder
from tests.fuzz.files import OF_FILES
from tests.fuzz.recorded import OF_RECORDS
from tests.fuzz.seeds import recorded
from tests.fuzz.signed import OVERRIDE_RECORDS
from tests.ingest import devices, manifests, quota_manifests
from tests.ingest.producers.records import RUNNING, producer
from tests.ingest.wire import HERE, NOW, event, eventbridge, notice
from tests.state.objects import a_cluster_node, a_ready_pod, a_workload, feed

POLICY = Path(__file__).parents[2] / "config/policy.yaml"
STRUCTURED: Headers = (("content-type", b"application/cloudevents+json"),)
LWS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", namespaced=True, kind="LeaderWorkerSet")


# --- events


def _records() -> Iterator[bytes]:
    yield event()
    yield notice()
    yield eventbridge("EC2 Spot Instance Interruption Warning", {"instance-id": "i-0b662ef9931388ba0"})
    yield from recorded("notices", "*.json")
    yield from recorded("kafka", "*.json")


def _metric(data: bytes) -> object:
    return [decode_metric(data, headers, HERE, NOW, NOW) for headers in (STRUCTURED, ())]


def _notice(data: bytes) -> object:
    return [decode_notice(data, headers, HERE, NOW, NOW) for headers in (STRUCTURED, ())]


def _readings(data: bytes) -> object:
    return decode_readings(data, STRUCTURED, HERE, NOW, NOW)


def _readings_records() -> Iterator[bytes]:
    sample = decode_metric(event(), STRUCTURED, HERE, NOW, NOW)
    assert isinstance(sample, MetricSample)
    stretch = PartitionStretch("metrics", 0, 12, 7, 8, NOW)
    yield from (value for _, value in readings_records(stretch, [sample, sample], "aggregate", NOW))


# --- what `events check` tells of a file, by each format


def _files() -> Iterator[bytes]:
    yield from _records()
    yield from (RUNNING[name] for name in sorted(RUNNING))
    kcat = {"topic": "m", "partition": 2, "offset": 7, "ts": 1, "headers": ["ce_id", "1"], "payload": event().decode()}
    yield json.dumps(kcat).encode()
    yield from recorded("kafka", "*")


def _check(data: bytes) -> object:
    """Each record is told: what is understood, why not, or that nothing in it is asked for."""
    ways = [Understanding(MetricProducer(topic="t", decoder=each)) for each in DECODERS_OF_PRODUCERS]
    for reading in (Understanding(), Understanding(notices=True), *ways):
        records = list(in_text(data, "file", NOW))
        understood = [reading.of(record, NOW) for record in records]
        told = render_events(understood)
        missing = [one.where for one in understood if printable(one.where) not in told]
        assert not missing, missing
        msgspec.json.encode({"records": understood, "summary": summary(understood)})
    return None


# --- answers of a Prometheus, as `observe` and `bridge` read them


def _answers() -> Iterator[bytes]:
    whose = {"namespace": "serving", "pod": "chat-0"}
    figures = {"at": NOW, "running": 3.0, "ttftP95Seconds": 30.0, "ttftP95Seconds.below": 0.5, "requestsFinished": 7.0}
    rows = [({**whose, "reading": f"vllm/{name}"}, str(figure)) for name, figure in figures.items()]
    yield json.dumps([{"metric": labels, "value": [NOW, value]} for labels, value in rows]).encode()
    yield json.dumps(
        [{"metric": labels, "values": [[NOW, value], [NOW + 60, value]]} for labels, value in rows]
    ).encode()


def _answer(data: bytes) -> object:
    """Whatever is in it, the poll that asked says that it failed: what is no answer is a ValueError."""
    with suppress(ValueError, RecursionError):
        result = json.loads(data)
        for read in (
            lambda: read_answer(result, lambda *_: ("chat", "uid", 1.0), 15.0, ["chat"]),
            lambda: list(minutes(read_range(result, lambda *_: ("chat", "uid", 1.0)), 60.0, {"chat": 2.0})),
            lambda: pods_by_metric(result, ["vllm:num_requests_running"]),
        ):
            with suppress(ValueError):
                read()
    return None


# --- records of stock producers, as far as samples


def _series() -> Iterator[bytes]:
    yield from (RUNNING[name] for name in sorted(RUNNING))


def _samples(data: bytes) -> object:
    """Two records of one stream, amid good ones, an interval apart; what is made of them is as of any sample."""
    for name in sorted(RUNNING):
        stream = ProducerStream(producer(name), Counter[str]())
        for number, record in enumerate((RUNNING[name], data, data, RUNNING[name])):
            at = NOW + 15.0 * number
            samples, _ = stream.take(record, HERE, at, at)
            for sample in (*samples, *stream.settled(at + 1.0)):
                assert msgspec.convert(msgspec.to_builtins(sample), MetricSample) == sample
    return None


# --- answers of SQS, and what comes into the topic of them


def _sqs_answers() -> Iterator[bytes]:
    warning = eventbridge("EC2 Spot Instance Interruption Warning", {"instance-id": "i-0b662ef9931388ba0"}).decode()
    attributes = {"SentTimestamp": "1799999980000", "ApproximateReceiveCount": "1"}
    message = {"MessageId": "m-1", "ReceiptHandle": "h-1", "Body": warning, "Attributes": attributes}
    yield json.dumps({"Messages": [message, message | {"Body": "no notice"}]}).encode()
    yield json.dumps({"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no such queue"}).encode()
    yield b"{}"


def _sqs(data: bytes) -> object:
    with suppress(QueueRefusal):
        answered("ReceiveMessage", 400, data, Received)
    try:
        messages = answered("ReceiveMessage", 200, data, Received).messages
    except NoQueue:
        return None
    return [decode_notice(value, (), HERE, NOW, NOW) for _, value in map(record_of, messages)]


# --- the Lease, and what a candidate does upon it


def _leases() -> Iterator[bytes]:
    spec = {"holderIdentity": "rb-0_1f", "leaseDurationSeconds": 8, "renewTime": "2027-01-15T08:00:00.000000Z"}
    metadata = {
        "name": "rebalancer", "resourceVersion": "7", "creationTimestamp": "2027-01-15T07:00:00Z",
        "annotations": {EPOCH: "3"},
    }  # fmt: skip
    yield json.dumps({"metadata": metadata, "spec": spec}).encode()


def _lease(data: bytes) -> object:
    """Refused where it is no object of an API server; else it is seen, and never acted upon before it has lapsed."""
    try:
        obj = msgspec.json.decode(data, type=dict[str, Any])
        lease = decoded(obj)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    candidate = Candidate("rb-1_2e", TIMING).saw(lease, 0.0)
    return candidate.may_act(0.0), candidate.claim(0.0), candidate.claim(1000.0)


# --- objects of Kubernetes, and what is decided upon them


def _objects() -> Iterator[tuple[str, WireShape, dict[str, Any]]]:
    plain = {
        "nodes": manifests.node(),
        "pods": manifests.pod(),
        "deployments": manifests.deployment(),
        "hpas": manifests.hpa(),
        "scaledobjects": manifests.scaled_object(),
        "podautoscalers": manifests.pod_autoscaler(),
        "nodepools": manifests.node_pool(),
        "nodeclaims": manifests.node_claim(),
        "overrides": manifests.override(),
        "writestops": manifests.write_stop(),
    } | {source: build() for source, build in quota_manifests.ALL.items()}
    for source, manifest in plain.items():
        yield source, SHAPES[source], manifest
    for manifest in (
        devices.a_device_class(), devices.a_slice(devices.a_device("gpu-0")), devices.a_claim("c", ("gpu-0",)),
        devices.a_claim_template(),
    ):  # fmt: skip
        source = devices.SOURCE_OF_KIND[manifest["kind"]]
        yield source, SHAPES_BESIDE[source], manifest
    paths = ScalePaths(("spec", "replicas"), ("status", "hpaPodSelector"))
    yield "leaderworkersets", shape_of(LWS, paths), manifests.deployment() | {"kind": "LeaderWorkerSet"}
    yield "statefulsets", STATEFUL_SETS, manifests.deployment() | {"kind": "StatefulSet"}


def _watched(source: str, shape: WireShape, manifest: dict[str, Any]) -> Decoder:
    """A watch line through the wire, the value, the state, and a plan upon it; and the same object in a list."""
    named = json.loads(json.dumps(manifest).replace("llama", "b"))
    line = json.dumps({"type": "MODIFIED", "object": named}).encode()
    whole = json.dumps({"metadata": {"resourceVersion": "7"}, "items": [named, manifest]}).encode()

    def read(data: bytes) -> object:
        with suppress(msgspec.DecodeError):
            return [value_of(source, item, shape) for item in decode_list(data, shape.wire).items]
        try:
            change = change_decoder(shape.wire)(data)
        except KubeError:
            return None
        value = value_of(source, change.obj, shape) if change.obj is not None else None
        if value is None or isinstance(value, Unusable) or source not in {*SOURCES, *DEVICE_SOURCES}:
            return value
        return _planned(source, value)

    return Decoder(source, lambda: iter((line, whole)), read)


def _planned(source: str, value: ClusterObject) -> Snapshot:
    policy = a_policy(a_model("b", pools=("a100", "spot")), pools=(a_pool(), an_elastic_pool()))
    state = ClusterState(policy, NOW)
    objects: dict[str, ClusterObject] = {
        "nodes": a_cluster_node("n1"),
        "deployments": a_workload("b", replicas=2),
        "pods": a_ready_pod("b-1"),
    }
    before = (ObjectChanged(each, NOW, one) for each, one in objects.items())
    feed(state, *before, ObjectChanged(source, NOW, value), now=NOW)
    snapshot = state.snapshot(NOW, 1)
    plan(snapshot, policy, Memory())
    return snapshot


DECODERS = (
    Decoder("metrics", _records, _metric),
    Decoder("notices", _records, _notice),
    OVERRIDE_RECORDS,
    Decoder("readings", _readings_records, _readings),
    Decoder("events-check", _files, _check, longest_seconds=2.0),
    Decoder("producers", _series, _samples),
    Decoder("sqs-answers", _sqs_answers, _sqs),
    Decoder("lease", _leases, _lease),
    Decoder("prometheus-answers", _answers, _answer),
    *(_watched(*one) for one in _objects()),
    *OF_FILES,
    *OF_RECORDS,
)
