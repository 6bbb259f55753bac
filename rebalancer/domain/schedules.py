"""What a model's schedules say at an instant: a function of that instant alone, with no memory of what came before.

A window is in force from the first instant at which local clocks show `from` (or, where they skip it, a later time) up
to the first at which they show `until`. Of the windows in force the highest floor and the lowest cap count; a floor
above the cap wins. A window's floor holds from `lead` seconds before it on, so that what it asks for has started when
it begins; its cap does not.
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import date, time, timedelta
from functools import lru_cache

from rebalancer.domain.policy import Model
from rebalancer.domain.timetable import WEEK, Schedule
from rebalancer.domain.zones import first_instant

DAY_SECONDS = 86_400
AHEAD_DAYS = 8  # how far changes are foreseen: a week, and the day in which local time is ahead of UTC or behind
MOST_LEAD_SECONDS = float(DAY_SECONDS)
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Window:
    """`schedule` is in force at the instants t (UTC epoch seconds) with begins <= t < ends."""

    schedule: Schedule
    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class ScheduledBounds:
    """A model's bounds in replicas: min_replicas <= floor <= cap <= max_replicas.

    floor: replicas below which it is not taken.
    cap: replicas above which it is not granted.
    floor_by: the window that sets the floor, None where the policy's own number counts.
    cap_by: the window that sets the cap, None where the policy's own number counts; it is named though a floor above it
        outweighs it.
    """

    floor: int
    cap: int
    floor_by: Window | None = None
    cap_by: Window | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """From `at` (UTC epoch seconds) on, `standing` holds."""

    at: float
    standing: ScheduledBounds


def standing_at(model: Model, at: float, lead_seconds: float) -> ScheduledBounds:
    """The bounds of `model` at `at`; floors count `lead_seconds` (at most a day) before their windows."""
    course = _course_of(model, at, lead_seconds)
    return course[bisect_right(course, at, key=_instant) - 1].standing


def next_turn(model: Model, at: float, lead_seconds: float) -> Turn | None:
    """The first instant after `at` at which floor or cap is another number; None: none within 8 days."""
    course = _course_of(model, at, lead_seconds)
    place = bisect_right(course, at, key=_instant)
    now = course[place - 1].standing
    later = (turn for turn in course[place:] if (turn.standing.floor, turn.standing.cap) != (now.floor, now.cap))
    return next((turn for turn in later if turn.at <= at + AHEAD_DAYS * DAY_SECONDS), None)


def stands_until(model: Model, at: float, lead_seconds: float) -> float:
    """An instant after `at` (UTC epoch seconds); until then `standing_at` and `next_turn` say what they say at `at`."""
    course = _course_of(model, at, lead_seconds)
    later = [turn.at for turn in course[bisect_right(course, at, key=_instant) :]]
    seen = [then - AHEAD_DAYS * DAY_SECONDS for then in later]  # when it comes into sight
    midnight = (at // DAY_SECONDS + 1) * DAY_SECONDS
    return min([midnight, *later[:1], *(then for then in seen if then > at)])


def window_on(schedule: Schedule, day: date) -> Window | None:
    """The window that begins on the local `day`; None: there is none, or clocks skip all of it."""
    if WEEK[day.weekday()] not in schedule.days:
        return None
    first, last = schedule.first_date, schedule.last_date
    if (first and day < date.fromisoformat(first)) or (last and day > date.fromisoformat(last)):
        return None
    begin, until = time.fromisoformat(schedule.begin), time.fromisoformat(schedule.until)
    begins = first_instant(day, begin, schedule.time_zone)
    ends = first_instant(day if until > begin else day + timedelta(days=1), until, schedule.time_zone)
    return Window(schedule, begins, ends) if begins < ends else None


def _instant(turn: Turn) -> float:
    return turn.at


def _course_of(model: Model, at: float, lead_seconds: float) -> tuple[Turn, ...]:
    lead = min(lead_seconds, MOST_LEAD_SECONDS)
    return _course(model.schedules, model.min_replicas, model.max_replicas, lead, int(at // DAY_SECONDS))


# One plan asks for a model's bounds several times, and the day in UTC is the same in 8,640 plans.
@lru_cache(maxsize=4096)
def _course(schedules: tuple[Schedule, ...], least: int, most: int, lead: float, day: int) -> tuple[Turn, ...]:
    """The standings from the beginning of UTC day `day` (days since the epoch) over this day and 8 more.

    A window that begins on local day d is in force within d - 1 to d + 2 of UTC, and its lead begins up to a day
    earlier.
    """
    start, end = float(day * DAY_SECONDS), float((day + AHEAD_DAYS + 1) * DAY_SECONDS)
    days = [EPOCH + timedelta(days=n) for n in range(day - 2, day + AHEAD_DAYS + 4)]
    windows = [window for schedule in schedules for each in days if (window := window_on(schedule, each)) is not None]
    edges = {edge for one in windows for edge in (one.begins - lead, one.begins, one.ends) if start < edge < end}
    return tuple(Turn(at, _standing(windows, at, least, most, lead)) for at in sorted({start, *edges}))


def _standing(windows: list[Window], at: float, least: int, most: int, lead: float) -> ScheduledBounds:
    """The floor and cap in force at `at`, each with its window; of equal ones the window that ends last."""
    floors = [
        (min(one.schedule.min_replicas, most), one.ends, one.schedule.name, one)
        for one in windows
        if one.schedule.min_replicas is not None and one.begins - lead <= at < one.ends
    ]
    caps = [
        (-one.schedule.max_replicas, one.ends, one.schedule.name, one)
        for one in windows
        if one.schedule.max_replicas is not None and one.begins <= at < one.ends
    ]
    floor, _, _, floor_by = max(floors, key=_rank, default=(0, 0.0, "", None))
    negative, _, _, cap_by = max(caps, key=_rank, default=(-most, 0.0, "", None))
    raised = max(least, floor)
    return ScheduledBounds(
        floor=raised,
        cap=max(raised, min(most, -negative)),
        floor_by=floor_by if floor > least else None,
        cap_by=cap_by if -negative < most else None,
    )


def _rank(standing: tuple[int, float, str, Window | None]) -> tuple[int, float, str]:
    return standing[:3]
