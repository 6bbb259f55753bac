"""A day and a bit of the month, written once: `tests.report.month`."""

from pathlib import Path

import pytest

from rebalancer.report.gathering import Gathered, gather
from tests.report.month import write_month

STEPS, STEP_SECONDS = 104, 900.0  # 26 hours: advice wants 24


@pytest.fixture(scope="session")
def a_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("day")
    write_month(folder, STEPS, STEP_SECONDS)
    return folder


@pytest.fixture(scope="session")
def gathered(a_day: Path) -> Gathered:
    return gather(a_day, 30 * 86_400.0)
