"""Every line of ours that a page, the README or a runbook tells people to type is one that our command line reads."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from rebalancer.cli.entry import app
from tests.docs.blocks import written_pages
from tests.house.repository import ROOT
from tests.runbooks.page import FOLDER

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "charts/rebalancer/README.md")),
    *sorted(FOLDER.glob("*.md")),
    *written_pages(),
]
NUMBERS = {"DONOR_FLOOR", "FITS", "HELD", "LESS", "MORE"}  # what the runbooks write where a number belongs
OURS: Any = typer.main.get_command(app)  # typer keeps its own click
ENDS = {"|", ">", "&&", ";"}  # of a command, in a line of a shell


def lines_of(page: Path) -> list[str]:
    """The lines in its fenced blocks that begin with our command."""
    fenced = re.findall(r"^```[^\n]*\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = "\n".join(fenced).replace("\\\n", " ").splitlines()
    return [line for each in lines if (line := each.removeprefix("$ ")).startswith("rebalancer ")]


def words_of(line: str) -> list[str]:
    """What our command is given, numbers in the place of their names."""
    words = shlex.split(line, comments=True)[1:]
    end = next((at for at, word in enumerate(words) if word in ENDS), len(words))
    return ["1" if word in NUMBERS else word for word in words[:end]]


def read(words: list[str]) -> None:
    """As far as the command line reads before it does anything. Raises what it would tell the person."""
    command, name = OURS, "rebalancer"
    while True:
        context = command.make_context(name, list(words))
        if not hasattr(command, "commands"):
            return
        rest = [*context._protected_args, *context.args]  # noqa: SLF001 - as click itself goes on
        name, command, words = command.resolve_command(context, rest)


@pytest.mark.parametrize("page", [page for page in PAGES if lines_of(page)], ids=lambda page: page.name)
def test_the_lines_of_a_page_are_read_by_our_command_line(page: Path) -> None:
    wrong = []
    for line in lines_of(page):
        try:
            read(words_of(line))
        except Exception as error:  # noqa: BLE001 - whatever a person would be told
            wrong.append(f"{line}: {error}")
    assert wrong == []


def test_lines_are_looked_at_whole() -> None:
    assert sum(len(lines_of(page)) for page in PAGES) > 120
    with pytest.raises(Exception, match="valid integer"):
        read(words_of("rebalancer override add pin chat three --reason x"))
    with pytest.raises(Exception, match="--nobody"):
        read(words_of("rebalancer status --nobody | head"))
