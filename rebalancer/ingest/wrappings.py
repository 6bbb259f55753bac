"""What carries a notice to us, taken off layer by layer: queues, topics, pipes and connectors each add their own.

An event of a cloud may come in an SNS notification, in an SQS message, in the record of Kafka Connect, in a list of
EventBridge Pipes, as a JSON string, as the data of a CloudEvent, and in several of these at once. Whatever is in no
layer known here is a message: one JSON object, with what its wrappings said of it.
"""

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

import msgspec
from msgspec import Raw, Struct, field

from rebalancer.domain.events import CAPACITY_NOTICE_TYPE
from rebalancer.ingest.envelope import NO_DATA, Envelope, structured
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.rejected import Reason, RejectedError, explain, refuse_duplicate_keys

# SNS as Lambda writes it is five layers: `Records`, a list, `Sns`, `Message`, a string. Three such make 15.
MAX_LAYERS = 20
MAX_MESSAGES = 500  # of one record of 64 KiB: less than 131 bytes are no notice
MAX_DIGITS = 15  # of epoch milliseconds, which have 13 until the year 2286


class Sent(NamedTuple):
    """What is known of a message from outside it.

    source: its sender, "" where nobody names one.
    id: its sender's id of it, else its place in Kafka.
    at: when it was sent, UTC epoch seconds.
    type: type of the CloudEvent that it is the data of, "" where it is of none.
    """

    source: str
    id: str
    at: float
    type: str = ""


class Message(NamedTuple):
    """One JSON object without wrappings, or the data of a notice of ours.

    data: the object, unread.
    keys: its keys; none of a notice of ours, which is known by its type.
    sent: what its wrappings said of it.
    path: where in the record it stands.
    """

    data: Raw
    keys: frozenset[str]
    sent: Sent
    path: str


class _Layer(Struct, frozen=True):
    """The keys by which a wrapping is known, each with what stands there unread."""

    records: Raw = field(default=NO_DATA, name="Records")  # AWS Lambda
    sns: Raw = field(default=NO_DATA, name="Sns")
    message: Raw = field(default=NO_DATA, name="Message")  # SNS
    topic: Raw = field(default=NO_DATA, name="TopicArn")
    body: Raw = NO_DATA  # SQS, as Lambda and Pipes write it
    Body: Raw = NO_DATA  # SQS, as its API and Kafka Connect write it
    schema: Raw = NO_DATA  # Kafka Connect's JsonConverter
    payload: Raw = NO_DATA
    specversion: Raw = NO_DATA  # CloudEvents
    event_type: Raw = field(default=NO_DATA, name="eventType")  # Azure Event Grid
    data: Raw = NO_DATA


class _Label(Struct, frozen=True):
    """How wrappings name a message and its time; what is of another type counts as absent."""

    message_id: object = field(default=None, name="MessageId")
    lower_id: object = field(default=None, name="messageId")
    grid_id: object = field(default=None, name="id")
    timestamp: object = field(default=None, name="Timestamp")
    event_time: object = field(default=None, name="eventTime")
    attributes: object = None
    upper_attributes: object = field(default=None, name="Attributes")


_layer = msgspec.json.Decoder(_Layer).decode
_label = msgspec.json.Decoder(_Label).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_text = msgspec.json.Decoder(str).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode


def messages(value: bytes | Raw, sent: Sent) -> list[Message | RejectedError]:
    """Every message in a record's value, in order; one that cannot be read is its RejectedError, beside the others.

    Raises RejectedError where the record holds too many of them.
    """
    messages: list[Message | RejectedError] = []
    _open(Raw(value), sent, "$", MAX_LAYERS, messages)
    return messages


def data_of(envelope: Envelope, sent: Sent) -> list[Message | RejectedError]:
    """The messages that are the data of a CloudEvent. Raises RejectedError as `messages` does."""
    messages: list[Message | RejectedError] = []
    _of_cloud_event(envelope, sent, "$", MAX_LAYERS, messages)
    return messages


