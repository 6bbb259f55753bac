"""The page's first picture: who held the GPUs, and below how many requests were late, one run beside the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.drawing.bins import Bins
from rebalancer.drawing.panels import MODEL_COLOURS, LevelLine, Line, Panel
from rebalancer.sim.contest.outcome import ContestRun
from rebalancer.sim.demand import F64
from rebalancer.sim.page.figures import table

TITLE = "GPUs by model, and late requests"
ABOUT = (
    "Above: GPUs of Ready replicas by model, from the bottom up, then those of replicas that start or end (grey)."
    " Below: late requests of all models."
)


@dataclass(frozen=True, slots=True)
class Picture:
    """One run's half of the picture.

    name: what the ids in its drawing begin with.
    run: name of the run.
    caption: what it shows, in words.
    panels: the GPUs by model, then the late requests below them.
    """

    name: str
    run: str
    caption: str
    panels: tuple[Panel, Panel]


def pictures(runs: Sequence[ContestRun], fine: Bins) -> list[Picture]:
    """One for each run, on the same scales."""
    late = [fine.sums(run.record.late.sum(axis=0)) for run in runs]
    most = float(max(1.0, *(each.max() for each in late)))
    return [
        Picture(f"beside-{at}", run.outcome.name, _caption(run), (_gpus_panel(run, fine), _late(late[at], most, fine)))
        for at, run in enumerate(runs)
    ]


def keys(runs: Sequence[ContestRun]) -> list[tuple[str, str, bool]]:
    """(colour, label, dashed) of the legend."""
    names = [model.name for model in runs[0].record.scenario.models]
    of_models = [(f"model-{index % MODEL_COLOURS}", name, False) for index, name in enumerate(names)]
    return [*of_models, ("need", "starting or ending", False), ("second", "late requests", False)]


def numbers(runs: Sequence[ContestRun], rough: Bins) -> list[list[str]]:
    """GPUs of Ready replicas as a table, heads first."""
    return table(runs, rough, held_by, "{:.1f}")


def held_by(run: ContestRun, model: int, pieces: Bins) -> F64:
    """(bins,) GPUs of a model's Ready replicas."""
    return pieces.means(run.record.ready[model]) * run.record.scenario.models[model].gpus


def _gpus_panel(run: ContestRun, fine: Bins) -> Panel:
    scenario = run.record.scenario
    lines = [
        Line(held_by(run, index, fine), f"model-{index % MODEL_COLOURS}", model.name)
        for index, model in enumerate(scenario.models)
    ]
    rest = fine.means(run.record.gpus.astype(np.float64)) - np.sum([line.values for line in lines], axis=0)
    lines.append(Line(np.maximum(rest, 0.0), "need", "starting or ending"))
    budget = LevelLine(scenario.gpus, f"{scenario.gpus} GPUs")
    return Panel(run.outcome.name, lines, [budget], stacked=True, unit="GPUs", whole=True, tall=2.2)


def _late(values: F64, most: float, fine: Bins) -> Panel:
    step = f"{fine.width // 60} min" if fine.width % 60 == 0 else f"{fine.width} s"
    return Panel("late requests", [Line(values, "second", "late", filled=True)], unit=f"in {step}", least=most)


def _caption(run: ContestRun) -> str:
    outcome = run.outcome
    return (
        f"{outcome.name}: {outcome.late:,.0f} late requests of {outcome.requests:,.0f}, {outcome.gpu_hours:,.1f}"
        f" GPU-hours, at most {int(run.record.gpus.max())} of {run.record.scenario.gpus} GPUs at once."
    )
