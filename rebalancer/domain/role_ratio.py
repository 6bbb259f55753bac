"""What the policy says of two models that serve as the roles of one."""

from typing import Annotated

from pydantic import Field, FiniteFloat

from rebalancer.domain.part import Part


class RoleRatio(Part):
    """How many replicas a role has by those of another, as prefill by decode: both serve the same requests."""

    to: Annotated[str, Field(max_length=63)] = Field(
        description="Id of the model that is the other role; that one says nothing of the ratio."
    )
    least: Annotated[FiniteFloat, Field(ge=0, le=1000)] = Field(
        alias="min", description="Least replicas of this model for each one of the other: 0.5 is one for two."
    )
    most: Annotated[FiniteFloat, Field(gt=0, le=1000)] = Field(
        alias="max", description="Most replicas of this model for each one of the other."
    )
