"""What a model's users were promised, as the policy says it."""

from typing import Literal

from pydantic import Field

from rebalancer.domain.part import Part, Seconds


class Slo(Part):
    """What the model's users were promised."""

    latency_seconds: Seconds = Field(
        description="p95 latency (time to first token for LLMs) the model must stay under."
    )
    budgeting_method: Literal["occurrences", "timeslices"] = Field(
        default="occurrences",
        description="What is kept or missed, in OpenSLO's words: each request (occurrences) or each minute, whatever "
        "its requests (timeslices).",
    )
