from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalancer.sim.traces.faro import EVALUATION_DAY, JOBS, faro
from rebalancer.sim.traces.folder import MissingTrace
from tests.beside import recorded_traffic


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    days, minutes = [2, 1, 1, 1], [0, 1, 2, 0]
    counts = {job: [100 * n, 10 * n + 1, 10 * n + 2, 10 * n] for n, job in enumerate(JOBS)}
    pq.write_table(pa.table({"day": days, "minute": minutes, **counts}), tmp_path / "faro_10jobs_1min.parquet")
    return tmp_path


def test_a_day_comes_as_ten_jobs_in_the_order_of_their_minutes(folder: Path) -> None:
    day = faro(folder, 1)
    assert day.jobs == JOBS
    assert day.counts.shape == (10, 3)
    assert day.counts[3].tolist() == [30, 31, 32]


def test_a_day_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(MissingTrace, match="no rows of day 7"):
        faro(folder, 7)


def test_the_evaluation_day_is_the_one_that_was_published() -> None:
    day = faro(recorded_traffic(), EVALUATION_DAY)
    assert day.counts.shape == (10, 360)
    assert day.counts.sum() == 2_675_770
