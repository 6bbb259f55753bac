"""The catalogue is whole, what it says is shown elsewhere is there, and its page has every row."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.catalogue import CATALOGUE, GROUPS, ROWS
from tests.faults.results import PAGE, Play, kept, page, shown_by
from tests.faults.row import Row, chance
from tests.faults.scene import moment
from tests.faults.test_rows import SEEDS

TESTS = Path(__file__).parents[1]
_DEFINED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Rows of each table of the catalogue.
SIZES = {"kafka": 21, "api": 19, "leadership": 14, "metrics": 11, "actors": 10, "nodes": 12, "people": 14}


def test_it_has_the_101_rows() -> None:
    assert {group.name: len(group.rows) for group in CATALOGUE} == SIZES
    assert len({row.id for group in CATALOGUE for row in group.rows}) == sum(SIZES.values()) == 101


def test_each_group_has_one_row_for_every_day() -> None:
    assert Counter(group.name for group in GROUPS for row in group.rows if row.fast) == dict.fromkeys(SIZES, 1)


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.elsewhere], ids=lambda row: row.id)
def test_what_shows_a_row_elsewhere_is_there(row: Row) -> None:
    for test in row.elsewhere:
        file, *names = test.partition("[")[0].split("::")
        body = ast.parse((TESTS / file).read_text()).body
        for name in names:
            body = next((node.body for node in body if isinstance(node, _DEFINED) and node.name == name), [])
        assert body, test


def test_the_page_that_is_kept_has_every_row_as_it_was_last_played() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    fresh = [line for line in page(kept(), "", range(1, 4)).splitlines() if line.startswith("| ")]
    assert rows == fresh


def test_a_row_that_broke_with_one_seed_says_so_on_the_page() -> None:
    group = GROUPS[0]
    row = group.rows[0]
    one, two, _ = shown_by(row, group, range(1, 4))
    plays = {
        one: Play(one, "passed", 10.0, "", "abc", "2026-01-01 10:00"),
        two: Play(two, "failed", 20.0, "I5: twice", "def", "2026-01-02 10:00"),
    }
    line = next(line for line in page(plays, "", range(1, 4)).splitlines() if line.startswith(f"| {row.id} "))
    assert "broke 1 of 2" in line
    assert "I5: twice" in line
    assert "| 2026-01-02 | def |" in line
    del plays[two]
    assert "held 1 of 3 seeds" in page(plays, "", range(1, 4))


def test_a_test_that_is_named_without_its_parameters_counts_with_each_of_them() -> None:
    group, row = next((group, row) for group in GROUPS for row in group.rows if row.id == "M03")
    (test,) = shown_by(row, group, range(1, 4))
    plays = {
        f"{test}[{what}]": Play(f"{test}[{what}]", outcome, 1.0, words, "abc", "2026-01-01 10:00")
        for what, outcome, words in (("NaN", "passed", ""), ("+Inf", "failed", "counted"))
    }
    (line,) = (line for line in page(plays, "", range(1, 4)).splitlines() if line.startswith("| M03 "))
    assert "broke 1 of 2: failed, counted" in line


def test_what_is_shown_elsewhere_does_not_count_as_held_by_the_judge() -> None:
    here, there = ((group, group.rows[at]) for group, at in ((GROUPS[0], 0), (GROUPS[3], 0)))
    plays = {
        test: Play(test, "passed", 1.0, "", "abc", "2026-01-01 10:00")
        for group, row in (here, there)
        for test in shown_by(row, group, range(1, 4))
    }
    text = page(plays, "", range(1, 4))
    assert "Results: 1 held, 99 not played, 1 shown elsewhere." in text
    (line,) = (line for line in text.splitlines() if line.startswith("| M01 "))
    assert "| shown elsewhere, 3 plays, without the judge |" in line


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.deed], ids=lambda row: row.id)
def test_the_three_seeds_of_a_row_do_not_choose_one_moment(row: Row) -> None:
    later = [moment(chance(row, seed))[1] for seed in SEEDS]
    assert max(later) - min(later) > 0.1
