"""Which signals vote for a model, and where their marks are."""

from functools import cached_property
from typing import Annotated

from pydantic import Field, FiniteFloat

from rebalancer.domain.part import Part, Ratio


class ConcurrencySignal(Part):
    """Running + waiting requests over what one replica carries."""

    per_replica: Annotated[FiniteFloat, Field(gt=0, le=100_000)] | None = Field(
        default=None,
        description="Requests one replica carries within its SLO, as far as known: what it is seen to carry is "
        "believed within minutes. Without it a model keeps what it has until it was seen full, or ten minutes at work.",
    )


class QueueSignal(Part):
    """Waiting requests per ready replica."""

    high: Annotated[FiniteFloat, Field(gt=0, le=100_000)] = Field(
        description="Waiting requests per replica at which more replicas are voted for."
    )


class WatermarkSignal(Part):
    """A ratio held between two watermarks."""

    high: Ratio = Field(description="At or above: ceil(ready x use / high).")
    low: Ratio = Field(description="At or below: fewer replicas are voted for.")


class Signals(Part):
    """Which signals vote for this model; one that is not configured has no vote."""

    concurrency: ConcurrencySignal | None = None
    queue: QueueSignal | None = None
    kv_cache: WatermarkSignal | None = None
    latency: bool = Field(default=False, description="p95 latency against slo.latencySeconds votes.")
    utilisation: bool = Field(
        default=False, description="GPU utilisation votes by the watermarks of the model's class."
    )

    @cached_property
    def configured(self) -> tuple[str, ...]:
        """Names of the voting signals, in voting order."""
        pairs = (
            ("concurrency", self.concurrency),
            ("queue", self.queue),
            ("kvCache", self.kv_cache),
            ("latency", self.latency),
            ("utilisation", self.utilisation),
        )
        return tuple(name for name, on in pairs if on)
