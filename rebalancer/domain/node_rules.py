"""What a policy says about nodes: how long grants and silence last, and what signs on them mean."""

from typing import Literal

from pydantic import Field

from rebalancer.domain.notice_kinds import Confidence, NoticeKind
from rebalancer.domain.part import Part, Seconds, WaitSeconds

SignKind = Literal[NoticeKind, "none"]


class NodeSign(Part):
    """One row: what a taint, condition or label on a Node says about its end. Exactly one of the three is named."""

    taint: str | None = Field(default=None, min_length=1, max_length=316, description="Key of a taint.")
    condition: str | None = Field(default=None, min_length=1, max_length=316, description="Type of a condition.")
    label: str | None = Field(default=None, min_length=1, max_length=316, description="Key of a label.")
    value: str | None = Field(
        default=None,
        max_length=63,
        description="Value that it must have: of a taint or label any where none is given, of a condition its status, "
        '"True" where none is given.',
    )
    message: str = Field(
        default="", max_length=100, description="What the condition's reason or message must contain; case matters."
    )
    kind: SignKind = Field(description="Kind of the notice; none: it is known, and says nothing.")
    deadline: Literal["since", "value", "message"] = Field(
        default="since",
        description="When the node goes. since: withinSeconds after it was put there, or first seen. value: its value "
        "is UTC epoch seconds. message: the first date in the condition's message; where none can be read, as `since`.",
    )
    within_seconds: WaitSeconds = Field(default=0.0, description="From the sign until the node goes, seconds.")
    confidence: Confidence | None = Field(default=None, description="How sure it is; without it as its kind has it.")

    @property
    def place(self) -> tuple[str, str]:
        """Where on a Node it stands, and under which name: ("taint", its key) and so on."""
        for where, name in (("taint", self.taint), ("condition", self.condition)):
            if name is not None:
                return where, name
        return "label", self.label or ""

    def fits(self, value: str, message: str) -> bool:
        """Whether this row speaks of a sign of its name with that value; of a condition, of that status and message."""
        wanted = "True" if self.value is None and self.condition is not None else self.value
        return wanted in {None, value} and self.message in message


class NodeRules(Part):
    """Node grants and lost nodes."""

    node_timeout_seconds: Seconds = Field(default=900.0, description="A node grant that brought no node by then ends.")
    not_ready_grace_seconds: Seconds = Field(
        default=300.0, description="A NotReady node without notice keeps its GPUs in the budget this long."
    )
    signs: tuple[NodeSign, ...] = Field(
        default=(),
        max_length=200,
        description="What taints, conditions and labels on nodes say about their end; looked at before those that are "
        "known anyway (docs/notices.md has them).",
    )
