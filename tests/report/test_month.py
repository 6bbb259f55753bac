"""A whole month of 20 models: some 4 minutes to write, 2 to report."""

import resource
from pathlib import Path

import pytest

from rebalancer.ledger.books import MICRO
from rebalancer.report.gathering import gather
from rebalancer.report.report import report
from tests.report.month import DOWN, GPUS, NODE_GONE, NODES, STEP, write_month

STEPS = 8640
MOST_MIB = 800  # numba and matplotlib are 200 of it; a journal read into memory would be 1,000 more


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_a_month_adds_up_and_is_read_in_the_memory_of_a_day(tmp_path: Path) -> None:
    write_month(tmp_path, STEPS)
    seen = gather(tmp_path, 30 * 86_400.0)
    gone = (NODE_GONE[1] - NODE_GONE[0]) * STEP * GPUS
    there = NODES * GPUS * (STEPS - 1) * STEP - gone
    assert sum(seen.books.charged.values()) == there * MICRO
    assert seen.books.residual() == {}
    assert seen.books.unknown_micro == (DOWN[1] - DOWN[0] + 1) * STEP * MICRO
    made = report(seen, {})
    assert made.bill.usd == pytest.approx(2.5 * there / 3600)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 < MOST_MIB
