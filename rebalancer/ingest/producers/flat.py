"""One JSON object per record, numbers beside labels: what log shippers and stream processors write of their own.

Nested keys are joined by dots (`kubernetes.pod_name`). Numbers are series, texts are labels of all of them; a number
in quotes is a text. The instant stands under one of a few usual keys.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rebalancer.ingest.instants import epoch
from rebalancer.ingest.producers.bodies import Body, each_of
from rebalancer.ingest.producers.series import MetricSeries, epoch_of, number_of
from rebalancer.ingest.rejected import RejectedError

TIMES = ("@timestamp", "timestamp", "time", "ts", "date")  # Fluent Bit's timestamp_key is @timestamp
EARLIEST = 1e9  # epoch seconds of 2001: a smaller number is a duration
MAX_KEYS = 1000

_object = msgspec.json.Decoder(dict[str, Any]).decode


def decode_flat(value: bytes) -> Iterator[MetricSeries | RejectedError]:
    """Every number of the object; a metric's name is its key."""
    return each_of(value, _in_body)


def _in_body(body: Body) -> Iterator[MetricSeries]:
    whole = _object(body.text)
    time = next((whole.pop(key) for key in TIMES if key in whole and _is_instant(whole[key])), None)
    at = None if time is None else epoch(time) if isinstance(time, str) else epoch_of(time)
    numbers: dict[str, float] = {}
    labels: dict[str, str] = {}
    for key, item in _leaves(whole):
        if isinstance(item, str):
            labels[key] = item
        elif type(item) in {int, float}:
            numbers[key] = number_of(item)
        if len(numbers) + len(labels) > MAX_KEYS:
            raise ValueError(f"more than {MAX_KEYS} keys: send fewer")
    for name, number in numbers.items():
        yield MetricSeries(name, labels, number, at)


def _is_instant(value: object) -> bool:
    """Whether it says when: `time` is what a request took, too."""
    return isinstance(value, str) or (isinstance(value, int | float) and not 0 <= value < EARLIEST)


def _leaves(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in mapping.items():
        if isinstance(item, dict):
            yield from _leaves(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item
