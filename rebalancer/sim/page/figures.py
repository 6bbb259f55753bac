"""What the page draws: per figure its panels, what they say in words, and the numbers behind them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.drawing.bins import Bins, bins, clock
from rebalancer.drawing.panels import LevelLine, Line, Panel
from rebalancer.sim.contest.outcome import ContestRun
from rebalancer.sim.demand import F64

POINTS = 360
ROWS = 24
COLOURS = ("first", "second")


@dataclass(frozen=True, slots=True)
class PageFigure:
    """One figure of the page.

    name: id of its section, with which the ids in its drawing begin.
    title: its heading.
    about: what it shows, as a sentence.
    caption: what came of each run, in words.
    panels: what is drawn, from the top down.
    numbers: the numbers behind it as the rows of a table, heads first.
    keys: (colour, label, dashed) of each entry of the legend.
    """

    name: str
    title: str
    about: str
    caption: str
    panels: Sequence[Panel]
    numbers: Sequence[Sequence[str]]
    keys: Sequence[tuple[str, str, bool]]


def figures(runs: Sequence[ContestRun]) -> tuple[Bins, list[PageFigure]]:
    """A figure for each question, and the bins they are drawn in."""
    seconds = runs[0].record.scenario.seconds
    fine, rough = bins(seconds, POINTS), bins(seconds, ROWS)
    drawn = [each(runs, fine, rough) for each in (_violations, _replicas, _lent, _queue)]
    if any(run.outcome.owned_usd is None or run.outcome.rented_usd for run in runs):  # owned GPUs cost the same
        drawn.append(_cost(runs, fine, rough))
    return fine, drawn


Values = Callable[[ContestRun, int, Bins], F64]


def _violations(runs: Sequence[ContestRun], fine: Bins, rough: Bins) -> PageFigure:
    def share(run: ContestRun, model: int, pieces: Bins) -> F64:
        requests = pieces.sums(run.record.scenario.models[model].requests)
        return 100.0 * pieces.sums(run.record.late[model]) / np.maximum(requests, 1e-9)

    captions = [f"{run.outcome.name}: {_percent(run.outcome.violation)} of all requests" for run in runs]
    return PageFigure(
        "violations",
        "SLO violations",
        "Share of a moment's requests that waited longer than their model's SLO.",
        "; ".join(captions) + ".",
        _by_model(runs, fine, share, "% of requests", least=5.0),
        table(runs, rough, share, "{:.1f}"),
        _keys(runs),
    )


def _replicas(runs: Sequence[ContestRun], fine: Bins, rough: Bins) -> PageFigure:
    def ready(run: ContestRun, model: int, pieces: Bins) -> F64:
        return pieces.means(run.record.ready[model])

    panels = []
    for index, model in enumerate(runs[0].record.scenario.models):
        need = Line(fine.means(model.work), "need", "work", filled=True)
        owned = runs[0].owned[index]
        levels = [LevelLine(model.floor, f"floor {model.floor}", "top")] * (0 < model.floor < owned)
        levels += [LevelLine(owned, f"owns {owned}" + " = floor" * (owned == model.floor), "bottom")] * (owned > 0)
        lines = [need, *_lines(runs, index, fine, ready)]
        panels.append(Panel(model.name, lines, levels, unit="replicas", whole=True))
    return PageFigure(
        "replicas",
        "Replicas",
        "Ready replicas, and how many would be busy if all work were done at once (grey).",
        " ".join(_most(run, "Ready replicas", ready, fine) for run in runs),
        panels,
        table(runs, rough, ready, "{:.1f}"),
        [("need", "work that arrives", False), *_keys(runs)],
    )


def _lent(runs: Sequence[ContestRun], fine: Bins, rough: Bins) -> PageFigure:
    def lent(run: ContestRun, model: int, pieces: Bins) -> F64:
        beyond = np.maximum(run.record.ready[model] - run.owned[model], 0)
        return pieces.means(beyond) * run.record.scenario.models[model].gpus

    lines = [Line(_sum(run, lent, fine), COLOURS[at], run.outcome.name, dashed=at > 0) for at, run in enumerate(runs)]
    captions = [f"{run.outcome.name}: {run.outcome.lent_gpu_hours:,.1f} GPU-hours lent." for run in runs]
    return PageFigure(
        "lent",
        "Lent GPUs",
        "GPUs of Ready replicas beyond what their model owns.",
        " ".join(captions),
        [Panel("all models", lines, unit="GPUs", whole=True)],
        table(runs, rough, lent, "{:.1f}"),
        _keys(runs),
    )


def _queue(runs: Sequence[ContestRun], fine: Bins, rough: Bins) -> PageFigure:
    def wait(run: ContestRun, model: int, pieces: Bins) -> F64:
        seconds, of = run.record.scenario.seconds, run.record.scenario.models[model]
        # Who has a deadline never leaves, and waits to the end at least where it comes first.
        most = seconds - np.arange(seconds) if of.deferred else of.patience_seconds
        return pieces.peaks(np.minimum(run.record.wait[model], most))

    def slo(model: int) -> list[LevelLine]:
        seconds = runs[0].record.scenario.models[model].slo_wait_seconds
        return [LevelLine(seconds, f"SLO {seconds:g} s")]

    return PageFigure(
        "queue",
        "Queue",
        "How long who came then had to wait, the longest of each moment; clients leave after their patience.",
        " ".join(_most(run, "seconds of waiting", wait, fine) for run in runs),
        _by_model(runs, fine, wait, "seconds", levels=slo),
        table(runs, rough, wait, "{:.1f}"),
        _keys(runs),
    )


def _cost(runs: Sequence[ContestRun], fine: Bins, rough: Bins) -> PageFigure:
    # Of GPUs with several prices only the sum is known, not when it was spent.
    priced = any(run.record.scenario.usd_per_gpu_hour for run in runs) and all(run.record.usd is None for run in runs)
    what = "USD" if priced else "GPU-hours"

    def spent(run: ContestRun, pieces: Bins) -> F64:
        price = run.record.scenario.usd_per_gpu_hour if priced else 1.0
        return np.cumsum(pieces.sums(run.record.gpus.astype(np.float64))) / 3600 * price

    lines = [Line(spent(run, fine), COLOURS[at], run.outcome.name, dashed=at > 0) for at, run in enumerate(runs)]
    captions = [
        f"{run.outcome.name}: {float(line.values[-1]):,.2f} {what} in all{_price(run, what)}."
        for run, line in zip(runs, lines, strict=True)
    ]
    rows = [["until", *(run.outcome.name for run in runs)]]
    sums = [spent(run, rough) for run in runs]
    ends = np.minimum(rough.begins + rough.width, rough.seconds)
    rows += [[clock(end), *(f"{each[at]:,.2f}" for each in sums)] for at, end in enumerate(ends)]
    about = "What the GPUs cost that were held so far, starting and ending replicas included."
    if not priced:
        several = any(run.record.usd is not None for run in runs)
        why = "GPUs have several prices" if several else "there are no prices"
        about = f"GPU-hours held so far, starting and ending replicas included; {why}."
    return PageFigure(
        "cost", "Cost", about, " ".join(captions), [Panel("all models", lines, unit=what)], rows, _keys(runs)
    )


def _by_model(  # noqa: PLR0913  # one figure's worth
    runs: Sequence[ContestRun],
    fine: Bins,
    values: Values,
    unit: str,
    least: float = 1.0,
    levels: Callable[[int], list[LevelLine]] = lambda _: [],
) -> list[Panel]:
    return [
        Panel(model.name, list(_lines(runs, index, fine, values)), levels(index), unit=unit, least=least)
        for index, model in enumerate(runs[0].record.scenario.models)
    ]


def _price(run: ContestRun, what: str) -> str:
    cost = run.outcome.cost_usd
    return "" if cost is None or what == "USD" else f", {cost:,.2f} USD"


def _lines(runs: Sequence[ContestRun], model: int, pieces: Bins, values: Values) -> Iterator[Line]:
    for at, run in enumerate(runs):
        yield Line(values(run, model, pieces), COLOURS[at], run.outcome.name, dashed=at > 0)


def _sum(run: ContestRun, values: Values, pieces: Bins) -> F64:
    total: F64 = np.sum([values(run, index, pieces) for index in range(len(run.owned))], axis=0)
    return total


def table(runs: Sequence[ContestRun], rough: Bins, values: Values, form: str) -> list[list[str]]:
    """A row per rough bin and a column per model and run, heads first."""
    names = [model.name for model in runs[0].record.scenario.models]
    heads = [f"{name}, {run.outcome.name}" for name in names for run in runs]
    columns = [values(run, index, rough) for index in range(len(names)) for run in runs]
    rows = [[clock(begin), *(form.format(column[at]) for column in columns)] for at, begin in enumerate(rough.begins)]
    return [["from", *heads], *rows]


def _most(run: ContestRun, what: str, values: Values, fine: Bins) -> str:
    parts = []
    for index, model in enumerate(run.record.scenario.models):
        series = values(run, index, fine)
        at = int(series.argmax())
        parts.append(f"{model.name} {round(float(series[at]), 1):g} at {clock(fine.begins[at])}")
    return f"{run.outcome.name}, most {what}: {', '.join(parts)}."


def _keys(runs: Sequence[ContestRun]) -> list[tuple[str, str, bool]]:
    return [(COLOURS[at], run.outcome.name, at > 0) for at, run in enumerate(runs)]


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.2f} %"
