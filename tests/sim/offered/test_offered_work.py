"""The offered work of engines that batch continuously is what was really asked, however long prompts and answers are.

Everyday: replicas that are half busy, where nobody sees what a full one does; and a cache that is full of eight
requests where the policy says 128. Proof: all engines, loads and traffics.
"""

from pathlib import Path

import pytest

from tests.beside import recorded_traffic
from tests.sim.offered.judge import BUSY, ENGINES, PATHS, RIGHT, Cell
from tests.sim.offered.traffic import TRAFFIC

OFF = 0.15  # of the truth, in the middle minute
LARGE, SMALL_CACHE = "70B, batch of 64", "7B, one A100"
NO_TRACES = Path()


def middles(engine: str, traffic: str, busy: str, folder: Path) -> dict[str, float]:
    """Estimate over truth in the middle minute, by each path that is held to be right."""
    cell = Cell(ENGINES[engine], TRAFFIC[traffic](folder), BUSY[busy])
    return {name: cell.ratio(PATHS[name]).middle for name in RIGHT}


@pytest.mark.parametrize("engine", [LARGE, SMALL_CACHE])
@pytest.mark.parametrize("traffic", ["long prompts", "short and long"])
def test_long_prompts_are_as_much_work_as_they_are(engine: str, traffic: str) -> None:
    found = middles(engine, traffic, "half busy", NO_TRACES)
    assert found == pytest.approx(dict.fromkeys(RIGHT, 1.0), abs=OFF)


@pytest.mark.parametrize("traffic", ["Azure's conversations", "Azure's code"])
def test_azures_requests_are_as_much_work_as_they_are(traffic: str) -> None:
    found = middles(LARGE, traffic, "half busy", recorded_traffic())
    assert found == pytest.approx(dict.fromkeys(RIGHT, 1.0), abs=OFF)


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize("busy", BUSY)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("traffic", TRAFFIC)
def test_on_every_engine_at_every_load_it_is_right(engine: str, traffic: str, busy: str) -> None:
    found = middles(engine, traffic, busy, recorded_traffic())
    assert found == pytest.approx(dict.fromkeys(RIGHT, 1.0), abs=OFF)
