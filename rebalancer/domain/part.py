"""The base of all policy classes (frozen, camelCase keys, an unknown key is an error) and their types of quantities."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from pydantic.alias_generators import to_camel

Dns1123 = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
MOST_REPLICAS = 100_000  # somebody else's 2,147,483,647, which Kubernetes takes, would be 16 GiB in a plan
Ratio = Annotated[FiniteFloat, Field(ge=0, le=1)]
Replicas = Annotated[int, Field(ge=0, le=MOST_REPLICAS)]  # of a model
Seconds = Annotated[FiniteFloat, Field(gt=0, le=7 * 86_400)]
Usd = Annotated[FiniteFloat, Field(ge=0, le=1000)]  # for a GPU for an hour
WaitSeconds = Annotated[FiniteFloat, Field(ge=0, le=7 * 86_400)]


class Part(BaseModel):
    """A mapping of the policy file."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", strict=True)
