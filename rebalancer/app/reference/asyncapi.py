"""The AsyncAPI document of the topics that others write, its schemas from the types that read them."""

import json
from typing import Any

import msgspec

from rebalancer import __version__
from rebalancer.api.http.json_codec import twin
from rebalancer.domain.events import CAPACITY_NOTICE_TYPE, METRIC_READINGS_TYPE, METRIC_SAMPLE_TYPE
from rebalancer.ingest.aggregated import ReadingsData
from rebalancer.ingest.decode import SampleData
from rebalancer.ingest.envelope import MAX_ATTRIBUTE_CHARACTERS
from rebalancer.ingest.notices import NoticeData
from rebalancer.kafka.broker import TOPICS

# topic -> the event's type, its data, and what the message is
MESSAGES: dict[str, tuple[str, type, str]] = {
    "metrics": (METRIC_SAMPLE_TYPE, SampleData, "Measurements of a model, or of one of its pods, at one instant."),
    "readings": (
        METRIC_READINGS_TYPE,
        ReadingsData,
        "Samples that were read from a stretch of a partition of `metrics`.",
    ),
    "notices": (CAPACITY_NOTICE_TYPE, NoticeData, "Word that a node or instance goes, or that it stays after all."),
}
NUMBERS = ("retention.ms", "min.compaction.lag.ms")
REFERENCES = "#/components/schemas/{name}"


def asyncapi_text() -> str:
    """The whole file."""
    return json.dumps(document(), indent=2) + "\n"


def document() -> dict[str, Any]:
    """AsyncAPI 3.0: what the service receives, and how its topics are made."""
    data, components = msgspec.json.schema_components(
        [twin(of) for _, of, _ in MESSAGES.values()], ref_template=REFERENCES
    )
    messages = {
        topic: _message(topic, kind, schema, what)
        for (topic, (kind, _, what)), schema in zip(MESSAGES.items(), data, strict=True)
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "rebalancer",
            "version": __version__,
            "description": "Topics that producers write. Records are CloudEvents 1.0 in JSON: structured mode with the "
            "header content-type application/cloudevents+json or without it, or binary mode with ce_ headers.",
        },
        "defaultContentType": "application/cloudevents+json",
        "channels": {topic: _channel(topic) for topic in MESSAGES},
        "operations": {
            f"read-{topic}": {"action": "receive", "channel": {"$ref": f"#/channels/{topic}"}} for topic in MESSAGES
        },
        "components": {"messages": messages, "schemas": components},
    }


def _channel(topic: str) -> dict[str, Any]:
    made = TOPICS[topic]
    return {
        "address": "{topicPrefix}" + topic,
        "parameters": {"topicPrefix": {"default": "rebalancer.", "description": "REBALANCER_TOPIC_PREFIX."}},
        "messages": {topic: {"$ref": f"#/components/messages/{topic}"}},
        "bindings": {
            "kafka": {
                "partitions": made.partitions,
                "topicConfiguration": {
                    "cleanup.policy": [made.settings["cleanup.policy"]],
                    **{name: int(made.settings[name]) for name in NUMBERS if name in made.settings},
                },
            }
        },
    }


def _message(topic: str, kind: str, data: dict[str, Any], what: str) -> dict[str, Any]:
    text = {"type": "string", "minLength": 1, "maxLength": MAX_ATTRIBUTE_CHARACTERS}
    return {
        "name": kind,
        "title": topic,
        "summary": what,
        "contentType": "application/cloudevents+json",
        "payload": {
            "type": "object",
            "required": ["specversion", "type", "source", "id", "data"],
            "properties": {
                "specversion": {"const": "1.0"},
                "type": {"const": kind},
                "source": text,
                "id": text,
                "time": {"type": "string", "format": "date-time"},
                "datacontenttype": {"type": "string"},
                "data": data,
            },
        },
    }
