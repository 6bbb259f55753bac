"""Which gauge a series is, of which pod, and how a pod's readings become one sample."""

import json

import pytest

from rebalancer.domain.events import Gauges, Rejection
from rebalancer.ingest.engines import ENGINES
from rebalancer.ingest.producers.counted import FORGOTTEN_INTERVALS, plain
from rebalancer.ingest.producers.gathering import SETTLE_SECONDS, PodGathering
from rebalancer.ingest.producers.mapping import MAX_PODS, TOLD_INTERVALS, ProducerMapping, Readings, ToldUids
from tests.ingest.producers.records import AT, HERE, NOW, POD, RUNNING, producer, read, readings, samples


def telegraf(fields: dict[str, float], at: float = AT, **tags: str) -> bytes:
    record = {"name": "prometheus", "tags": {**POD, **tags}, "fields": fields, "timestamp": int(at * 1000)}
    return json.dumps(record).encode()


def test_a_uid_counts_before_namespace_and_name() -> None:
    (one,) = readings(producer(), telegraf({"vllm:num_requests_running": 3}, pod_uid="u-1")).readings
    assert one.pod == ("", "u-1")
    (sample,) = samples(producer(), [telegraf({"vllm:num_requests_running": 3}, pod_uid="u-1")])
    assert (sample.pod, sample.namespace) == ("u-1", None)


def test_a_name_is_that_of_a_uid_told_beside_it_until_nobody_has_told_it_for_some_intervals() -> None:
    mapping = ProducerMapping(producer(intervalSeconds=15))

    def pod_of(now: float, **tags: str) -> tuple[str, str]:
        result = mapping.read(telegraf({"vllm:num_requests_running": 3}, now, **tags), HERE, now, now)
        assert isinstance(result, Readings)
        return result.readings[0].pod

    assert pod_of(NOW) == ("serving", "llama-70b-0")
    assert pod_of(NOW, pod_uid="u-1") == pod_of(NOW + 15) == ("", "u-1")
    assert pod_of(NOW + 30, pod="llama-70b-1") == ("serving", "llama-70b-1")
    assert pod_of(NOW + 45, pod_uid="u-2") == pod_of(NOW + 45 + 15 * TOLD_INTERVALS) == ("", "u-2")
    assert pod_of(NOW + 46 + 15 * TOLD_INTERVALS) == ("serving", "llama-70b-0")
    assert TOLD_INTERVALS <= 4, "longer than a StatefulSet takes to make the next pod of that name"


@pytest.mark.parametrize("own", [{"pod": "dcgm-x"}, {"pod": "llama-70b-0", "namespace": "gpu-operator"}])
def test_an_exporters_own_uid_is_not_that_of_the_pod_that_it_tells_of(own: dict[str, str]) -> None:
    mapping = ProducerMapping(producer())
    of_another = {"exported_namespace": "serving", "exported_pod": "llama-70b-0", "pod_uid": "u-dcgm"}
    mapping.read(telegraf({"DCGM_FI_DEV_GPU_UTIL": 50}, NOW, **of_another, **own), HERE, NOW, NOW)
    result = mapping.read(telegraf({"vllm:num_requests_running": 3}, NOW), HERE, NOW, NOW)
    assert isinstance(result, Readings)
    assert result.readings[0].pod == ("serving", "llama-70b-0")


def test_no_more_uids_are_remembered_than_a_producer_may_have_pods() -> None:
    uids = ToldUids(300.0)
    for number in range(MAX_PODS + 1):
        uids.tell(("serving", f"p-{number}"), f"u-{number}", NOW)
    assert uids.whose(("serving", "p-0"), NOW) == ("serving", "p-0")
    assert uids.whose(("serving", "p-1"), NOW) == ("", "u-1")


@pytest.mark.parametrize("prefix", ["", "exported_"])
def test_what_an_exporter_tells_of_another_pod_through_a_collector_is_of_that_pod(prefix: str) -> None:
    def attributes(**labels: str) -> list[dict[str, object]]:
        return [{"key": key, "value": {"stringValue": value}} for key, value in labels.items()]

    exporter = {"k8s.namespace.name": "gpu-operator", "k8s.pod.name": "dcgm-x", "k8s.pod.uid": "u-dcgm"}
    own = attributes(gpu="0", **{f"{prefix}namespace": "serving", f"{prefix}pod": "llama-70b-0"})
    points = [{"asDouble": 93, "attributes": own}, {"asDouble": 7, "attributes": attributes(gpu="1")}]
    metric = {"name": "DCGM_FI_DEV_GPU_UTIL", "gauge": {"dataPoints": points}}
    resource = {"attributes": attributes(**exporter)}
    record = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}
    one, other = readings(producer("otlp-json"), json.dumps(record).encode()).readings
    assert (one.pod, other.pod) == (("serving", "llama-70b-0"), ("", "u-dcgm"))


