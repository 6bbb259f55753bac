"""The page of what is covered names a test for what is, and a reason for what is not."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/coverage.md").read_text()
ROWS = re.findall(r"^\| (?!item)(.+?) \| (yes|part|no|-) \| (.*?) ?\| (.*?) ?\|$", PAGE, re.MULTILINE)


def names_in(path: Path) -> set[str]:
    """Names of the test functions of a module, those of classes too."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {each.name for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, kinds)}


def test_every_row_of_the_tables_is_read() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| item")]
    assert len(ROWS) == len(rows) > 40


@pytest.mark.parametrize(("item", "covered", "how", "shown"), ROWS, ids=[row[0] for row in ROWS])
def test_what_is_covered_has_its_test_and_what_is_not_its_reason(item: str, covered: str, how: str, shown: str) -> None:
    if covered in {"yes", "part"}:
        file, _, name = shown.strip("`").partition("::")
        assert (ROOT / file).is_file(), item
        assert not name or name in names_in(ROOT / file), item
    elif covered == "no":
        assert how, item
