"""The page as text: what it is worth, who held the GPUs, a verdict per model, then tables, figures and every move."""

from collections.abc import Iterator, Sequence
from html import escape

from rebalancer.drawing.bins import Bins, bins, clock
from rebalancer.drawing.panels import draw
from rebalancer.drawing.parts import head, legend, table
from rebalancer.sim.contest.outcome import ContestRun
from rebalancer.sim.contest.telling import verdicts
from rebalancer.sim.page.aligned import aligned
from rebalancer.sim.page.beside import ABOUT, TITLE, keys, numbers, pictures
from rebalancer.sim.page.figures import ROWS, PageFigure, figures

MOVES_MOST = 500  # lines; a day of 20 models has some thousands, which nobody reads
BESIDE_INCHES = 5.2


def page(title: str, about: Sequence[str], rows: Sequence[Sequence[str]], runs: Sequence[ContestRun]) -> str:
    """One or two runs of the same traffic as HTML.

    `about`: sentences, the headline first. `rows`: the table of the results, heads first; a first cell that begins with
    a space belongs to the row above it.
    """
    return "".join(_page(title, about, rows, aligned(runs)))


def _page(title: str, about: Sequence[str], rows: Sequence[Sequence[str]], runs: Sequence[ContestRun]) -> Iterator[str]:
    pieces, drawn = figures(runs)
    yield head(title)
    yield f"<h1>{escape(about[0] if about else title)}</h1>\n"
    yield from (f"<p>{escape(line)}</p>\n" for line in ((title, *about[1:]) if about else ()))
    yield from _beside(runs, pieces)
    yield from _verdicts(runs)
    yield '<section>\n<h2 id="numbers">What came of it</h2>\n'
    yield from table(rows, "What came of it")
    yield "</section>\n"
    for figure in drawn:
        yield from _figure(figure, pieces, runs[0].record.scenario.seconds)
    yield from _moves(runs)
    step = f"{pieces.width // 60} min" if pieces.width % 60 == 0 else f"{pieces.width} s"
    yield "</main>\n<footer>Times are hours and minutes since the beginning of the trace;"
    yield f" a step in a plot is {step}.</footer>\n"
    yield "</body>\n</html>\n"


def _beside(runs: Sequence[ContestRun], pieces: Bins) -> Iterator[str]:
    seconds = runs[0].record.scenario.seconds
    yield f'<section>\n<h2 id="beside">{escape(TITLE)}</h2>\n<p>{escape(ABOUT)}</p>{legend(keys(runs))}\n'
    yield '<div class="beside">\n'
    for picture in pictures(runs, pieces):
        label = f'role="img" aria-label="{escape(picture.caption)}"'
        drawn = draw(picture.name, picture.panels, pieces.begins, seconds, BESIDE_INCHES)
        yield f"<figure>{drawn.replace('<svg', f'<svg {label}', 1)}"
        yield f"<figcaption>{escape(picture.caption)}</figcaption></figure>\n"
    yield "</div>\n<details>\n<summary>The numbers</summary>\n"
    yield from table(numbers(runs, bins(seconds, ROWS)), f"{TITLE}, numbers")
    yield "</details>\n</section>\n"


def _verdicts(runs: Sequence[ContestRun]) -> Iterator[str]:
    if len(runs) == 1:
        return
    first, second = (run.outcome for run in runs)
    yield f'<section>\n<h2 id="verdicts">{escape(second.name)} beside {escape(first.name)}, by model</h2>\n<ul>\n'
    yield from (f"<li>{escape(line)}</li>\n" for line in verdicts(first, second))
    yield "</ul>\n</section>\n"


def _moves(runs: Sequence[ContestRun]) -> Iterator[str]:
    """Every move of the service with its reason; peers give none."""
    with_moves = [run for run in runs if run.moves]
    if not with_moves:
        return
    yield '<section>\n<h2 id="moves">What moved, and why</h2>\n'
    for run in with_moves:
        rows = [["at", "what"], *([clock(move.second), move.said] for move in run.moves[:MOVES_MOST])]
        more = f", the first {MOVES_MOST} of them" if len(run.moves) > MOVES_MOST else ""
        yield f"<details>\n<summary>{len(run.moves):,} moves of {escape(run.outcome.name)}{more}</summary>\n"
        yield from table(rows, f"Moves of {run.outcome.name}", "moves")
        yield "</details>\n"
    yield "</section>\n"


def _figure(figure: PageFigure, pieces: Bins, seconds: int) -> Iterator[str]:
    drawn = draw(figure.name, figure.panels, pieces.begins, seconds)
    label = f'role="img" aria-label="{escape(f"{figure.title}. {figure.caption}")}"'
    yield f'<section>\n<h2 id="{figure.name}">{escape(figure.title)}</h2>\n<figure>\n'
    caption = f"<p>{escape(figure.about)}</p><p>{escape(figure.caption)}</p>{legend(figure.keys)}"
    yield f"<figcaption>{caption}</figcaption>\n"
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(figure.title)}, plot">'
    yield drawn.replace("<svg", f"<svg {label}", 1)
    yield "</div>\n</figure>\n<details>\n<summary>The numbers</summary>\n"
    yield from table(figure.numbers, f"{figure.title}, numbers")
    yield "</details>\n</section>\n"
