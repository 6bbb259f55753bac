"""Local time to instants on the days on which clocks change, from the pinned rules and no others."""

import zoneinfo
from datetime import date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.zones import first_instant, local, zone, zone_names

# What clocks do in 2027: zone, day, time of day, and the first instant in UTC at which they show it or later.
CLOCKS = [
    ("Europe/Berlin", "2027-03-27", "02:30", "2027-03-27T01:30"),
    ("Europe/Berlin", "2027-03-28", "01:59", "2027-03-28T00:59"),
    ("Europe/Berlin", "2027-03-28", "02:00", "2027-03-28T01:00"),  # skipped: the jump
    ("Europe/Berlin", "2027-03-28", "02:30", "2027-03-28T01:00"),  # skipped: the jump
    ("Europe/Berlin", "2027-03-28", "03:00", "2027-03-28T01:00"),
    ("Europe/Berlin", "2027-03-28", "03:01", "2027-03-28T01:01"),
    ("Europe/Berlin", "2027-10-31", "02:30", "2027-10-31T00:30"),  # twice: the first
    ("Europe/Berlin", "2027-10-31", "03:00", "2027-10-31T02:00"),
    ("America/New_York", "2027-03-14", "02:15", "2027-03-14T07:00"),
    ("America/New_York", "2027-11-07", "01:30", "2027-11-07T05:30"),
    ("America/New_York", "2027-11-07", "02:00", "2027-11-07T07:00"),
    ("Australia/Lord_Howe", "2027-10-03", "02:15", "2027-10-02T15:30"),  # half an hour is skipped
    ("Australia/Lord_Howe", "2027-10-03", "02:30", "2027-10-02T15:30"),
    ("Australia/Lord_Howe", "2027-04-04", "01:45", "2027-04-03T14:45"),  # half an hour comes twice
    ("Australia/Lord_Howe", "2027-04-04", "02:00", "2027-04-03T15:30"),
    ("Asia/Kolkata", "2027-03-28", "02:30", "2027-03-27T21:00"),  # no changes of clocks
    ("Asia/Kolkata", "2027-10-31", "02:30", "2027-10-30T21:00"),
    ("Pacific/Apia", "2011-12-30", "05:00", "2011-12-30T10:00"),  # the whole day was skipped
]


@pytest.mark.parametrize(("name", "day", "of_day", "utc"), CLOCKS)
def test_a_time_of_day_is_the_first_instant_at_which_clocks_show_it_or_later(
    name: str, day: str, of_day: str, utc: str
) -> None:
    found = first_instant(date.fromisoformat(day), time.fromisoformat(of_day), name)
    assert found == datetime.fromisoformat(utc + "+00:00").timestamp()


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Antarctica/Troll"]),
    st.dates(date(2026, 1, 1), date(2036, 12, 31)),
    st.times().map(lambda of_day: of_day.replace(second=0, microsecond=0)),
)
def test_no_clock_showed_it_before(name: str, day: date, of_day: time) -> None:
    wall = datetime.combine(day, of_day)
    found = first_instant(day, of_day, name)
    assert shown(found, name) >= wall
    assert all(shown(found - minutes * 60 + 59, name) < wall for minutes in range(1, 300))


@given(st.sampled_from(sorted(zone_names())), st.dates(date(2012, 1, 1), date(2036, 12, 31)))
def test_later_on_the_clock_is_never_earlier_in_time(name: str, day: date) -> None:
    walls = [datetime.combine(day, time(0, 0)) + timedelta(minutes=15 * n) for n in range(4 * 26)]
    instants = [first_instant(wall.date(), wall.time(), name) for wall in walls]
    assert instants == sorted(instants)


def shown(at: float, name: str) -> datetime:
    return local(at, name).replace(tzinfo=None)


def test_the_rules_are_those_of_the_pinned_package_wherever_the_machine_keeps_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    zone.cache_clear()
    assert local(1_800_000_000.0, "Australia/Lord_Howe").isoformat() == "2027-01-15T19:00:00+11:00"


@pytest.mark.parametrize("name", ["Europe/Berln", "", "../zones", "/etc/passwd", "europe/berlin", "Europe"])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no time zone of the IANA database"):
        zone(name)
