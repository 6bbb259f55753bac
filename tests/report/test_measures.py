"""Limits on what a change of policy comes to: as they are typed, and whether they hold."""

import pytest

from rebalancer.report.measures import Limit, Measure, NoLimit, judged, limit_of

LATE = Measure("late-requests", 1000.0, 1080.0)


@pytest.mark.parametrize(
    ("word", "limit"),
    [
        ("late-requests=100", Limit("late-requests", 100.0)),
        ("late-requests=+100", Limit("late-requests", 100.0, "more")),
        ("gpu-hours=+2.5%", Limit("gpu-hours", 2.5, "percent")),
    ],
)
def test_a_limit_is_all_there_is_or_what_is_added_or_that_in_percent(word: str, limit: Limit) -> None:
    assert limit_of(word) == limit
    assert f"{limit.measure}={limit.text}" == word


@pytest.mark.parametrize("word", ["late-requests", "late-requests=", "late-requests=5%", "late-requests=-1", "usd=x"])
def test_what_is_no_limit_shows_what_one_looks_like(word: str) -> None:
    with pytest.raises(NoLimit, match=r"write (late-requests|usd)=100 "):
        limit_of(word)


@pytest.mark.parametrize(
    ("word", "holds"),
    [
        ("late-requests=1080", True),
        ("late-requests=1079", False),
        ("late-requests=+80", True),
        ("late-requests=+79", False),
        ("late-requests=+8%", True),
        ("late-requests=+7.9%", False),
        ("usd=5", None),
    ],
)
def test_a_limit_holds_up_to_its_number_and_never_of_what_is_not_known(word: str, *, holds: bool | None) -> None:
    (verdict,) = judged([limit_of(word)], [LATE])
    assert (verdict.limit, verdict.holds) == (word, holds)


def test_fewer_are_within_any_limit_of_more() -> None:
    fewer = Measure("late-requests", 1000.0, 10.0)
    assert all(each.holds for each in judged([limit_of("late-requests=+0"), limit_of("late-requests=+0%")], [fewer]))
    same = Measure("late-requests", 1000.0, 1000.0)
    assert all(each.holds for each in judged([limit_of("late-requests=+0"), limit_of("late-requests=1000")], [same]))