def test_labels_of_the_policy_replace_the_usual_ones() -> None:
    entry = producer(labels={"pod": ["workload_pod"]})
    (one,) = readings(entry, telegraf({"vllm:num_requests_running": 3}, workload_pod="mine")).readings
    assert one.pod == ("serving", "mine")


@pytest.mark.parametrize(("labels", "missing"), [({"pod": "x"}, "no namespace"), ({}, "no pod")])
def test_a_value_of_no_pod_is_dropped_with_the_labels_it_has(labels: dict[str, str], missing: str) -> None:
    record = {"name": "prometheus", "tags": {**labels, "host": "n1"}, "fields": {"vllm:num_requests_running": 3}}
    said = read(producer(), json.dumps(record).encode())
    assert isinstance(said, Rejection)
    assert said.reason == "no-pod"
    assert missing in said.detail
    assert "host" in said.detail


def test_what_no_row_names_is_counted_and_nothing_else() -> None:
    found = readings(producer(), telegraf({"vllm:num_requests_running": 3, "go_threads": 9, "up": 1}))
    assert (len(found.readings), found.dropped, found.unmapped) == (1, (), 2)


def test_a_gauge_that_cannot_be_costs_itself_alone() -> None:
    found = readings(producer(), telegraf({"vllm:num_requests_running": -1, "vllm:num_requests_waiting": 4}))
    assert [one.name for one in found.readings] == ["waiting"]
    assert [one.reason for one in found.dropped] == ["impossible-gauge"]


def test_a_row_of_the_policy_counts_before_the_names_that_are_known() -> None:
    row = {"metric": "vllm:num_requests_running", "gauge": "waiting", "factor": 2}
    (sample,) = samples(producer(gauges=[row]), [telegraf({"vllm:num_requests_running": 3})])
    assert sample.gauges == Gauges(waiting=6.0)


def test_engines_of_one_pod_are_summed_and_their_caches_are_not() -> None:
    records = [
        telegraf({"vllm:num_requests_running": 3, "vllm:kv_cache_usage_perc": 0.2}, engine="0"),
        telegraf({"vllm:num_requests_running": 4, "vllm:kv_cache_usage_perc": 0.7}, engine="1"),
    ]
    (sample,) = samples(producer(), records)
    assert sample.gauges == Gauges(running=7.0, kv_cache_use=0.7)


def test_data_parallel_ranks_of_sglang_are_summed_and_tensor_parallel_ones_count_once() -> None:
    ranks = [(0, 0, 20), (0, 1, 20), (1, 2, 30), (1, 3, 30)]
    records = [telegraf({"sglang:num_running_reqs": n}, dp_rank=f"{dp}", tp_rank=f"{tp}") for dp, tp, n in ranks]
    (sample,) = samples(producer(), records)
    assert sample.gauges == Gauges(running=50.0)


@pytest.mark.parametrize("running", [(8, 7), (7, 8)])
def test_of_copies_of_one_gauge_the_highest_counts_whichever_comes_first(running: tuple[int, int]) -> None:
    records = [telegraf({"sglang:num_running_reqs": n}, tp_rank=f"{rank}") for rank, n in enumerate(running)]
    (sample,) = samples(producer(), records)
    assert sample.gauges == Gauges(running=8.0)


def test_of_the_models_that_a_pod_of_triton_chains_the_longest_queue_counts() -> None:
    queues = [("ensemble", 40), ("postprocessing", 0), ("tensorrt_llm", 38), ("preprocessing", 0)]
    records = [telegraf({"nv_inference_pending_request_count": n}, model=model, version="1") for model, n in queues]
    (sample,) = samples(producer(), records)
    assert sample.gauges == Gauges(waiting=40.0)


def test_each_engine_whose_counters_are_read_has_its_gauges_known_too() -> None:
    """Arrivals are made of both. A row picks no series by a label, as Triton's with TensorRT-LLM would need."""
    known = {plain(rule.metric): rule.gauge for rule in producer().rules}
    wanted = {
        plain(source.series): source.reading
        for engine in ENGINES
        for source in engine.readings
        if source.reading in {"running", "waiting", "kvCacheUse"} and not source.where
    }
    assert {name: known.get(name) for name in wanted} == wanted


def test_two_replicas_of_prometheus_that_tell_of_the_same_requests_count_once() -> None:
    records = [telegraf({"vllm:num_requests_running": 3}, prometheus_replica=name) for name in "ab"]
    (sample,) = samples(producer(), records)
    assert sample.gauges == Gauges(running=3.0)


def test_of_two_names_for_one_gauge_the_first_row_counts() -> None:
    fields = {"DCGM_FI_DEV_GPU_UTIL": 80.0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.5}
    (sample,) = samples(producer(), [telegraf(fields, gpu="0"), telegraf({"DCGM_FI_DEV_GPU_UTIL": 40.0}, gpu="1")])
    assert sample.gauges.gpu_utilisation == pytest.approx(0.6)


