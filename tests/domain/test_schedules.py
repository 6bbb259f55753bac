"""Floors and caps of schedules at an instant: over midnight, over changes of clocks, over each other."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.domain.policy import Model
from rebalancer.domain.schedules import AHEAD_DAYS, ScheduledBounds, next_turn, standing_at, window_on
from rebalancer.domain.timetable import WEEK, Schedule
from tests.builders import a_model

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

MINUTE, HOUR, DAY = 60, 3600, 86_400
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]


def a_schedule(begin: str = "07:30", until: str = "10:00", **fields: object) -> Schedule:
    """Every day in Berlin, floor 6."""
    given_ = {"name": "rush", "from": begin, "until": until, "timeZone": "Europe/Berlin", "minReplicas": 6} | fields
    return Schedule.model_validate({key: value for key, value in given_.items() if value is not None})


def a_scheduled_model(*schedules: Schedule, most: int = 20) -> Model:
    """Floor 2."""
    return a_model("b", 2, max_replicas=most, schedules=schedules)


def utc(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def bounds(model: Model, at: str, lead: float = 0.0) -> tuple[int, int]:
    standing = standing_at(model, utc(at), lead)
    return standing.floor, standing.cap


class TestWindow:
    def test_it_begins_with_its_first_second_and_ends_before_its_last(self) -> None:
        model = a_scheduled_model(a_schedule(maxReplicas=12))
        at = ["2027-01-15T06:29:59", "2027-01-15T06:30:00", "2027-01-15T08:59:59", "2027-01-15T09:00:00"]
        assert [bounds(model, each) for each in at] == [(2, 20), (6, 12), (6, 12), (2, 20)]

    def test_it_follows_the_clocks_of_its_zone_through_the_year(self) -> None:
        model = a_scheduled_model(a_schedule())
        assert bounds(model, "2027-07-15T05:30:00") == (6, 20)
        assert bounds(model, "2027-07-15T08:00:00") == (2, 20)

    def test_it_comes_on_its_days_only(self) -> None:
        model = a_scheduled_model(a_schedule(days=("mon", "fri")))
        week = [bounds(model, f"2027-01-{day}T07:00:00")[0] for day in range(11, 18)]  # Monday to Sunday
        assert week == [6, 2, 2, 2, 6, 2, 2]

    def test_over_midnight_it_belongs_to_the_day_on_which_it_begins(self) -> None:
        model = a_scheduled_model(a_schedule("22:00", "06:00", days=("fri",)))
        at = ["2027-01-15T20:59:59", "2027-01-15T21:00:00", "2027-01-16T04:59:59", "2027-01-16T05:00:00"]
        assert [bounds(model, each)[0] for each in at] == [2, 6, 6, 2]

    def test_until_the_time_at_which_it_began_is_a_whole_day(self) -> None:
        model = a_scheduled_model(a_schedule("00:00", "00:00", days=("fri",)))
        at = ["2027-01-14T22:59:59", "2027-01-14T23:00:00", "2027-01-15T22:59:59", "2027-01-15T23:00:00"]
        assert [bounds(model, each)[0] for each in at] == [2, 6, 6, 2]

    def test_it_comes_from_its_first_date_to_its_last(self) -> None:
        model = a_scheduled_model(a_schedule(firstDate="2027-01-13", lastDate="2027-01-15"))
        assert [bounds(model, f"2027-01-{day}T07:00:00")[0] for day in range(11, 18)] == [2, 2, 6, 6, 6, 2, 2]


class TestChangesOfClocks:
    """Berlin skips 02:00-03:00 on 2027-03-28 and has it twice on 2027-10-31; Lord Howe half an hour of it."""

    @pytest.mark.parametrize(
        ("begin", "until", "zone", "day", "begins", "ends"),
        [
            ("02:30", "04:00", "Europe/Berlin", "2027-03-28", "2027-03-28T01:00", "2027-03-28T02:00"),
            ("01:00", "02:30", "Europe/Berlin", "2027-03-28", "2027-03-28T00:00", "2027-03-28T01:00"),
            ("22:00", "02:30", "Europe/Berlin", "2027-03-27", "2027-03-27T21:00", "2027-03-28T01:00"),
            ("02:30", "04:00", "Europe/Berlin", "2027-10-31", "2027-10-31T00:30", "2027-10-31T03:00"),
            ("01:00", "02:30", "Europe/Berlin", "2027-10-31", "2027-10-30T23:00", "2027-10-31T00:30"),
            ("02:15", "02:45", "Europe/Berlin", "2027-10-31", "2027-10-31T00:15", "2027-10-31T00:45"),
            ("02:30", "05:00", "America/New_York", "2027-03-14", "2027-03-14T07:00", "2027-03-14T09:00"),
            ("01:30", "02:00", "America/New_York", "2027-11-07", "2027-11-07T05:30", "2027-11-07T07:00"),
            ("02:10", "03:00", "Australia/Lord_Howe", "2027-10-03", "2027-10-02T15:30", "2027-10-02T16:00"),
            ("01:45", "02:00", "Australia/Lord_Howe", "2027-04-04", "2027-04-03T14:45", "2027-04-03T15:30"),
            ("02:30", "04:00", "Asia/Kolkata", "2027-03-28", "2027-03-27T21:00", "2027-03-27T22:30"),
        ],
    )
    def test_a_skipped_time_is_the_jump_and_a_repeated_one_the_first(
        self, begin: str, until: str, zone: str, day: str, begins: str, ends: str
    ) -> None:
        window = window_on(a_schedule(begin, until, timeZone=zone), date.fromisoformat(day))
        assert window is not None
        assert (window.begins, window.ends) == (utc(begins), utc(ends))

    def test_a_window_that_clocks_skip_does_not_happen(self) -> None:
        assert window_on(a_schedule("02:10", "02:50"), date(2027, 3, 28)) is None
        assert window_on(a_schedule("02:10", "02:50"), date(2027, 3, 27)) is not None

    @given(st.sampled_from(ZONES), st.dates(date(2027, 1, 1), date(2027, 12, 31)), st.times())
    def test_windows_that_touch_on_the_clock_touch_in_time(self, zone: str, day: date, cut: object) -> None:
        at = f"{cut:%H:%M}"
        windows = [
            window_on(a_schedule(begin, until, timeZone=zone), day) for begin, until in ((at, "00:00"), ("00:00", at))
        ]
        whole = window_on(a_schedule("00:00", "00:00", timeZone=zone), day)
        assert whole is not None
        later, earlier = windows if at != "00:00" else (None, whole)
        assert (earlier.begins if earlier else later and later.begins) == whole.begins
        assert (later.ends if later else earlier and earlier.ends) == whole.ends
        if earlier and later:
            assert earlier.ends == later.begins


class TestOverlap:
    def test_the_highest_floor_and_the_lowest_cap_count(self) -> None:
        model = a_scheduled_model(
            a_schedule(name="low", minReplicas=4, maxReplicas=15),
            a_schedule(name="high", minReplicas=9, maxReplicas=18),
            a_schedule(name="tight", minReplicas=None, maxReplicas=11),
        )
        standing = standing_at(model, utc("2027-01-15T07:00:00"), 0.0)
        assert (standing.floor, standing.cap) == (9, 11)
        assert named(standing) == ("high", "tight")

    def test_a_floor_above_the_cap_wins(self) -> None:
        model = a_scheduled_model(a_schedule(), a_schedule(name="cap", minReplicas=None, maxReplicas=4))
        assert bounds(model, "2027-01-15T07:00:00") == (6, 6)

    def test_a_floor_under_the_policys_changes_nothing(self) -> None:
        model = a_scheduled_model(a_schedule(minReplicas=1))
        assert standing_at(model, utc("2027-01-15T07:00:00"), 0.0) == ScheduledBounds(2, 20)

    def test_a_cap_under_the_policys_floor_stops_at_it(self) -> None:
        model = a_scheduled_model(a_schedule(minReplicas=None, maxReplicas=1))
        assert bounds(model, "2027-01-15T07:00:00") == (2, 2)

    def test_of_equal_floors_the_one_that_lasts_longest_is_named(self) -> None:
        model = a_scheduled_model(a_schedule(name="long", until="12:00"), a_schedule(name="short"))
        assert named(standing_at(model, utc("2027-01-15T07:00:00"), 0.0)) == ("long", None)


class TestLead:
    def test_a_floor_holds_its_lead_earlier_and_a_cap_does_not(self) -> None:
        model = a_scheduled_model(a_schedule(maxReplicas=12))
        at = ["2027-01-15T06:25:49", "2027-01-15T06:25:50", "2027-01-15T06:30:00"]
        assert [bounds(model, each, lead=250.0) for each in at] == [(2, 20), (6, 20), (6, 12)]

    def test_it_ends_when_it_ends_whatever_the_lead(self) -> None:
        model = a_scheduled_model(a_schedule())
        assert [bounds(model, f"2027-01-15T{at}", lead=3600.0)[0] for at in ("08:59:59", "09:00:00")] == [6, 2]

    def test_it_reaches_over_midnight_and_is_a_day_at_most(self) -> None:
        model = a_scheduled_model(a_schedule("00:10", "01:00", days=("sat",)))
        assert bounds(model, "2027-01-15T12:00:00", lead=20 * HOUR)[0] == 6
        assert bounds(model, "2027-01-14T23:09:59", lead=9e9)[0] == 2
        assert bounds(model, "2027-01-14T23:10:00", lead=9e9)[0] == 6


def named(standing: ScheduledBounds) -> tuple[str | None, str | None]:
    floor, cap = (by.schedule.name if by is not None else None for by in (standing.floor_by, standing.cap_by))
    return floor, cap


# --- whatever the schedules

TIMES = st.integers(0, 24 * 60 - 1).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")
NEAR_THE_CHANGE = st.integers(0, 4 * 60 - 1).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")
LEADS = st.integers(0, 26 * 60).map(lambda minutes: minutes * 60.0)
# Weeks with a change of clocks somewhere: Berlin and Lord Howe in spring and autumn, New York twice.
WEEKS = st.sampled_from(["2027-03-25", "2027-10-28", "2027-03-11", "2027-11-04", "2027-04-01", "2027-09-30"])


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    floor, cap = draw(st.one_of(st.none(), st.integers(1, 12))), draw(st.one_of(st.none(), st.integers(0, 12)))
    first = draw(st.one_of(st.none(), st.dates(date(2027, 3, 1), date(2027, 11, 15))))
    last = first and draw(st.one_of(st.none(), st.just(first + timedelta(days=draw(st.integers(0, 5))))))
    return a_schedule(
        draw(st.one_of(TIMES, NEAR_THE_CHANGE)),
        draw(st.one_of(TIMES, NEAR_THE_CHANGE)),
        name=f"s{draw(st.integers(0, 99))}",
        days=tuple(draw(st.lists(st.sampled_from(WEEK), min_size=1, max_size=7, unique=True))),
        timeZone=draw(st.sampled_from(ZONES)),
        minReplicas=floor,
        maxReplicas=cap,
        firstDate=first and first.isoformat(),
        lastDate=last and last.isoformat(),
    )


MODELS = st.lists(schedules(), max_size=4).map(lambda some: a_scheduled_model(*some, most=10))


@given(MODELS, WEEKS, st.integers(0, DAY), LEADS)
def test_no_floor_is_under_the_policys_and_no_cap_under_the_floor(
    model: Model, day: str, second: int, lead: float
) -> None:
    standing = standing_at(model, utc(day) + second, lead)
    assert model.min_replicas <= standing.floor <= standing.cap <= model.max_replicas


@given(MODELS, WEEKS, st.integers(0, DAY // MINUTE), LEADS)
@settings(max_examples=50)
def test_the_next_change_is_the_first_minute_at_which_bounds_differ(
    model: Model, day: str, minute: int, lead: float
) -> None:
    at = utc(day) + minute * MINUTE
    now, found = standing_at(model, at, lead), next_turn(model, at, lead)
    minutes, floors, caps = by_hand(model, at, lead)
    assert (now.floor, now.cap) == (floors[0], caps[0])
    changed = np.flatnonzero((floors != floors[0]) | (caps != caps[0]))
    if found is None:
        assert not changed.size
    else:
        first = changed[0]
        assert (found.at, found.standing.floor, found.standing.cap) == (minutes[first], floors[first], caps[first])


@given(MODELS, WEEKS, LEADS)
@settings(max_examples=20)
def test_bounds_depend_on_the_instant_alone(model: Model, day: str, lead: float) -> None:
    minutes, floors, caps = by_hand(model, utc(day), lead)
    for n in range(0, len(minutes), 97):
        standing = standing_at(model, minutes[n], lead)
        assert (standing.floor, standing.cap) == (floors[n], caps[n])


def by_hand(model: Model, at: float, lead: float) -> tuple[Floats, Whole, Whole]:
    """Minute by minute over 8 days: the instants, floors and caps, each window laid over all of them."""
    minutes: Floats = at + np.arange(AHEAD_DAYS * DAY // MINUTE + 1, dtype=np.float64) * MINUTE
    floors: Whole = np.full(len(minutes), model.min_replicas, dtype=np.int64)
    caps: Whole = np.full(len(minutes), model.max_replicas, dtype=np.int64)
    for schedule in model.schedules:
        for n in range(int(at // DAY) - 4, int(at // DAY) + AHEAD_DAYS + 6):
            window = window_on(schedule, date(1970, 1, 1) + timedelta(days=n))
            if window is None:
                continue
            begun, over = window.begins <= minutes, window.ends <= minutes
            warm = window.begins - min(lead, DAY) <= minutes
            if schedule.min_replicas is not None:
                least = min(schedule.min_replicas, model.max_replicas)
                floors = np.where(warm & ~over, np.maximum(floors, least), floors)
            if schedule.max_replicas is not None:
                caps = np.where(begun & ~over, np.minimum(caps, schedule.max_replicas), caps)
    return minutes, floors, np.maximum(caps, floors)
