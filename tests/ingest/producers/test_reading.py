"""Records of other producers through the reader into the state: for the right pod, and what is bad is told once."""

import json
import random
from collections.abc import Sequence

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from msgspec.structs import replace
from structlog.testing import capture_logs

from rebalancer.domain.events import Event, Gauges, MetricSample
from rebalancer.domain.producers import MetricProducer
from rebalancer.domain.readings import Reading
from rebalancer.ingest.reader import DECODERS, Reader
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.frontier import Frontier
from rebalancer.loop.clock import RealClock
from rebalancer.state import ClusterState
from rebalancer.state.checkpoint import ModelPast
from tests.ingest.producers.records import AT, NOW, RUNNING, producer
from tests.ingest.rig import Refusing
from tests.ingest.wire import event
from tests.state.loads import load_of, requests_per_second, signal_of
from tests.state.objects import a_ready_pod, a_state, a_workload

OTHERS = TopicPartition("others", 0)
OURS = TopicPartition("rebalancer.metrics", 0)


def a_reader(sink: list[Event], *producers: MetricProducer) -> Reader:
    letters = DeadLetters(Refusing(), RealClock(), random.Random(1))
    reader = Reader({OURS.topic: DECODERS["metrics"]}, sink.extend, letters)
    reader.frontiers = {one: Frontier(0) for one in (OTHERS, OURS)}
    reader.follow(producers)
    return reader


def batch(
    *values: bytes, where: TopicPartition = OTHERS, offset: int = 0
) -> dict[TopicPartition, Sequence[ConsumerRecord]]:
    records = [
        ConsumerRecord(where.topic, where.partition, place, int((NOW - 1) * 1000), 0, None, value, None, 0, 0, ())
        for place, value in enumerate(values, offset)
    ]
    return {where: records}


def a_serving_state() -> ClusterState:
    """A state that knows the ready pod b-1 of model b, in the namespace `default` of the tests' objects."""
    return a_state(None, a_workload(), a_ready_pod(created_at=NOW - 900, ready_at=NOW - 800), started_at=NOW - 600)


def running(state: ClusterState) -> float:
    signal = signal_of(state, "concurrency", NOW + 1)
    assert isinstance(signal, Reading), signal
    return signal.value


def of_pod(namespace: str, name: str, value: float = 12) -> bytes:
    record = {"name": "prometheus", "tags": {"namespace": namespace, "pod": name}, "timestamp": int(AT)}
    return json.dumps(record | {"fields": {"vllm:num_requests_running": value}}).encode()


def test_a_record_of_a_producer_counts_for_its_pod_half_a_second_later() -> None:
    state, events = a_serving_state(), list[Event]()
    reader = a_reader(events, producer())
    pod = a_ready_pod()
    reader.read(batch(of_pod(pod.namespace, pod.name)), NOW)
    assert events == []
    reader.read({}, NOW + 0.5)
    state.apply_all(events, NOW + 0.5)
    assert running(state) == 12.0


def test_counters_of_a_producer_make_the_arrivals_of_its_model_known() -> None:
    state, events = a_serving_state(), list[Event]()
    reader = a_reader(events, producer())
    pod = a_ready_pod()
    for count in range(41):
        at = NOW - 600 + 15 * count
        record = {"name": "prometheus", "tags": {"namespace": pod.namespace, "pod": pod.name}, "timestamp": int(at)}
        counted = {"vllm:request_success_total": 30.0 * count, "vllm:generation_tokens_total": 3000.0 * count}
        gauges = {"vllm:num_requests_running": 8.0, "vllm:num_requests_waiting": 0.0}
        reader.read(batch(json.dumps(record | {"fields": gauges | counted}).encode()), at + 1)
        reader.read({}, at + 2)
        state.apply_all(events, at + 2)
        events.clear()
    assert load_of(state, now=NOW + 2).work.source == "arrivals"
    known = [rate for rate in requests_per_second(state) if rate == rate]  # noqa: PLR0124  NaN equals nothing
    assert known[-60:] == pytest.approx([2.0] * 60)


