"""The service as a process, under a clock of which a minute takes ten seconds, over two midnights."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rebalancer.obs.predictions import NAME, DayPrediction, stored
from tests.testbed.build import Missing
from tests.testbed.system import program

RATE = 6
ERROR = "rebalancer_prediction_error_ratio{"
MODELS = {"chat", "code", "image"}


def lived(folder: Path, since: str, seconds: float) -> list[DayPrediction]:
    """The service from an instant on, for so long by its clock; what its folder has of predictions then."""
    command = [str(program("faketime")), "-f", f"@{since} x{RATE}"]
    subprocess.run([*command, sys.executable, "-m", "tests.e2e.midnight", str(folder), str(seconds)], check=True)
    file = folder / "journal" / NAME
    return list(stored(file)) if file.exists() else []


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_each_of_two_days_is_predicted_after_its_midnight_also_where_the_service_was_not_up_at_it(
    tmp_path: Path,
) -> None:
    try:
        program("faketime")
    except Missing as missing:
        pytest.skip(str(missing))
    first = lived(tmp_path, "2026-11-25 23:30:00", 2700)  # to 00:15
    shown = _errors(tmp_path)
    before = lived(tmp_path, "2026-11-26 23:40:00", 900)  # to 23:55: the next midnight finds nobody up
    both = lived(tmp_path, "2026-11-27 00:02:00", 780)
    told = _typed("report", "--last", "2d", "--journal", str(tmp_path / "journal"))
    print(*shown, *both, *_errors(tmp_path), told, sep="\n")
    assert {(each.day, each.model) for each in first} == {("2026-11-25", model) for model in MODELS}
    assert before == first, "a day is predicted once"
    assert {each.model for each in both if each.day == "2026-11-26"} == MODELS
    for each in both:
        assert 900 < each.seconds < 86_400
        assert each.late is not None and each.late > 0, "one minute in ten was slow"
        assert each.late_by == "latency"
        assert each.late_by_autoscaler is not None
        assert re.search(rf"^{each.model} +{each.day} ", told, re.MULTILINE)
    assert {line.split('model="')[1].split('"')[0] for line in shown} == MODELS
    assert _errors(tmp_path) != shown, "the newest day's error stands in the metric"


def _errors(folder: Path) -> list[str]:
    return [line for line in (folder / "metrics").read_text().splitlines() if line.startswith(ERROR)]


def _typed(*arguments: str) -> str:
    command = [str(Path(sys.executable).parent / "rebalancer"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
