"""A schedule as people write it: local times, days and dates that exist, in a zone whose rules are known."""

from datetime import date
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from rebalancer.domain.part import Part
from rebalancer.domain.zones import zone, zone_names

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEK: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _known_zone(name: str) -> str:
    """`name`, and its rules read: planning needs them at hand."""
    if name not in zone_names():
        raise PydanticCustomError("time_zone", "is no time zone of the IANA database")
    zone(name)
    return name


def _real_date(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError as error:
        raise PydanticCustomError("date", "is no date of the calendar") from error
    return text


TimeZone = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_known_zone)]
TimeOfDay = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
Date = Annotated[str, Field(pattern=r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]$"), AfterValidator(_real_date)]


class Schedule(Part):
    """A window of local time that comes back: while it lasts, a higher floor, a cap, or both."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)] = Field(
        description="Unique within the model; explanations name it."
    )
    days: tuple[Weekday, ...] = Field(default=WEEK, min_length=1, description="Days on which the window begins.")
    begin: TimeOfDay = Field(
        alias="from", description="Local time at which it begins, `07:30`. One that clocks skip: when they jump."
    )
    until: TimeOfDay = Field(
        description="Local time at which it ends, on the next day unless later than `from`. One that comes twice: the"
        " first of the two."
    )
    time_zone: TimeZone = Field(description="IANA zone of both times: `Europe/Berlin`.")
    min_replicas: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Floor while it lasts; raises the model's, never lowers it. Asked for one start earlier.",
    )
    max_replicas: int | None = Field(
        default=None, ge=0, le=100_000, description="Cap while it lasts; a floor above it wins."
    )
    first_date: Date | None = Field(default=None, description="First day on which it begins, `2027-11-26`.")
    last_date: Date | None = Field(default=None, description="Last day on which it begins.")
    reason: str = Field(default="", max_length=200, description="Why; shown, never used to decide.")
