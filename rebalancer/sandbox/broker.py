"""A Kafka broker inside this process: the mock cluster that librdkafka bundles, spoken to over real loopback sockets.

It keeps records in memory, at most 5 MiB and 100,000 per partition: older ones fall off the front, as with retention.
Topics appear on first use with 4 partitions; topics named up front get the partitions asked for. It does not compact,
cannot look up offsets by time, and acknowledges with a fixed time stamp (records read back carry the right one).
"""

import asyncio
import ctypes
import threading
from collections.abc import Mapping
from typing import Self

from confluent_kafka import cimpl

PRODUCER = 0  # rd_kafka_type_t; any client instance can carry a mock cluster
BROKER_ID = 1  # mock brokers are numbered from 1
TOPIC_AUTHORIZATION_FAILED = 29  # of Kafka's protocol, as is the number of a request
FETCH = 1
MOST_REFUSED = 10_000
ERROR_BYTES = 512
# The mock's thread misses the wake-up of a call that comes right behind another, and then polls a full second. 5 ms
# apart they take under 1 ms each.
PAUSE_SECONDS = 0.005

# confluent-kafka wraps librdkafka but not its mock-cluster calls (rdkafka_mock.h); the symbols are in the library that
# its extension module is linked against, and a handle on the extension module finds them there.
_LIBRARY = ctypes.CDLL(cimpl.__file__)
_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "rd_kafka_conf_new": (_POINTER, []),
    "rd_kafka_conf_set": (_INT, [_POINTER, _TEXT, _TEXT, _TEXT, ctypes.c_size_t]),
    "rd_kafka_new": (_POINTER, [_INT, _POINTER, _TEXT, ctypes.c_size_t]),
    "rd_kafka_destroy": (None, [_POINTER]),
    "rd_kafka_mock_cluster_new": (_POINTER, [_POINTER, _INT]),
    "rd_kafka_mock_cluster_destroy": (None, [_POINTER]),
    "rd_kafka_mock_cluster_bootstraps": (_TEXT, [_POINTER]),
    "rd_kafka_mock_topic_create": (_INT, [_POINTER, _TEXT, _INT, _INT]),
    "rd_kafka_mock_broker_set_down": (_INT, [_POINTER, _INT]),
    "rd_kafka_mock_broker_set_up": (_INT, [_POINTER, _INT]),
    "rd_kafka_mock_broker_set_rtt": (_INT, [_POINTER, _INT, _INT]),
    "rd_kafka_mock_topic_set_error": (None, [_POINTER, _TEXT, _INT]),
    "rd_kafka_mock_push_request_errors_array": (None, [_POINTER, ctypes.c_int16, ctypes.c_size_t, _POINTER]),
    "rd_kafka_mock_clear_request_errors": (None, [_POINTER, ctypes.c_int16]),
}
for _name, (_result, _arguments) in _SIGNATURES.items():
    _function = getattr(_LIBRARY, _name)
    _function.restype, _function.argtypes = _result, _arguments


class EmbeddedBroker:
    """One broker; `topics` maps a topic's name to its number of partitions. Records live until `stop()`."""

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        self.bootstrap = ""
        self._topics = dict(topics or {})
        self._client: int | None = None
        self._cluster: int | None = None

    def start(self) -> None:
        """Listen on a free loopback port, named in `bootstrap` as `host:port`. Raises RuntimeError if it cannot."""
        self._client = _new_client()
        self._cluster = _LIBRARY.rd_kafka_mock_cluster_new(self._client, 1)
        if not self._cluster:
            self.stop()
            raise RuntimeError("librdkafka could not start its mock cluster: is a loopback port free?")
        self.bootstrap = _LIBRARY.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        for topic, partitions in self._topics.items():
            self.create_topic(topic, partitions)
            threading.Event().wait(PAUSE_SECONDS)

    def stop(self) -> None:
        """Close every connection and forget every record. Safe to call twice."""
        if self._cluster:
            _LIBRARY.rd_kafka_mock_cluster_destroy(self._cluster)
        if self._client:
            _LIBRARY.rd_kafka_destroy(self._client)
        self._cluster = self._client = None

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create `topic` with that many partitions. Raises ValueError if it exists already."""
        if _LIBRARY.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1):
            raise ValueError(f"topic {topic!r} with {partitions} partitions cannot be created: does it exist already?")

    def cut(self) -> None:
        """Refuse connections and drop the open ones, keeping all records: the broker is away."""
        _LIBRARY.rd_kafka_mock_broker_set_down(self._cluster, BROKER_ID)

    def heal(self) -> None:
        """Accept connections again, on the same port."""
        _LIBRARY.rd_kafka_mock_broker_set_up(self._cluster, BROKER_ID)

    def refuse(self, topic: str) -> None:
        """Nobody may read or write `topic` any more: clients hear it when they ask anew where its partitions are."""
        _LIBRARY.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), TOPIC_AUTHORIZATION_FAILED)

    def allow(self, topic: str) -> None:
        """End that."""
        _LIBRARY.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), 0)

    def refuse_reads(self) -> None:
        """Nobody may read any topic, though all are seen and may be written: so for the next MOST_REFUSED reads."""
        errors = (_INT * MOST_REFUSED)(*[TOPIC_AUTHORIZATION_FAILED] * MOST_REFUSED)
        _LIBRARY.rd_kafka_mock_push_request_errors_array(self._cluster, FETCH, MOST_REFUSED, errors)

    def allow_reads(self) -> None:
        """End that."""
        _LIBRARY.rd_kafka_mock_clear_request_errors(self._cluster, FETCH)

    def slow(self, seconds: float) -> None:
        """Answer everything so much later; 0 ends it."""
        _LIBRARY.rd_kafka_mock_broker_set_rtt(self._cluster, BROKER_ID, round(seconds * 1000))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)


def _new_client() -> int:
    """The librdkafka instance that carries the mock cluster; it talks to nobody itself."""
    error = ctypes.create_string_buffer(ERROR_BYTES)
    settings = _LIBRARY.rd_kafka_conf_new()
    # Level 3 (errors only): it would warn that it was given no broker to talk to.
    _LIBRARY.rd_kafka_conf_set(settings, b"log_level", b"3", error, ERROR_BYTES)
    client = _LIBRARY.rd_kafka_new(PRODUCER, settings, error, ERROR_BYTES)
    if not client:
        raise RuntimeError(f"librdkafka could not start: {error.value.decode()}")
    return int(client)
