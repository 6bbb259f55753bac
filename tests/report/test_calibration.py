"""Whole recorded days with the service in shadow, and in charge: its predictions beside what came; minutes a case.

Prints a line for each UTC day and model: predicted late requests and GPU-hours, what the journal says came, what came
in the simulated cluster. `docs/report.md` has the figures.
"""

from pathlib import Path

import pytest

from rebalancer.obs.predictions import AUTOSCALER, US, DayPrediction
from rebalancer.report.days import DAY
from rebalancer.sim.contest.named import named_cases
from tests.beside import recorded_traffic
from tests.report.calibration import Truth, day_number, predictions_of, recorded, truths_of

MOST_HOURS_OFF = {AUTOSCALER: 0.05, US: 0.25}  # of the GPU-hours that came, of each model in each day


@pytest.mark.proof
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("in_charge", [AUTOSCALER, US])
@pytest.mark.parametrize("name", ["S2/32/60/1", "S2/32/60/0"])
def test_the_gpu_hours_of_a_recorded_day_come_as_predicted(
    name: str, in_charge: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = named_cases()[name].build(recorded_traffic(), 0)
    truths = truths_of(recorded(scenario, tmp_path / "journal.jsonl", in_charge=in_charge))
    made = [(each, truths[day_number(each), each.model]) for each in predictions_of(tmp_path / "journal.jsonl")]
    assert sum(each.seconds for each, _ in made) > 0.99 * DAY * len(scenario.models)
    with capsys.disabled():
        print(f"\n{name}, {in_charge} in charge", *(told(each, true) for each, true in made), sep="\n")  # noqa: T201  # its result
    for each, true in made:
        assert each.gpu_hours_predicted == pytest.approx(true.gpu_hours, rel=MOST_HOURS_OFF[in_charge])


def told(of: DayPrediction, true: Truth) -> str:
    """One line."""
    late = [f"{value:,.0f}" for value in (of.late_predicted or 0.0, of.late or 0.0, true.late)]
    hours = [f"{value:.1f}" for value in (of.gpu_hours_predicted or 0.0, of.gpu_hours, true.gpu_hours)]
    return " | ".join([of.day, of.model, f"{true.requests:,.0f}", *late, *hours, "yes" if of.is_close else "no"])
