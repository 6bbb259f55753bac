"""The names of what is written to Kafka: `kafka/TOPIC`, with the kind of record where that is what a start goes by."""

from collections.abc import Mapping
from typing import Final

EFFECTS: Final[Mapping[str, str]] = {
    "kafka/topics": "topics that are missing are made",
    "kafka/decisions/policy": "a policy comes into force",
    "kafka/decisions/frame": "part of a keyframe: what a cycle saw, whole",
    "kafka/decisions/cycle": "a decision",
    "kafka/decisions/intent": "what is to be written; a decrease waits for its acknowledgement, an urgent one a second",
    "kafka/decisions/outcome": "what became of a write",
    "kafka/state/memory": "a checkpoint of memory, or a chunk of one",
    "kafka/state/policy": "the policy in force, for a start with a bad file",
    "kafka/state/rings": "a model's history",
    "kafka/dead-letter": "a record that could not be understood, with the reason",
    "kafka/notices": "a message of the queue of notices, as it came",
    "kafka/metrics": "readings of a Prometheus, by `rebalancer bridge`",
    "kafka/readings": "what a partition of `metrics` says, by `rebalancer aggregate`",
    "kafka/commit": "how far the group of `rebalancer aggregate` has read",
}
BY_KIND: Final = frozenset({"decisions", "state"})
"""Topics whose keys say what a record is."""


def name_of(topic: str, key: bytes | None) -> str:
    """The name of a record to one of `broker.TOPICS`."""
    if topic not in BY_KIND:
        return f"kafka/{topic}"
    return f"kafka/{topic}/{(key or b'').partition(b'/')[0].decode(errors='replace')}"