@pytest.mark.parametrize("late_scrapes", [0, 3])
def test_a_part_of_a_counter_that_is_seen_later_than_others_is_no_burst(late_scrapes: int) -> None:
    """The second batch of a scrape that comes after its sample, or another partition of a topic without keys."""
    state, events, pod = a_serving_state(), list[Event](), a_ready_pod()
    reader = a_reader(events, producer())
    tags = {"namespace": pod.namespace, "pod": pod.name}
    for count in range(41):
        at, done = NOW - 600 + 15 * count, 1e6 + 15 * count
        record = {"name": "prometheus", "timestamp": int(at)}
        counted = {"vllm:request_success_total": done, "vllm:generation_tokens_total": 100 * done}
        gauges = {"vllm:num_requests_running": 8.0, "vllm:num_requests_waiting": 0.0}
        first, second = (
            json.dumps(record | {"tags": tags | {"finished_reason": reason}, "fields": fields}).encode()
            for reason, fields in (("stop", gauges | counted), ("length", counted))
        )
        reader.read(batch(first), at + 1)
        reader.read({}, at + 2)
        if count >= late_scrapes:
            reader.read(batch(second), at + 2)
        reader.read({}, at + 3)
        state.apply_all(events, at + 3)
        events.clear()
    known = [rate for rate in requests_per_second(state) if rate == rate]  # noqa: PLR0124  NaN equals nothing
    assert max(known) <= 4.0, "two requests a second, those of one scrape told by two samples at most"
    assert load_of(state, now=NOW + 3).work.last_60s == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("late_scrape", [0, 20])
@pytest.mark.parametrize("apart", ["vllm:prompt_tokens_total", "vllm:generation_tokens_total"])
def test_a_token_counter_that_comes_after_its_scrapes_sample_is_no_burst(apart: str, late_scrape: int) -> None:
    """In another record than the rest, as of a producer that sends each metric by itself."""
    state, events, pod = a_serving_state(), list[Event](), a_ready_pod()
    reader = a_reader(events, producer())
    for count in range(41):
        at, done = NOW - 600 + 15 * count, 1e6 + 15 * count
        counted = {"vllm:prompt_tokens_total": 1000 * done, "vllm:generation_tokens_total": 100 * done}
        late = {apart: counted.pop(apart)}
        gauges = {"vllm:num_requests_running": 8.0, "vllm:num_requests_waiting": 0.0}
        tags = {"namespace": pod.namespace, "pod": pod.name}
        record = {"name": "prometheus", "timestamp": int(at), "tags": tags}
        first, second = (
            json.dumps(record | {"fields": fields}).encode()
            for fields in (gauges | counted | {"vllm:request_success_total": done}, late)
        )
        reader.read(batch(first), at + 1)
        if count == late_scrape:
            reader.read({}, at + 2)
        reader.read(batch(second), at + 2)
        reader.read({}, at + 3)
        state.apply_all(events, at + 3)
        events.clear()
        load = load_of(state, now=at + 3)
        if count > max(late_scrape, 8):
            assert load.work.last_60s == pytest.approx(2.0, rel=0.25), f"scrape {count}"
            assert load.tokens is not None
            assert load.tokens.generated == pytest.approx(100.0, rel=1.0), f"scrape {count}"


@pytest.mark.parametrize(("made", "equal"), [(None, slice(None)), (100_041, slice(-270, None))])
def test_after_a_restart_a_topic_behind_another_source_counts_on_and_nothing_twice(
    made: int | None, equal: slice
) -> None:
    """Prometheus is polled beside it, so all that the topic tells is older than the newest that the rings have.

    An older version numbered what it `made` of the topic, and its checkpoint has that number in place of an offset:
    what is no newer than the checkpoint's newest sample is lost then, and nothing after it.
    """
    pod, late = a_ready_pod(), 20.0
    record = {"name": "prometheus", "tags": {"namespace": pod.namespace, "pod": pod.name}}

    def serve(state: ClusterState, first: int, last: int) -> None:
        events = list[Event]()
        reader = a_reader(events, producer())
        for count in range(first, last):
            at = NOW - 1200 + 15 * count
            polled = MetricSample("prometheus", f"{at}", at + late, "b", 15.0, Gauges(running=8.0), pod.uid)
            gauges = {"vllm:num_requests_running": 8.0, "vllm:num_requests_waiting": 0.0}
            counted = {"vllm:request_success_total": 30.0 * count, "vllm:generation_tokens_total": 3000.0 * count}
            value = json.dumps(record | {"timestamp": int(at), "fields": gauges | counted}).encode()
            reader.read(batch(value, offset=count), at + late)
            reader.read({}, at + late + 1)
            state.apply_all([polled, *events], at + late + 1)
            events.clear()

    through, before, after = a_serving_state(), a_serving_state(), a_serving_state()
    serve(through, 0, 60)
    serve(before, 0, 40)
    past = ModelPast.from_bytes(before.rings_bytes("b"))
    if made is not None:
        past = replace(past, positions={"others/0": made})
    after.restore_rings("b", past.to_bytes())
    serve(after, 37, 60)
    assert requests_per_second(after)[equal] == pytest.approx(requests_per_second(through)[equal])
    assert load_of(after, now=NOW - 1200 + 59 * 15 + late + 1).work.source == "arrivals"


