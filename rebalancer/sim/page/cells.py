"""Cells of the page's tables: numbers as people read them, and tables in Markdown."""

from collections.abc import Sequence

from rebalancer.sim.page.cases import Against, CasePage
from rebalancer.sim.suite.names import called
from rebalancer.sim.suite.row import Row, headline


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table, heads first; the first column is text, the others are numbers."""
    head, *rest = lines
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rest)) + "\n"


def headline_cell(row: Row | None, case: CasePage) -> str:
    """The headline: lost utility, or late requests in per cent."""
    value = None if row is None else headline(row)
    if value is None:
        return "-"
    return f"{value:.3f}" if case.by_utility else f"{100 * value:.2f}"


def peer_cell(each: Against, case: CasePage) -> str:
    """The best peer's headline, and who it is."""
    return f"{headline_cell(each.peer, case)} {called(each.peer)}"


def difference(each: Against, case: CasePage) -> str:
    """In points of a violation, or of lost utility; a star where it counts."""
    times, form = (1, "{:+z.3f}") if case.by_utility else (100, "{:+z.2f}")
    points = form.format(times * each.difference)
    if each.low is None or each.high is None:
        return points
    between = " to ".join(form.format(times * end) for end in (each.low, each.high))
    return f"{points} ({between})" + " *" * each.counts


def number(value: float | None) -> str:
    """Whole, with thousands."""
    return "-" if value is None else f"{value:,.0f}"
