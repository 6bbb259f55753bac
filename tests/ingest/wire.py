"""Records as producers send them."""

import json
import sys
from typing import Any

from rebalancer.domain.events import METRIC_SAMPLE_TYPE, Position
from rebalancer.ingest.envelope import Headers

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
# From Python 3.14 on bytes of the stack are counted, no levels: brackets as many as a record may have are read to the
# end, and what is wrong with them is that they stay open.
TOO_DEEP = "too-deep" if sys.version_info < (3, 14) else "not-json"
AT = "2027-01-15T07:59:58.5Z"
AT_EPOCH = NOW - 1.5
HERE = Position("rebalancer.metrics", 3, 42)
STRUCTURED: Headers = (("content-type", b"application/cloudevents+json"),)
NOTICE_TYPE = "io.rebalancer.capacity.notice.v1"

SAMPLE: dict[str, Any] = {
    "model": "llama-70b",
    "pod": "5f0c6a3e-7a5f-4b0e-9d61-7f6b0f5b8a10",
    "intervalSeconds": 5,
    "gauges": {
        "running": 12,
        "waiting": 3,
        "kvCacheUse": 0.61,
        "gpuUtilisation": 0.8,
        "fbUsedMib": 70_000,
        "fbFreeMib": 10_000,
        "ttftP95Seconds": 0.4,
        "latencyP95Seconds": 3.2,
        "latencyP99Seconds": 5.5,
    },
    "counters": {
        "startTime": "2027-01-15T07:00:00Z",
        "requestsFinished": 123,
        "requestsLeft": 4,
        "promptTokens": 4567,
        "generatedTokens": 8901,
    },
}


def event(data: object = SAMPLE, **attributes: object) -> bytes:
    """A CloudEvent in structured mode; an attribute set to None is left out."""
    whole: dict[str, object] = {
        "specversion": "1.0",
        "type": METRIC_SAMPLE_TYPE,
        "source": "vllm/llama-70b-0",
        "id": "id-1",
        "time": AT,
        "datacontenttype": "application/json",
        "data": data,
    } | attributes
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


def binary_headers(**attributes: bytes | None) -> Headers:
    """Headers of binary mode; an attribute set to None is left out."""
    whole: dict[str, bytes | None] = {
        "specversion": b"1.0",
        "type": METRIC_SAMPLE_TYPE.encode(),
        "source": b"vllm/llama-70b-0",
        "id": b"id-1",
        "time": AT.encode(),
    }
    whole |= attributes
    named = tuple((f"ce_{name}", text) for name, text in whole.items() if text is not None)
    return (*named, ("content-type", b"application/json"))


def notice(**data: object) -> bytes:
    """Our own capacity notice; a field set to None is left out."""
    whole = {"kind": "spot-interruption", "node": "n1", "deadline": "2027-01-15T08:01:58.5Z"} | data
    return event({name: value for name, value in whole.items() if value is not None}, type=NOTICE_TYPE)


def eventbridge(detail_type: str, detail: object, source: str = "aws.ec2", **attributes: object) -> bytes:
    """An EventBridge event, raw."""
    whole: dict[str, object] = {
        "version": "0",
        "id": "7bf73129-1428-4cd3-a780-95db273d1602",
        "detail-type": detail_type,
        "source": source,
        "account": "123456789012",
        "time": "2027-01-15T07:59:30Z",
        "region": "us-east-1",
        "resources": ["arn:aws:ec2:us-east-1b:instance/i-0b662ef9931388ba0"],
        "detail": detail,
    } | attributes
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()