def test_of_scrapes_that_are_read_in_one_go_each_pods_count_whatever_order_they_come_in() -> None:
    pods = [a_ready_pod(name, created_at=NOW - 900, ready_at=NOW - 800) for name in ("b-1", "b-2")]
    state = a_state(None, a_workload(replicas=2), *pods, started_at=NOW - 600)
    values, events = list[bytes](), list[Event]()
    for count in range(41):
        for pod in pods if count % 3 else reversed(pods):
            tags = {"namespace": pod.namespace, "pod": pod.name}
            counted = {"vllm:request_success_total": 30.0 * count, "vllm:generation_tokens_total": 3000.0 * count}
            gauges = {"vllm:num_requests_running": 8.0, "vllm:num_requests_waiting": 0.0}
            record = {"name": "prometheus", "tags": tags, "timestamp": int(NOW - 600 + 15 * count)}
            values.append(json.dumps(record | {"fields": gauges | counted}).encode())
    reader = a_reader(events, producer())
    reader.read(batch(*values), NOW + 1)
    reader.read({}, NOW + 2)
    state.apply_all(events, NOW + 2)
    assert sum(each for each in requests_per_second(state) if each == each) == pytest.approx(2 * 40 * 30.0)  # noqa: PLR0124  not NaN


@pytest.mark.parametrize("uid_of", [None, "engine", "gpu"])
@pytest.mark.parametrize("phase", [3.0, 8.0, 14.0])
def test_a_gpu_that_is_scraped_between_two_scrapes_of_its_engine_hides_no_arrivals(
    phase: float, uid_of: str | None
) -> None:
    """Also where one of the two tells the pod's UID beside its name, and the other the name alone."""
    state, events, pod = a_serving_state(), list[Event](), a_ready_pod()
    reader = a_reader(events, producer())
    named = {"namespace": pod.namespace, "pod": pod.name}
    for count in range(41):
        at = NOW - 600 + 15 * count
        counted = {"vllm:request_success_total": 30.0 * count, "vllm:generation_tokens_total": 3000.0 * count}
        engine = {"vllm:num_requests_running": 8.0, "vllm:num_requests_waiting": 0.0} | counted
        for whose, when, fields in (("engine", at, engine), ("gpu", at + phase, {"DCGM_FI_DEV_GPU_UTIL": 50.0})):
            tags = named | ({"pod_uid": pod.uid} if whose == uid_of else {})
            record = {"name": "prometheus", "tags": tags, "timestamp": int(when), "fields": fields}
            reader.read(batch(json.dumps(record).encode()), when + 0.2)
            reader.read({}, when + 0.9)
        state.apply_all(events, at + phase + 0.9)
        if count > 1:
            assert [one.gauges.gpu_utilisation for one in events if isinstance(one, MetricSample)] == [0.5]
        events.clear()
    work = load_of(state, now=NOW + phase + 0.9).work
    assert work.source == "arrivals"
    assert (work.short, work.last_60s) == pytest.approx((2.0, 2.0))


def test_a_pod_that_nobody_knows_is_counted_and_moves_nothing() -> None:
    state, events = a_serving_state(), list[Event]()
    reader = a_reader(events, producer())
    reader.read(batch(of_pod("elsewhere", "x-1")), NOW)
    reader.read({}, NOW + 1)
    state.apply_all(events, NOW + 1)
    assert state.counters()["unknown-pod"] == 1


