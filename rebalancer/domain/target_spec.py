"""What the policy says of one scale target."""

from functools import cached_property
from typing import Literal

from pydantic import Field

from rebalancer.domain.part import Dns1123, Part
from rebalancer.domain.target_kinds import DEPLOYMENT, TargetKind, kind_named


class TargetSpec(Part):
    """Where a model's replicas run in one pool."""

    pool: Dns1123 = Field(description="Name of a pool; one target per pool, in order of preference.")
    kind: str = Field(
        default=DEPLOYMENT,
        max_length=63,
        pattern=r"^[A-Z][A-Za-z0-9]*$",
        description="Kind of the scale target: Deployment, StatefulSet, LeaderWorkerSet, or any other that serves"
        " /scale.",
    )
    name: Dns1123 = Field(description="Name of the scale target in the model's namespace.")
    api_version: str | None = Field(
        default=None,
        max_length=253,
        pattern=r"^[a-z0-9.-]+/v[0-9][a-z0-9]*$",
        description="GROUP/VERSION of the kind; a known kind has its own.",
    )
    victims: Literal["replicaSet", "ordinal"] | None = Field(
        default=None,
        description="Who goes when it is asked for fewer replicas, where its kind does not say: pods as a ReplicaSet"
        " picks them, or the highest number. Without either nothing of the target is written.",
    )

    @cached_property
    def of(self) -> TargetKind:
        """The target's kind. Raises ValueError for an unknown one without an apiVersion, which no policy has."""
        kind = kind_named(self.kind, self.api_version, self.victims or "")
        if kind is None:
            raise ValueError(f"kind {self.kind} has no apiVersion")
        return kind
