"""Faro with perfect forecasts on the request-level world against Faro's own simulator, run again with them."""

import sys

import pytest

from rebalancer.sim.peers.faro.controllers import faro_on_requests
from rebalancer.sim.peers.faro.solver import FaroSettings, Objective
from rebalancer.sim.requests.arrivals import Kind
from rebalancer.sim.requests.scenarios import s1
from rebalancer.sim.requests.world import play_requests
from rebalancer.sim.traces.faro import EVALUATION_DAY, faro
from tests.beside import recorded_traffic

SEED, GPUS = 42, 32


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "objective", "lost_utility", "violation"),
    [
        ("compatible", Objective.FAIR_SUM, 0.71, 2.7),
        ("compatible", Objective.SUM, 0.86, 5.1),
        ("clean", Objective.FAIR_SUM, 0.24, 1.6),
    ],
)
def test_faro_comes_within_a_tenth_of_its_own_simulator(
    kind: Kind, objective: Objective, lost_utility: float, violation: float, capsys: pytest.CaptureFixture[str]
) -> None:
    case = s1(faro(recorded_traffic(), EVALUATION_DAY), GPUS, kind, SEED)
    minutes = play_requests(case, faro_on_requests(case.scenario, FaroSettings(objective)), "faro").minutes
    found = 100 * minutes.mean_violation
    with capsys.disabled():
        sys.stdout.write(
            f"\nFaro, {objective.value}, {kind} arrivals, {GPUS}: lost utility {minutes.lost_utility:.3f}"
            f" (its simulator {lost_utility}), mean violation {found:.2f} % ({violation} %)\n"
        )
    assert minutes.lost_utility == pytest.approx(lost_utility, rel=0.1)
    assert found == pytest.approx(violation, rel=0.1)
