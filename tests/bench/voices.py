"""What 10 pods of each model tell every second, as records on the wire: CloudEvents in binary mode."""

import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from confluent_kafka import Producer

from rebalancer.domain.events import METRIC_SAMPLE_TYPE
from rebalancer.kafka.broker import TOPICS, Broker
from tests.bench.scale import PER_REPLICA, REPLICAS

METRICS = Broker("").topic("metrics")
PARTITIONS = TOPICS["metrics"].partitions
CALM = 0.95 * PER_REPLICA  # requests in flight per pod: all ten replicas are needed
BUSY = 1.7 * CALM
FIXED = (
    ("ce_specversion", b"1.0"),
    ("ce_type", METRIC_SAMPLE_TYPE.encode()),
    ("content-type", b"application/json"),
)
COUNTING_SINCE = "2026-01-01T00:00:00Z"


class Record(NamedTuple):
    """One record for the metrics topic."""

    partition: int
    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes]]
    timestamp_ms: int


def pod_uid(model: int, pod: int) -> str:
    """As in `lists`."""
    return f"00000000-0000-0000-0000-{model * REPLICAS + pod:012d}"


def pod_record(model: int, pod: int, at: float, running: float = CALM) -> Record:
    """One pod's look at its last second."""
    data = (
        f'{{"model":"m{model:04d}","pod":"{pod_uid(model, pod)}","intervalSeconds":1,'
        f'"gauges":{{"running":{running},"waiting":0,"kvCacheUse":0.5}},'
        f'"counters":{{"startTime":"{COUNTING_SINCE}","requestsFinished":{int(at - 1_760_000_000)}}}}}'
    )
    return _record(model, f"vllm/m{model:04d}-{pod}", data, at)


def past_record(model: int, at: float, interval_seconds: float, running: float = CALM * REPLICAS) -> Record:
    """A whole model's look at a longer while: ten calm pods, unless told otherwise."""
    data = (
        f'{{"model":"m{model:04d}","intervalSeconds":{interval_seconds},"gauges":{{"running":{running},"waiting":0}}}}'
    )
    return _record(model, "gateway", data, at)


def second_of(models: int, at: float, busier: Collection[int] = ()) -> Iterator[Record]:
    """All pods' records of one second, evenly spread over it; the `busier` models are in a surge that lasts."""
    pods = models * REPLICAS
    for place in range(pods):
        pod, model = divmod(place, models)
        yield pod_record(model, pod, at + place / pods, BUSY if model in busier else CALM)


def _record(model: int, source: str, data: str, at: float) -> Record:
    told = (
        ("ce_source", source.encode()),
        ("ce_id", f"{model}-{at:.6f}".encode()),
        ("ce_time", datetime.fromtimestamp(at, UTC).isoformat().encode()),
    )
    return Record(model % PARTITIONS, f"m{model:04d}".encode(), data.encode(), (*FIXED, *told), int(at * 1000))


class Voice:
    """Speaks records into a broker by librdkafka, in compressed batches as collectors send them.

    Compressed they also fit into the 5 MiB that the embedded broker keeps of a partition: 12 s of the flood would else
    be all that a service may fall behind before records are gone.
    """

    def __init__(self, bootstrap: str, linger_ms: int = 50) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": linger_ms,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 1_000_000,
                "delivery.report.only.error": True,
                "log_level": 3,  # errors only: a broker that ends before its producers is none
            }
        )

    def say(self, record: Record) -> None:
        """Queue one record."""
        partition, key, value, headers, timestamp = record
        self._producer.produce(METRICS, value, key, partition=partition, timestamp=timestamp, headers=list(headers))

    def poll(self) -> None:
        """Take acknowledgements."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until the broker has everything. Raises RuntimeError when it does not take it."""
        left = self._producer.flush(60)
        if left:
            raise RuntimeError(f"the broker did not take {left} records")


def speak_past(bootstrap: str, models: int, seconds: int, interval_seconds: int) -> int:
    """Whole models' looks that tile the last `seconds`; how many records that was."""
    voice, now = Voice(bootstrap), time.time()
    ages = range(seconds, -1, -interval_seconds)
    for age in ages:
        for model in range(models):
            voice.say(past_record(model, now - age, interval_seconds))
    voice.flush()
    return len(ages) * models


def speak_seconds(bootstrap: str, models: int, seconds: int) -> int:
    """All pods' samples of the last `seconds`, as fast as the broker takes them; how many records that was."""
    voice, now = Voice(bootstrap), time.time()
    for age in range(seconds, 0, -1):
        for record in second_of(models, now - age):
            voice.say(record)
        voice.poll()
    voice.flush()
    return seconds * models * REPLICAS
