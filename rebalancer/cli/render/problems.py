"""`rebalancer config check`: a file's problems, one line each."""

from collections.abc import Sequence

from rebalancer.cli.render.words import columns, counted, printable
from rebalancer.settings.problem import Problem

HEADER = ("LINE", "PATH", "VALUE", "PROBLEM", "ALLOWED", "FIX")


def render_problems(name: str, problems: Sequence[Problem]) -> str:
    """A line that says how the file `name` is, and below it every problem."""
    if not problems:
        return f"{printable(name)}: ok"
    rows = [
        (
            str(each.line) if each.line else "-",
            each.path or "-",
            each.value or "-",
            each.what,
            each.allowed or "-",
            each.fix,
        )
        for each in problems
    ]
    return "\n".join(
        [f"{printable(name)}: {counted(len(problems), 'problem')}", *columns([HEADER, *rows], "><<<<<", 2)]
    )
