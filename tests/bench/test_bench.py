import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.report import ROOT, Measure, table
from tests.bench.timing import percentile

KEYS = {
    "ingest_events_per_second",
    "ingest_ceiling_events_per_second",
    "notice_to_call_p50_ms",
    "notice_to_call_p99_ms",
    "surge_to_call_p50_ms",
    "surge_to_call_p99_ms",
    "plan_100x1000_p99_ms",
    "plan_1000x10000_p99_ms",
    "fleet_100x1000_p99_ms",
    "fleet_1000x10000_p99_ms",
    "alike_1000x10000_p99_ms",
    "cold_start_seconds",
    "resident_mib",
}


@pytest.mark.slow
@pytest.mark.timeout(500)  # a minute and a half on a machine that does nothing else
def test_a_quick_run_writes_every_figure_and_all_are_numbers(tmp_path: Path) -> None:
    file = tmp_path / "new" / "engine.json"
    command = [sys.executable, "-W", "error", "-m", "tests.bench", "--quick", "--into", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert found.keys() == {"measures", "machine", "commit"}
    assert found["measures"].keys() == KEYS
    assert all(math.isfinite(value) and value > 0 for value in found["measures"].values()), found
    assert found["machine"]


@pytest.mark.parametrize(
    ("value", "more", "verdict"),
    [(4.0, False, "met"), (6.0, False, "MISSED"), (4.0, True, "MISSED"), (5.0, True, "met")],
)
def test_the_table_says_whether_an_aim_is_met(value: float, more: bool, verdict: str) -> None:  # noqa: FBT001  # a case
    line, note = table([Measure("x", "some figure", value, "ms", 5.0, more=more, notes=["why"])]).splitlines()
    assert line.endswith(verdict)
    assert note == "    why"


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_a_value_that_so_many_stay_within(share: float, value: int) -> None:
    assert percentile([float(each) for each in range(100, 0, -1)], share) == value
