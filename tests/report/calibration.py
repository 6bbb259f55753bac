"""Recorded days of the suite with HPAs in charge and the service in shadow, and what its journal predicts of them."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rebalancer.act.gate import Gate
from rebalancer.obs.journal_reading import JournalRead, turns
from rebalancer.obs.ledger_reading import looked
from rebalancer.obs.predictions import DayPrediction
from rebalancer.report.days import DAY, Days, RecordedDay
from rebalancer.report.predictions import predicted
from rebalancer.sim.product import default_policy
from rebalancer.sim.product.run import METRICS, play_on
from rebalancer.sim.product.stage import STARTED_AT, Stage
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario


class ShadowGate(Gate):
    """Writes nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  # whatever the gate takes
        super().__init__(*arguments, **{**options, "write_mode": "shadow"})


class Truth(NamedTuple):
    """What came in the simulated cluster of one model's UTC day."""

    late: float
    gpu_hours: float
    requests: float


def recorded(scenario: Scenario, journal: Path, *, in_charge: str) -> Record:
    """The day with HPAs in charge and us in shadow, or with us in charge; the service writes its `journal`."""
    policy = default_policy(scenario, "bounds" if in_charge == "autoscaler" else "scale")
    stage = Stage(scenario, policy, 0, scrape_seconds=METRICS.scrape_seconds, lag_seconds=METRICS.lag_seconds)
    return play_on(stage, policy, journal, gate=ShadowGate if in_charge == "autoscaler" else Gate)


def predictions_of(journal: Path) -> tuple[DayPrediction, ...]:
    """By UTC day and model."""
    made: list[DayPrediction] = []
    tally = JournalRead()

    def closed(day: RecordedDay) -> None:
        made.extend(predicted(day, writes=tally.writes))

    days = Days(closed)
    for turn in turns([journal], tally):
        days.see(looked(turn))
    days.end()
    return tuple(made)


def truths_of(record: Record) -> dict[tuple[int, str], Truth]:
    """By UTC day since the epoch and model."""
    found = {}
    days = (int(STARTED_AT) + np.arange(record.scenario.seconds)) // DAY
    for index, model in enumerate(record.scenario.models):
        for day in np.unique(days):
            of = days == day
            hours = float(record.ready[index][of].sum()) * model.gpus / 3600
            requests = float(model.requests[: record.scenario.seconds][of].sum())
            found[int(day), model.name] = Truth(float(record.late[index][of].sum()), hours, requests)
    return found


def day_number(of: DayPrediction) -> int:
    """The UTC day since the epoch."""
    return int(np.datetime64(of.day).astype(int))