def test_what_was_measured_before_a_pod_of_that_name_began_is_not_its_own() -> None:
    state = a_state(None, a_workload(), a_ready_pod(created_at=AT + 1), started_at=NOW - 600)
    events, pod = list[Event](), a_ready_pod()
    reader = a_reader(events, producer())
    reader.read(batch(of_pod(pod.namespace, pod.name)), NOW)
    reader.read({}, NOW + 1)
    state.apply_all(events, NOW + 1)
    assert state.counters() == {"older-than-pod": 1}, "a producer's clock that is behind, or a pod that went"


def test_a_pod_told_by_its_uid_needs_no_model() -> None:
    state, events, pod = a_serving_state(), list[Event](), a_ready_pod()
    record = {"name": "prometheus", "tags": {"pod_uid": pod.uid}, "fields": {"vllm:num_requests_running": 7}}
    reader = a_reader(events, producer())
    reader.read(batch(json.dumps(record | {"timestamp": int(AT)}).encode()), NOW)
    reader.read({}, NOW + 1)
    state.apply_all(events, NOW + 1)
    assert running(state) == 7.0


def test_a_faulty_record_of_a_producer_is_counted_each_time_and_kept_once_a_minute() -> None:
    reader = a_reader([], producer())
    for second in range(61):
        reader.read(batch(b"not json"), NOW + second)
    assert reader.counts["rejected.not-json"] == 61
    assert len(reader._dead_letters._queue) == 2  # noqa: SLF001  nothing else shows what is to be kept


def test_an_unknown_gauge_is_counted_each_time_and_kept_once_a_minute() -> None:
    events = list[Event]()
    reader = a_reader(events)
    value = event({"model": "b", "intervalSeconds": 5, "gauges": {"running": 1, "runing": 2}})
    for second in range(61):
        reader.read(batch(value, where=OURS), NOW + second)
    assert (len(events), reader.counts["rejected.unknown-gauge"]) == (61, 61)
    assert len(reader._dead_letters._queue) == 2  # noqa: SLF001  nothing else shows what is to be kept


@pytest.mark.parametrize(("gauges", "reason"), [("runing", "unknown-gauge"), ("fbUsedMib", "impossible-gauge")])
def test_a_gauge_that_a_whole_fleet_sends_in_vain_is_one_line_of_the_log(gauges: str, reason: str) -> None:
    reader = a_reader([])
    with capture_logs() as lines:
        for number in range(200):
            data = {"model": "b", "intervalSeconds": 5, "gauges": {"running": 1, gauges: -2}}
            reader.read(batch(event(data, source=f"exporter-{number}"), where=OURS), NOW + number)
    assert [(line["event"], line["source"]) for line in lines] == [("gauges are left out", "exporter-0")]
    assert gauges in lines[0]["why"]
    assert reader.counts[f"rejected.{reason}"] == 200


def test_names_without_end_make_no_more_than_a_hundred_lines_an_hour() -> None:
    reader = a_reader([])
    values = [event({"model": "b", "intervalSeconds": 5, "gauges": {"running": 1, f"x{n}": 2}}) for n in range(300)]
    with capture_logs() as lines:
        reader.read(batch(*values, where=OURS), NOW)
        assert len(lines) == 100
        reader.read(batch(values[-1], where=OURS), NOW + 3600)
    assert len(lines) == 101
    assert reader.counts["rejected.unknown-gauge"] == 301


def test_a_topic_that_leaves_the_policy_is_read_no_more_and_one_that_stays_keeps_what_it_gathered() -> None:
    events = list[Event]()
    reader = a_reader(events, producer())
    reader.read(batch(RUNNING["telegraf"]), NOW)
    reader.follow([producer()])
    reader.read({}, NOW + 1)
    assert len(events) == 1
    reader.follow([])
    assert reader._streams == {}  # noqa: SLF001  nothing else shows what is to be kept


def test_our_own_format_may_stand_on_a_topic_of_another_name() -> None:
    events = list[Event]()
    reader = a_reader(events, producer("rebalancer"))
    reader.read(batch(event()), NOW)
    assert len(events) == 1
