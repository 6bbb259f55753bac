"""The page as text: what came of it in words and numbers, then a figure per question with its own table."""

from collections.abc import Iterator, Sequence
from html import escape

from rebalancer.sim.contest.outcome import Run
from rebalancer.sim.page.bins import Bins
from rebalancer.sim.page.drawing import draw
from rebalancer.sim.page.figures import Figure, figures
from rebalancer.sim.page.style import STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, about: Sequence[str], rows: Sequence[Sequence[str]], runs: Sequence[Run]) -> str:
    """One or two runs of the same traffic as HTML.

    `about`: sentences under the title. `rows`: the table of the results, heads first; a first cell that begins with a
    space belongs to the row above it.
    """
    return "".join(_page(title, about, rows, runs))


def _page(title: str, about: Sequence[str], rows: Sequence[Sequence[str]], runs: Sequence[Run]) -> Iterator[str]:
    pieces, made = figures(runs)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
    yield f"<h1>{escape(title)}</h1>\n"
    yield from (f"<p>{escape(line)}</p>\n" for line in about)
    yield from _table(rows, "What came of it")
    for figure in made:
        yield from _figure(figure, pieces, runs[0].record.scenario.seconds)
    step = f"{pieces.width // 60} min" if pieces.width % 60 == 0 else f"{pieces.width} s"
    yield "</main>\n<footer>Times are hours and minutes since the beginning of the trace;"
    yield f" a step in a plot is {step}.</footer>\n"
    yield "</body>\n</html>\n"


def _figure(figure: Figure, pieces: Bins, seconds: int) -> Iterator[str]:
    drawn = draw(figure.name, figure.panels, pieces.begins, seconds)
    label = f'role="img" aria-label="{escape(f"{figure.title}. {figure.said}")}"'
    yield f'<section>\n<h2 id="{figure.name}">{escape(figure.title)}</h2>\n<figure>\n'
    yield f"<figcaption><p>{escape(figure.about)}</p><p>{escape(figure.said)}</p>{_legend(figure)}</figcaption>\n"
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(figure.title)}, plot">'
    yield drawn.replace("<svg", f"<svg {label}", 1)
    yield "</div>\n</figure>\n<details>\n<summary>The numbers</summary>\n"
    yield from _table(figure.numbers, f"{figure.title}, numbers")
    yield "</details>\n</section>\n"


def _legend(figure: Figure) -> str:
    items = []
    for colour, label, dashed in figure.keys:
        dashes = ' stroke-dasharray="6 3"' if dashed else ""
        line = f'<line x1="0" y1="6" x2="28" y2="6" stroke="var(--{colour})" stroke-width="3"{dashes}/>'
        if colour == "need" or colour.startswith("model"):
            line = f'<rect width="28" height="12" fill="var(--{colour})"/>'
        items.append(f'<li><svg viewBox="0 0 28 12" aria-hidden="true">{line}</svg>{escape(label)}</li>')
    return f'<ul class="keys">{"".join(items)}</ul>'


def _table(rows: Sequence[Sequence[str]], label: str) -> Iterator[str]:
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">\n<table>\n<thead><tr>'
    yield "".join(f'<th scope="col">{escape(cell)}</th>' if cell else "<td></td>" for cell in rows[0])
    yield "</tr></thead>\n<tbody>\n"
    for head, *cells in rows[1:]:
        part = ' class="part"' if head.startswith(" ") else ""
        yield f'<tr{part}><th scope="row">{escape(head.strip())}</th>'
        yield "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        yield "</tr>\n"
    yield "</tbody>\n</table>\n</div>\n"
