"""Records as stock producers write them, composed from their documentation, and what comes out of them."""

import json
from collections.abc import Iterable

from rebalancer.domain.events import MetricSample, Position, Rejection
from rebalancer.domain.producers import MetricProducer
from rebalancer.ingest.producers.gathering import SETTLE_SECONDS, PodGathering
from rebalancer.ingest.producers.mapping import ProducerMapping, Readings

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
AT = NOW - 2
AT_TEXT = "2027-01-15T07:59:58Z"
HERE = Position("others", 3, 42)
POD = {"namespace": "serving", "pod": "llama-70b-0"}

# By decoder, a record that says that serving/llama-70b-0 runs 12 requests.
RUNNING: dict[str, bytes] = {
    "telegraf": json.dumps(
        {"name": "prometheus", "tags": POD, "fields": {"vllm:num_requests_running": 12}, "timestamp": int(AT)}
    ).encode(),
    "prometheus": json.dumps(
        {
            "value": "12",
            "timestamp": AT_TEXT,
            "name": "vllm:num_requests_running",
            "labels": {"__name__": "vllm:num_requests_running", **POD},
        }
    ).encode(),
    "otlp-json": json.dumps(
        {
            "resourceMetrics": [
                {
                    "resource": {
                        "attributes": [
                            {"key": "k8s.namespace.name", "value": {"stringValue": "serving"}},
                            {"key": "k8s.pod.name", "value": {"stringValue": "llama-70b-0"}},
                        ]
                    },
                    "scopeMetrics": [
                        {
                            "metrics": [
                                {
                                    "name": "vllm:num_requests_running",
                                    "gauge": {"dataPoints": [{"asDouble": 12, "timeUnixNano": f"{int(AT)}000000000"}]},
                                }
                            ]
                        }
                    ],
                }
            ]
        }
    ).encode(),
    "vector": json.dumps(
        {
            "name": "num_requests_running",
            "namespace": "vllm",
            "tags": POD,
            "timestamp": AT_TEXT,
            "kind": "absolute",
            "gauge": {"value": 12.0},
        }
    ).encode(),
    "flat": json.dumps(
        {
            "@timestamp": AT,
            "kubernetes": {"namespace_name": "serving", "pod_name": "llama-70b-0"},
            "num_requests_running": 12,
        }
    ).encode(),
}


def producer(decoder: str = "telegraf", **overrides: object) -> MetricProducer:
    """An entry of the policy, as its YAML has it."""
    return MetricProducer.model_validate_json(json.dumps({"topic": "others", "decoder": decoder, **overrides}))


def read(entry: MetricProducer, value: bytes, kafka_timestamp: float = NOW - 1) -> Readings | Rejection:
    return ProducerMapping(entry).read(value, HERE, kafka_timestamp, NOW)


def readings(entry: MetricProducer, value: bytes) -> Readings:
    found = read(entry, value)
    assert isinstance(found, Readings), found
    return found


def samples(entry: MetricProducer, values: Iterable[bytes]) -> list[MetricSample]:
    """What is gathered from these records, the last of it half a second later."""
    gathering = PodGathering(entry)
    found = [sample for value in values for sample in gathering.put(readings(entry, value).readings, HERE, NOW)]
    return found + gathering.settled(NOW + SETTLE_SECONDS)
