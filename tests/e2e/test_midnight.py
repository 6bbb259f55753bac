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


def lived(folder: Path, since: str, seconds: float, *day: str) -> list[DayPrediction]:
    """The service from an instant on, for so long by its clock or until `day` is predicted; what it has predicted."""
    command = [str(program("faketime")), "-f", f"@{since} x{RATE}"]
    words = ("-m", "tests.e2e.midnight", str(folder), str(seconds), *day)
    subprocess.run([*command, sys.executable, *words], check=True)  # noqa: S603  our own command
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
    # The days are short: a whole one, played with us in charge and a plan every 2 s, takes minutes of a core.
    first = lived(tmp_path, "2026-11-25 23:45:00", 7200, "2026-11-25")
    shown = _errors(tmp_path)
    before = lived(tmp_path, "2026-11-28 23:50:00", 360)  # to 23:56: that midnight finds nobody up
    both = lived(tmp_path, "2026-11-29 00:08:00", 7200, "2026-11-28")
    told = _typed("report", "--last", "4d", "--journal", str(tmp_path / "journal"))
    print(*shown, *both, *_errors(tmp_path), told, sep="\n")  # noqa: T201  a proof's page is written from it
    assert {(each.day, each.model) for each in first} == {("2026-11-25", model) for model in MODELS}
    assert before == first, "a day is predicted once"
    assert {each.model for each in both if each.day == "2026-11-28"} == MODELS
    for each in both:
        assert 300 < each.seconds < 1000
        assert None not in (each.late, each.late_by_autoscaler, each.late_by_us)
        assert re.search(rf"^{each.model} +{each.day} ", told, re.MULTILINE)
    assert {line.split('model="')[1].split('"')[0] for line in shown} == MODELS


def _errors(folder: Path) -> list[str]:
    return [line for line in (folder / "metrics").read_text().splitlines() if line.startswith(ERROR)]


def _typed(*arguments: str) -> str:
    command = [str(Path(sys.executable).parent / "rebalancer"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603  our own command