def _open(value: Raw, sent: Sent, path: str, layers: int, into: list[Message | RejectedError]) -> None:
    if len(into) >= MAX_MESSAGES:
        raise RejectedError(Reason.TOO_LARGE, f"more than {MAX_MESSAGES} messages in one record: send fewer at once")
    try:
        _look(value, sent, path, layers - 1, into)
    except RejectedError as rejected:
        if len(into) >= MAX_MESSAGES:
            raise
        into.append(rejected)


def _look(value: Raw, sent: Sent, path: str, layers: int, into: list[Message | RejectedError]) -> None:
    """Take one layer off. Raises RejectedError."""
    if layers < 0:
        raise RejectedError(Reason.TOO_DEEP, f"more than {MAX_LAYERS} wrappings around `{path}`: send it as it is")
    first = bytes(value).lstrip()[:1]
    try:
        if first == b"[":
            for number, each in enumerate(_list(value)):
                _open(each, sent, f"{path}[{number}]", layers, into)
        elif first == b'"':
            text = _text(value).encode()
            refuse_duplicate_keys(text)
            _open(Raw(text), sent, path, layers, into)
        elif first == b"{":
            _unwrapped(value, sent, path, layers, into)
        else:
            _refuse_scalar(value, path)
    except (ValueError, RecursionError) as error:
        explain(error, value, Reason.NOT_JSON, root=path)


def _refuse_scalar(value: Raw, path: str) -> NoReturn:
    msgspec.json.decode(value)
    raise RejectedError(Reason.NOT_CLOUDEVENT, f"no JSON object at `{path}`: send events")


def _unwrapped(value: Raw, sent: Sent, path: str, layers: int, into: list[Message | RejectedError]) -> None:
    layer = _layer(value)
    if layer.specversion is not NO_DATA:
        _of_cloud_event(structured(value), sent, path, layers, into)
        return
    for inner, key in _contents(layer):
        _open(inner, _labelled(_label(value), sent), f"{path}.{key}", layers, into)
        return
    into.append(Message(value, frozenset(_object(value)), sent, path))


def _of_cloud_event(
    envelope: Envelope, sent: Sent, path: str, layers: int, into: list[Message | RejectedError]
) -> None:
    at = sent.at if envelope.time is None else envelope.time.timestamp()
    known = Sent(envelope.source, envelope.id, at, envelope.type)
    if envelope.type == CAPACITY_NOTICE_TYPE:
        into.append(Message(envelope.data, frozenset(), known, f"{path}.data"))
    else:
        _open(envelope.data, known, f"{path}.data", layers, into)


def _contents(layer: _Layer) -> Iterator[tuple[Raw, str]]:
    """What the layer wraps, with its key; nothing where it is a message itself."""
    both = {
        "Records": (layer.records,),
        "Sns": (layer.sns,),
        "Message": (layer.message, layer.topic),
        "body": (layer.body,),
        "Body": (layer.Body,),
        "payload": (layer.payload, layer.schema),
        "data": (layer.data, layer.event_type),
    }
    for key, needed in both.items():
        if all(each is not NO_DATA for each in needed):
            yield needed[0], key


def _labelled(label: _Label, sent: Sent) -> Sent:
    """What a wrapping says of the message in it, as far as it says anything."""
    names = (label.message_id, label.lower_id, label.grid_id)
    name = next((each for each in names if isinstance(each, str) and each), sent.id)
    return sent._replace(id=name[:1024], at=_sent_at(label, sent.at))


def _sent_at(label: _Label, otherwise: float) -> float:
    for text in (label.timestamp, label.event_time):
        if isinstance(text, str):
            try:
                return epoch(text)
            except ValueError:
                return otherwise
    for attributes in (label.attributes, label.upper_attributes):
        milliseconds = attributes.get("SentTimestamp") if isinstance(attributes, dict) else None
        if isinstance(milliseconds, str) and milliseconds.isdecimal() and len(milliseconds) < MAX_DIGITS:
            return int(milliseconds) / 1000
    return otherwise
