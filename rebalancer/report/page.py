"""The report as one HTML page: the headline, the picture, then the tables; it needs no other file and prints."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape

import numpy as np

from rebalancer.drawing.bins import F64
from rebalancer.drawing.panels import MODEL_COLOURS, LevelLine, Line, Panel, draw
from rebalancer.drawing.parts import head, legend, table
from rebalancer.ledger.books import MICRO
from rebalancer.ledger.states import FREE, UNKNOWN
from rebalancer.report.advice import patch
from rebalancer.report.gathering import Gathered
from rebalancer.report.predictions_telling import causes_said, prediction_rows, predictions_said
from rebalancer.report.report import Report, headline
from rebalancer.report.telling import (
    free_rows,
    group_rows,
    idle_said,
    lasted,
    model_rows,
    pool_rows,
    request_rows,
    title,
    words,
)

OTHERS = "other models"
NARROW_INCHES = 5.2
DAYS_FROM, MINUTES_FROM = 2 * 86_400, 900  # seconds of the whole picture: from there on ticks are days, and minutes
ABOUT = (
    "Above: GPUs that models held, whether replicas served, started or ended there; in grey those of pods of no model,"
    " and those of which nothing is known; what is left below the line was free. Below: late requests of all models"
    " whose requests are counted, played again on the recorded work and replicas."
)


def page(of: Report, seen: Gathered) -> str:
    """The page."""
    return "".join(_page(of, seen))


def _page(of: Report, seen: Gathered) -> Iterator[str]:
    _, *more = words(of)
    yield head(f"GPUs, {title(of)}")
    yield f"<h1>{escape(headline(of))}</h1>\n"
    yield from (f"<p>{escape(line)}</p>\n" for line in (*more[:2], title(of)))
    yield from _picture(of, seen)
    yield from _section("models", "By model", model_rows(of), _MODELS)
    yield from _section("requests", "What users got, by the recorded work played again", request_rows(of), _REQUESTS)
    for kind, name, rows in (("team", "teams", of.bill.teams), ("cost center", "centers", of.bill.cost_centers)):
        if any(row.name for row in rows):
            yield from _section(name, f"By {kind}", group_rows(kind, rows, of), "")
    yield from _section("pools", "By pool and instance type", pool_rows(of), _POOLS)
    if of.predictions:
        heading = predictions_said(of.predictions)
        yield from _section(
            "predictions", "What was predicted, and what came", prediction_rows(of.predictions), heading
        )
        yield from (f"<p>{escape(cause)}</p>\n" for cause in causes_said(of.predictions))
    if of.free:
        yield from _section("free", "GPUs that are free when", free_rows(of.free), _FREE)
    yield from _advice(of)
    notes = [*more[2:], *idle_said(of)]
    if notes:
        yield '<section>\n<h2 id="notes">What else is to be said</h2>\n<ul>\n'
        yield from (f"<li>{escape(line)}</li>\n" for line in notes)
        yield "</ul>\n</section>\n"
    yield f"</main>\n<footer>{lasted(seen.pieces.width)} a step in the picture; all times are UTC.</footer>\n"
    yield "</body>\n</html>\n"


_MODELS = (
    "GPU-hours. Busy and idle: under Ready replicas of the model's own. Borr.: under Ready ones beyond what it owns."
    " Lent: its own, under others' replicas; they are in the others' rows. Other: starting, ending, doomed, of pods of"
    " no model, free, kept warm, unknown. Late: share of its requests; alone: with only what it owns."
)
_REQUESTS = (
    "Late requests as it was, with each model alone on what it owns, and before: by its own autoscaler within its"
    " recorded bounds, or with the replicas as they stood at first. Played again on the recorded work; where nobody"
    " counts requests, late is in seconds of one replica's work."
)
_POOLS = "GPU-hours; warm: under placeholders that keep GPUs ready; ? is time of which nothing is known."
_FREE = (
    "Of nine of ten recorded hours so many GPUs or more were free all the hour, in pieces of three hours of the day."
)


def _picture(of: Report, seen: Gathered) -> Iterator[str]:
    if seen.until < seen.since:
        yield "<p>No picture: the clock was set back to before the first cycle of it.</p>\n"
        return
    names, rows, rest, unknown, capacity = _stacked(seen)
    lines = [Line(row, f"model-{at}", name) for at, (name, row) in enumerate(zip(names, rows, strict=True))]
    lines.append(Line(rest + unknown, "need", "no model's, or unknown"))
    most = float(capacity.max()) if len(capacity) else 0.0
    step = lasted(seen.pieces.width)
    panels = [
        Panel("GPUs", lines, [LevelLine(most, f"{most:,.0f} GPUs")], stacked=True, unit="GPUs", whole=True, tall=2.6),
        Panel("late requests", [Line(seen.late, "second", "late", filled=True)], unit=f"in {step}"),
    ]
    keys = [(line.colour, line.label, False) for line in lines] + [("second", "late requests", False)]
    caption = f"{headline(of)}. {seen.late.sum():,.0f} late requests."
    yield f'<section>\n<h2 id="picture">GPUs by model, and late requests</h2>\n{legend(keys)}\n'
    for kind, inches in (("wide", 9.6), ("narrow", NARROW_INCHES)):
        drawn = draw(
            f"gpus-{kind}", panels, seen.pieces.begins, seen.pieces.seconds, inches, lambda second: _tick(seen, second)
        )
        label = f'<svg role="img" aria-label="{escape(caption)}"'
        yield f'<figure class="{kind}">{drawn.replace("<svg", label, 1)}</figure>\n'
    yield f"<p>{escape(ABOUT)}</p>\n</section>\n"


def _stacked(seen: Gathered) -> tuple[list[str], list[F64], F64, F64, F64]:
    """(models, GPUs of each by piece, foreign ones, unknown ones, all): the largest models, the rest put together."""
    fine, width = seen.fine, seen.pieces.width
    first = int(seen.since) // width
    pieces = int(seen.until) // width - first + 1
    span = np.full(pieces, float(width))
    span[0] -= seen.since - first * width
    span[-1] -= (first + pieces) * width - seen.until
    by_model: dict[str, F64] = {}
    rest, unknown, capacity = (np.zeros(pieces) for _ in range(3))
    for (piece, _, model, state), amount in fine.charged.items():
        if not first <= piece < first + pieces:  # the clock was set back since
            continue
        at, gpus = piece - first, amount / MICRO / max(1e-6, span[piece - first])
        if model:
            by_model.setdefault(model, np.zeros(pieces))[at] += gpus
        elif state != FREE:
            (unknown if state == UNKNOWN else rest)[at] += gpus
    for (piece, _), amount in fine.capacity.items():
        if not first <= piece < first + pieces:
            continue
        capacity[piece - first] += amount / MICRO / max(1e-6, span[piece - first])
    largest = sorted(by_model, key=lambda name: (-by_model[name].sum(), name))
    shown = largest if len(largest) <= MODEL_COLOURS else largest[: MODEL_COLOURS - 1]
    names, rows = list(shown), [by_model[name] for name in shown]
    if len(largest) > len(shown):
        names.append(f"{len(largest) - len(shown)} {OTHERS}")
        rows.append(np.sum([by_model[name] for name in largest if name not in shown], axis=0))
    drawn = len(seen.pieces.begins)
    return names, [row[:drawn] for row in rows], rest[:drawn], unknown[:drawn], capacity[:drawn]


def _tick(seen: Gathered, second: float) -> str:
    at = datetime.fromtimestamp(seen.since + second, UTC)
    if seen.pieces.seconds > DAYS_FROM:
        return f"{at:%d %b}"
    return f"{at:%H:%M}" if seen.pieces.seconds > MINUTES_FROM else f"{at:%H:%M:%S}"


def _section(name: str, heading: str, rows: Sequence[Sequence[str]], about: str) -> Iterator[str]:
    if len(rows) < 2:  # noqa: PLR2004  # heads alone
        return
    yield f'<section>\n<h2 id="{name}">{escape(heading)}</h2>\n'
    yield f"<p>{escape(about)}</p>\n" if about else ""
    yield from table(rows, heading)
    yield "</section>\n"


def _advice(of: Report) -> Iterator[str]:
    if not of.advice:
        return
    yield '<section>\n<h2 id="advice">What the policy could say</h2>\n'
    yield "<ul>\n"
    for each in of.advice:
        now = "none" if each.now is None else f"{each.now:g}"
        what = f"{each.subject} {each.key} {each.better:g} in place of {now}"
        yield f"<li><strong>{escape(what)}</strong>: {escape(each.why)}.</li>\n"
    yield "</ul>\n"
    yield f"<details>\n<summary>As a patch</summary>\n<pre>{escape(patch(of.advice))}</pre>\n</details>\n</section>\n"
