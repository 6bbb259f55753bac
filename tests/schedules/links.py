"""What lies between one replica and the two servers that it talks to, and what may be wrong there."""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

Answer = Literal["503", "page", "409", "504", "504 unread", "late"]
"""How a write is answered that is not answered well.

503: the API server turned it away. page: a proxy's 502, and it was applied. 409: a proxy sent it twice, and the
second one met the first. 504: it was applied. 504 unread: it was not. late: it is applied 6 s after it was sent, which
nobody waits for.
"""

ANSWERS: tuple[Answer, ...] = ("503", "page", "409", "504", "504 unread", "late")
LATENCY_SECONDS = 0.006
LATE_SECONDS = 6.0


@dataclass(slots=True)
class ApiLink:
    """To the API server.

    away: connections are refused. silent: they are open, and nothing comes through.
    seconds: how long a call takes, there and back; of the Lease `lease_seconds` besides.
    lease_lost: whether calls of the Lease arrive and are answered to nobody.
    answers: what the next writes are answered with.
    watches_silent: whether no watch says anything. watch_seconds: by how much they are late.
    """

    away: bool = False
    silent: bool = False
    seconds: float = LATENCY_SECONDS
    lease_seconds: float = 0.0
    lease_lost: bool = False
    answers: deque[Answer] = field(default_factory=deque)
    watches_silent: bool = False
    watch_seconds: float = 0.0

    def heal(self) -> None:
        """All is well."""
        self.away = self.silent = self.lease_lost = self.watches_silent = False
        self.seconds, self.lease_seconds, self.watch_seconds = LATENCY_SECONDS, 0.0, 0.0
        self.answers.clear()


@dataclass(slots=True)
class KafkaLink:
    """To the brokers.

    away: nothing is read or stored. unheard: what is sent is stored, its acknowledgement comes too late.
    no_checkpoints: the brokers refuse records of the topic `state`.
    """

    away: bool = False
    unheard: bool = False
    no_checkpoints: bool = False

    def heal(self) -> None:
        """All is well."""
        self.away = self.unheard = self.no_checkpoints = False
