"""The names of what is changed in a queue."""

from collections.abc import Mapping
from typing import Final

EFFECTS: Final[Mapping[str, str]] = {
    "sqs/receive": "messages of the queue of notices, which nobody else is given for 30 s",
    "sqs/delete": "messages of the queue of notices that Kafka has by now",
}
