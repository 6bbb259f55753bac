"""Durations and instants as people type them."""

import pytest

from rebalancer.cli.failure import Failed
from rebalancer.cli.terminal.spans import instant_of, seconds_of
from tests.cli.scene import MIDNIGHT, NOW, at


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("1h30m", 5400), ("90s", 90), ("2d", 172_800)])
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert seconds_of(text, "--for") == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "30 m", "-5m", "1.5h", "0s", "30m!", "½h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Failed, match="--for") as wrong:
        seconds_of(text, "--for")
    assert wrong.value.code == 2


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("03:06:20", at("03:06:20")),
        ("03:06", at("03:06:00")),
        ("23:59", MIDNIGHT - 60),  # still to come today: the last one was yesterday's
        ("03:06:20 UTC", at("03:06:20")),  # as the first line of status has it
        ("2027-01-16 03:06:20 UTC", at("03:06:20")),  # and that of explain --at
        ("2027-01-16T03:06:20Z", at("03:06:20")),
        ("2027-01-16T04:06:20+01:00", at("03:06:20")),
        ("2027-01-16T03:06:20", at("03:06:20")),
    ],
)
def test_an_instant_is_utc_and_past_and_a_second_is_meant_to_its_end(text: str, instant: float) -> None:
    assert instant_of(text, "--at", NOW) == pytest.approx(instant + 0.999)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2027-01-16T03:06:20.25Z", at("03:06:20") + 0.25),
        ("90s", NOW - 90.0),
        ("-1m30s", NOW - 90.0),
        ("2m ago", NOW - 120.0),
    ],
)
def test_a_fraction_is_taken_as_it_is_and_so_is_how_long_ago(text: str, instant: float) -> None:
    assert instant_of(text, "--at", NOW) == pytest.approx(instant)


@pytest.mark.parametrize("text", ["", "now", "25:00", "03:61", "2027-13-01", "999999d ago", "1960-01-01"])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(Failed, match="--at"):
        instant_of(text, "--at", NOW)
