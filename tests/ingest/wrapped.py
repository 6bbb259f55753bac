"""What carries events to Kafka, each as it is written there: bytes in, bytes of one more layer out."""

import json
from collections.abc import Callable
from typing import Any

SENT_AT = "2027-01-15T07:59:40Z"
SENT_MILLISECONDS = "1799999980000"

Wrap = Callable[[bytes], bytes]


def _sns(event: bytes) -> dict[str, Any]:
    return {
        "Type": "Notification",
        "MessageId": "sns-1",
        "TopicArn": "arn:aws:sns:us-east-1:123456789012:capacity",
        "Message": event.decode(),
        "Timestamp": SENT_AT,
        "SignatureVersion": "1",
        "Signature": "EXAMPLE",
    }


def _sqs(event: bytes) -> dict[str, Any]:
    return {
        "messageId": "sqs-1",
        "receiptHandle": "handle",
        "body": event.decode(),
        "attributes": {"SentTimestamp": SENT_MILLISECONDS},
        "eventSource": "aws:sqs",
        "awsRegion": "us-east-1",
    }


def _cloud_event(event: bytes) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "type": "com.example.carried",
        "source": "arn:aws:sqs:us-east-1:123456789012:capacity",
        "id": "ce-1",
        "time": SENT_AT,
        "data": json.loads(event),
    }


def _write(value: object) -> bytes:
    return json.dumps(value).encode()


WRAPPINGS: dict[str, Wrap] = {
    "plain": lambda event: event,
    "SNS": lambda event: _write(_sns(event)),
    "SNS as Lambda has it": lambda event: _write({"Records": [{"EventSource": "aws:sns", "Sns": _sns(event)}]}),
    "SQS as its API has it": lambda event: _write({"MessageId": "sqs-1", "Body": event.decode()}),
    "SQS as Lambda has it": lambda event: _write({"Records": [_sqs(event)]}),
    "Pipes from SQS": lambda event: _write([_sqs(event)]),
    "Pipes with a template": lambda event: _write([json.loads(event)]),
    "Kafka Connect": lambda event: _write({"MessageId": "sqs-1", "Body": event.decode()}),
    "Kafka Connect with a schema": lambda event: _write({"schema": {"type": "string"}, "payload": event.decode()}),
    "Kafka Connect with a schema of the event": lambda event: _write(
        {"schema": {"type": "struct"}, "payload": json.loads(event)}
    ),
    "a string": lambda event: _write(event.decode()),
    "a string twice": lambda event: _write(_write(event.decode()).decode()),
    "a CloudEvent": lambda event: _write(_cloud_event(event)),
    "a CloudEvent of Knative's SQS source": lambda event: _write(
        _cloud_event(_write({"MessageId": "sqs-1", "Body": event.decode(), "Attributes": {}}))
    ),
}
