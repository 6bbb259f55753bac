"""Two runs with the same models in the same order: policies may list theirs in any, and one may have more of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.contest.outcome import ContestRun
from rebalancer.sim.scenario import ScenarioModel


def aligned(runs: Sequence[ContestRun]) -> list[ContestRun]:
    """The runs with the models of all of them, in the first's order; of a model that a run lacks nothing came there."""
    models: dict[str, ScenarioModel] = {}
    for run in runs:
        for model in run.record.scenario.models:
            models.setdefault(model.name, model)
    return [_with(run, models) for run in runs]


def _with(run: ContestRun, models: Mapping[str, ScenarioModel]) -> ContestRun:
    record = run.record
    own = {model.name: index for index, model in enumerate(record.scenario.models)}
    if list(own) == list(models):
        return run
    nothing = np.zeros(record.scenario.seconds)
    whole = tuple(
        record.scenario.models[own[name]] if name in own else replace(model, work=nothing, requests=nothing, floor=0)
        for name, model in models.items()
    )

    def ordered(rows: NDArray[Any]) -> NDArray[Any]:
        return np.stack([rows[own[name]] if name in own else np.zeros_like(rows[0]) for name in models])

    return replace(
        run,
        record=replace(
            record,
            scenario=replace(record.scenario, models=whole),
            wait=ordered(record.wait),
            late=ordered(record.late),
            lost=ordered(record.lost),
            left=ordered(record.left),
            ready=ordered(record.ready),
        ),
        owned=[run.owned[own[name]] if name in own else 0 for name in models],
    )
