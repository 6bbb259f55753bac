"""The table of outages in operations.md and the tests that show its cells: each test's docstring is its cell."""

import inspect

from tests.app import test_leading_in_outages, test_outages_seen
from tests.house.repository import ROOT
from tests.outages import test_outages

PAGE = ROOT / "docs/operations.md"
HEADING = "### An outage, hour by hour"
ROWS = ("kafka", "api_server", "both")
COLUMNS = ("decided", "refused", "seen", "caught_up")


def shown() -> dict[str, str]:
    """Cells by the names of the tests that show them."""
    tests = {**vars(test_outages), **vars(test_outages_seen), **vars(test_leading_in_outages)}
    return {
        name.removeprefix("test_"): " ".join(inspect.cleandoc(test.__doc__ or "").split())
        for name, test in tests.items()
        if name.startswith("test_")
    }


def written() -> dict[str, str]:
    """Cells by row and column, as the page has them."""
    section = PAGE.read_text().split(HEADING)[1].split("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return {
        f"{row}_{column}": cell.strip()
        for row, line in zip(ROWS, lines, strict=True)
        for column, cell in zip(COLUMNS, line.strip("|").split("|")[1:], strict=True)
    }


def test_each_cell_of_the_table_of_outages_is_shown_by_a_test_that_says_the_same() -> None:
    assert written() == shown()
