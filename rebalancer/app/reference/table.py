"""Markdown tables."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """`rows` under `head`; a bar inside a cell is escaped, a line break is a space."""
    lines = [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows)]
    return "\n".join(lines) + "\n"


def code(text: object) -> str:
    """`text` in back-quotes, nothing where there is none."""
    return f"`{text}`" if str(text) else ""


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
