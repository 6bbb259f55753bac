"""The JSON objects in a record: a list is opened, a CloudEvent gives its data, and each object is judged by itself."""

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Raw, Struct

from rebalancer.ingest.envelope import NO_DATA
from rebalancer.ingest.producers.series import MAX_BATCH_BYTES, MetricSeries
from rebalancer.ingest.rejected import Reason, RejectedError, explain

MAX_DEPTH = 5  # a list of CloudEvents whose data is a list, or an object with one: Telegraf's batches


class _Event(Struct, frozen=True):
    specversion: Raw = NO_DATA
    data: Raw = NO_DATA
    metrics: Raw = NO_DATA  # Telegraf's batch in `json`


class Body(Struct, frozen=True):
    """One JSON object, unread, and where in the record it stands."""

    text: Raw
    path: str


_event = msgspec.json.Decoder(_Event).decode
_list = msgspec.json.Decoder(list[Raw]).decode


def bodies(value: bytes) -> Iterator[Body | RejectedError]:
    """Every object in the record, in order. Raises RejectedError when it is too large or no JSON at all."""
    if len(value) > MAX_BATCH_BYTES:
        detail = f"{len(value)} bytes, at most {MAX_BATCH_BYTES} are read: send smaller batches"
        raise RejectedError(Reason.TOO_LARGE, detail)
    try:
        yield from _open(Raw(value), "$", MAX_DEPTH)
    except (ValueError, RecursionError) as error:
        explain(error, value, Reason.NOT_JSON)


def _open(text: Raw, path: str, depth: int) -> Iterator[Body | RejectedError]:
    first = bytes(text).lstrip()[:1]
    if depth == 0:
        yield RejectedError(Reason.TOO_DEEP, f"more than {MAX_DEPTH} layers around `{path}`: send it as it is")
    elif first == b"[":
        for index, each in enumerate(_list(text)):
            yield from _open(each, f"{path}[{index}]", depth - 1)
    elif first == b"{":
        event = _event(text)
        if event.specversion is NO_DATA and event.metrics is not NO_DATA:
            yield from _open(event.metrics, f"{path}.metrics", depth - 1)
        elif event.specversion is NO_DATA:
            yield Body(text, path)
        elif event.data is NO_DATA:
            yield RejectedError(Reason.BAD_ENVELOPE, f"no `data` at `{path}`: send JSON data (data_base64 is not read)")
        else:
            yield from _open(event.data, f"{path}.data", depth - 1)
    else:
        msgspec.json.decode(text)
        yield RejectedError(Reason.INVALID_DATA, f"no JSON object at `{path}`: send objects")


def each_of(value: bytes, decode: Callable[[Body], Iterator[MetricSeries]]) -> Iterator[MetricSeries | RejectedError]:
    """The series of every object; one that cannot be read is its RejectedError, beside the others."""
    for body in bodies(value):
        if isinstance(body, RejectedError):
            yield body
            continue
        try:
            yield from decode(body)
        except (ValueError, RecursionError) as error:
            try:
                explain(error, body.text, Reason.INVALID_DATA, root=body.path)
            except RejectedError as rejected:
                yield rejected
