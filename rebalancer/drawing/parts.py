"""Parts of a page in HTML: its head, legends and tables."""

from collections.abc import Iterator, Sequence
from html import escape

from rebalancer.drawing.style import STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def head(title: str) -> str:
    """From the beginning of the page to the beginning of its main part."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
    )


def legend(of: Sequence[tuple[str, str, bool]]) -> str:
    """The legend of a plot: (colour, label, dashed) of each line or area."""
    items = []
    for colour, label, dashed in of:
        dashes = ' stroke-dasharray="6 3"' if dashed else ""
        line = f'<line x1="0" y1="6" x2="28" y2="6" stroke="var(--{colour})" stroke-width="3"{dashes}/>'
        if colour == "need" or colour.startswith("model"):
            line = f'<rect width="28" height="12" fill="var(--{colour})"/>'
        items.append(f'<li><svg viewBox="0 0 28 12" aria-hidden="true">{line}</svg>{escape(label)}</li>')
    return f'<ul class="keys">{"".join(items)}</ul>'


def table(rows: Sequence[Sequence[str]], label: str, kind: str = "numbers") -> Iterator[str]:
    """A table, heads first, that scrolls by itself; a first cell that begins with a space belongs to the row above."""
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">\n'
    yield f'<table class="{kind}">\n<thead><tr>'
    yield "".join(f'<th scope="col">{escape(cell)}</th>' if cell else "<td></td>" for cell in rows[0])
    yield "</tr></thead>\n<tbody>\n"
    for head, *cells in rows[1:]:
        part = ' class="part"' if head.startswith(" ") else ""
        yield f'<tr{part}><th scope="row">{escape(head.strip())}</th>'
        yield "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        yield "</tr>\n"
    yield "</tbody>\n</table>\n</div>\n"
