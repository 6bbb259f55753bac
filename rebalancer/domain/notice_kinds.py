"""The kinds of capacity notices, and how sure each of them is. Every source speaks in these words."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

NoticeKind = Literal[
    "spot-interruption",
    "rebalance",
    "scheduled-change",
    "reservation-interruption",
    "state-change",
    "disruption",
    "fault",
]
Confidence = Literal["certain", "likely", "possible"]

# The surest first: of several facts about a node the surest decide.
CONFIDENCES: Mapping[Confidence, str] = {
    "certain": "It goes at the deadline: replaced in time, ended before it whether replaced or not.",
    "likely": "Nobody knows when it goes: replaced in time, ended only once replacements are Ready.",
    "possible": "It may go: nothing new is granted there, what runs there counts and stays.",
}


class KindOfNotice(NamedTuple):
    """What a kind says, and how sure a source is that names no confidence of its own."""

    says: str
    confidence: Confidence = "certain"


KINDS: Mapping[NoticeKind, KindOfNotice] = {
    "spot-interruption": KindOfNotice("The cloud takes the instance back: AWS after 120 s, Azure and GCP after 30 s."),
    "rebalance": KindOfNotice("The cloud sees a raised risk that it will take the instance back.", "possible"),
    "scheduled-change": KindOfNotice("A maintenance, reboot or move of the instance at a known time."),
    "reservation-interruption": KindOfNotice("The capacity reservation behind the instance ends."),
    "state-change": KindOfNotice("The instance stops now."),
    "disruption": KindOfNotice("Karpenter or Cluster Autoscaler empties the node now."),
    "fault": KindOfNotice("The node, or a GPU of it, is reported broken; its pods may still serve.", "likely"),
}
