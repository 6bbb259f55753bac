"""The decoders by their names in the policy, and by which keys a record of each format is known."""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from rebalancer.domain.producers import DecoderName
from rebalancer.ingest.producers.flat import decode_flat
from rebalancer.ingest.producers.otlp import decode_otlp_json, decode_otlp_proto
from rebalancer.ingest.producers.prometheus_kafka import decode_prometheus
from rebalancer.ingest.producers.series import Decoder
from rebalancer.ingest.producers.telegraf import decode_telegraf
from rebalancer.ingest.producers.vector import decode_vector
from rebalancer.ingest.rejected import FRAMED, is_framed

DECODERS: dict[DecoderName, Decoder] = {
    "telegraf": decode_telegraf,
    "prometheus": decode_prometheus,
    "otlp-json": decode_otlp_json,
    "otlp-proto": decode_otlp_proto,
    "vector": decode_vector,
    "flat": decode_flat,
}

# Keys of an object -> which producer's it is, and its decoder; None: nobody here reads it, for the reason beside it.
KNOWN: tuple[tuple[frozenset[str], str, DecoderName | None], ...] = (
    (frozenset({"name", "fields", "tags"}), "Telegraf's JSON", "telegraf"),
    (frozenset({"metrics"}), "Telegraf's JSON in batches", "telegraf"),
    (frozenset({"resourceMetrics"}), "OTLP in JSON", "otlp-json"),
    (frozenset({"name", "labels", "value", "timestamp"}), "prometheus-kafka-adapter's", "prometheus"),
    (frozenset({"name", "kind", "gauge"}), "Vector's JSON", "vector"),
    (frozenset({"name", "kind", "counter"}), "Vector's JSON", "vector"),
    (frozenset({"schema", "payload"}), "a change event of Debezium or another envelope of Kafka Connect", None),
    (frozenset({"eventSource", "records"}), "the envelope in which AWS Lambda is handed Kafka's records", None),
    (frozenset({"type", "name", "fields", "namespace"}), "an Avro schema, not a record of it", None),
)
TELEGRAF_TYPES = "com.influxdata.telegraf."

_keys: Callable[[bytes], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode


def format_of(value: bytes) -> tuple[str, DecoderName | None] | None:
    """The producer whose JSON a value is, and the decoder that reads it (None: none does); None where nothing tells."""
    try:
        keys = _keys(value).keys()
    except (ValueError, RecursionError):
        return None
    return next(((whose, name) for known, whose, name in KNOWN if known <= keys), None)


def way_out(value: bytes, type_: str = "") -> str:
    """What the sender of a record that is no sample of ours can do; "" where its format is not known.

    `type_` is the type of the CloudEvent that it is, "" where it is none.
    """
    if is_framed(value):
        return f"it {FRAMED}"
    known = ("Telegraf's CloudEvent", "telegraf") if type_.startswith(TELEGRAF_TYPES) else format_of(value)
    if known is None:
        return ""
    whose, decoder = known
    if decoder is None:
        return f"it is {whose}: send what is in it, as docs/producers.md shows"
    return f"it is {whose}: give it a topic of its own and name that in the policy's producers, decoder {decoder}"