def test_of_an_instance_of_a_gpu_its_activity_counts_and_the_use_of_whole_gpus_does_not() -> None:
    fields = {"DCGM_FI_DEV_GPU_UTIL": 0.0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.75}
    (sample,) = samples(producer(), [telegraf(fields, gpu="0", GPU_I_PROFILE="3g.40gb", GPU_I_ID="2")])
    assert sample.gauges.gpu_utilisation == 0.75
    assert samples(producer(), [telegraf({"DCGM_FI_DEV_GPU_UTIL": 0.0}, gpu="0", GPU_I_ID="2")]) == []


def test_records_of_one_instant_become_one_sample() -> None:
    records = [telegraf({"vllm:num_requests_running": 3}), telegraf({"vllm:num_requests_waiting": 1})]
    (sample,) = samples(producer(), records)
    assert (sample.gauges, sample.source) == (Gauges(running=3.0, waiting=1.0), "kafka/others")


def test_a_sample_is_made_when_the_next_scrape_begins() -> None:
    records = [telegraf({"vllm:num_requests_running": count}, AT + 15 * count - 100) for count in (1, 2, 3)]
    assert [(one.at, one.gauges.running) for one in samples(producer(), records)] == [
        (AT - 85, 1.0),
        (AT - 70, 2.0),
        (AT - 55, 3.0),
    ]


def test_what_comes_late_for_an_instant_makes_its_sample_again_and_later_in_order() -> None:
    gathering, entry = PodGathering(producer()), producer()
    gathering.put(readings(entry, telegraf({"vllm:num_requests_running": 3})).readings, HERE, NOW)
    assert gathering.settled(NOW + SETTLE_SECONDS / 2) == []
    (first,) = gathering.settled(NOW + SETTLE_SECONDS)
    gathering.put(readings(entry, telegraf({"vllm:num_requests_waiting": 1})).readings, HERE, NOW + 1)
    (again,) = gathering.settled(NOW + 1 + SETTLE_SECONDS)
    assert (first.at, first.gauges, again.at, again.gauges) == (AT, Gauges(running=3.0), AT, Gauges(3.0, 1.0))
    assert again.order > first.order


def test_a_reading_counts_beside_newer_ones_for_two_intervals_and_is_then_unknown() -> None:
    records = [telegraf({"DCGM_FI_DEV_FB_USED": 7.0}, AT - 60)]
    records += [telegraf({"vllm:num_requests_running": 1}, AT - 60 + 15 * count) for count in (1, 2, 3)]
    told = samples(producer(), records)
    assert [one.gauges.fb_used_mib for one in told] == [7.0, 7.0, 7.0, None]


def test_a_gpu_speaks_alone_where_its_engine_has_said_nothing_for_two_intervals() -> None:
    records = [telegraf({"vllm:num_requests_running": 1.0}, AT - 100)]
    records += [telegraf({"DCGM_FI_DEV_FB_USED": 7.0 + count}, AT - 90 + 15 * count) for count in range(4)]
    told = samples(producer(), records)
    assert [(one.at, one.gauges) for one in told] == [
        (AT - 100, Gauges(running=1.0, fb_used_mib=8.0)),
        (AT - 60, Gauges(fb_used_mib=9.0)),
        (AT - 45, Gauges(fb_used_mib=10.0)),
    ]


def test_a_pod_that_is_gone_costs_no_memory_for_more_than_some_intervals() -> None:
    gathering, entry = PodGathering(producer(intervalSeconds=15)), producer()
    for count in range(100):
        now = NOW + 15 * count
        for pod in ("stays", f"went-{count}"):
            value = telegraf({"vllm:num_requests_running": 3}, now - 3600, pod=pod)  # a topic that is an hour behind
            gathering.put(readings(entry, value).readings, HERE, now)
        assert len(gathering.settled(now + SETTLE_SECONDS)) == 2
        known = gathering._pods  # noqa: SLF001  nothing else shows what is remembered
        assert ("serving", "stays") in known
        assert len(known) <= 2 * FORGOTTEN_INTERVALS + 2


def test_a_sum_that_cannot_be_is_left_out_and_counted() -> None:
    entry = producer(gauges=[{"metric": "cache", "gauge": "kvCacheUse", "combine": "sum"}])
    gathering = PodGathering(entry)
    for engine in "01":
        value = telegraf({"cache": 0.9, "vllm:num_requests_running": 1}, engine=engine)
        gathering.put(readings(entry, value).readings, HERE, NOW)
    (sample,) = gathering.settled(NOW + SETTLE_SECONDS)
    assert (sample.gauges, dict(gathering.impossible)) == (Gauges(running=2.0), {"kvCacheUse": 1})


def test_every_decoder_has_a_record_here() -> None:
    assert set(RUNNING) >= {"telegraf", "prometheus", "otlp-json", "vector", "flat"}
