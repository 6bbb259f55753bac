"""The errors of stored predictions, as the service shows them."""

from pathlib import Path

import pytest
import structlog
from msgspec.structs import replace

from rebalancer.app.predicting import played_apart, predict_days
from rebalancer.app.predictions import StoredPredictions
from rebalancer.loop.clock import ScaledClock
from rebalancer.obs.clock import Clock
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.metrics.figures import prediction_figures
from rebalancer.obs.predictions import NAME, store
from tests.builders import a_model, a_policy
from tests.obs.test_metrics import shown
from tests.report.test_predictions import ONE

MIDNIGHT = 1_800_057_600.0  # 2027-01-16 00:00 UTC
POLICY = a_policy(a_model("a"))


async def test_the_error_of_the_newest_day_is_shown_of_models_of_the_policy(tmp_path: Path) -> None:
    found = StoredPredictions(tmp_path, ScaledClock(1.0))
    await found.look()
    assert found.known == ()
    newer = replace(ONE, day="2027-01-16", late_by_autoscaler=90.0, gpu_hours=0.0)
    store(tmp_path / NAME, [newer, ONE, replace(ONE, model="left")])
    await found.look()
    told = shown(Metrics().text(prediction_figures(found.known, POLICY)), "rebalancer_prediction_error_ratio")
    assert told == {("a", "late-requests"): pytest.approx(-0.1)}


async def test_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    store(tmp_path / NAME, [ONE])
    found = StoredPredictions(tmp_path, ScaledClock(1.0))
    await found.look()
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    await found.look()
    assert found.known == (ONE,)


class Ended(Exception):
    pass


class Days(Clock):
    """Passes as it is slept through, up to an end."""

    def __init__(self, begin: float, end: float) -> None:
        self._now, self._end = begin, end

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        if self._now >= self._end:
            raise Ended


async def asked_between(begin: float, end: float, folder: Path, why: str = "") -> list[float]:
    """For how many last seconds predictions were asked."""
    clock, spans = Days(begin, end), list[float]()

    async def play(journal_dir: Path, seconds: float) -> str:
        spans.append(seconds)
        if not why:
            day = f"2027-01-{15 + int((clock.now() - MIDNIGHT) // 86_400)}"
            store(journal_dir / NAME, [replace(ONE, day=day)])
        return why

    with pytest.raises(Ended):
        await predict_days(StoredPredictions(folder, clock), folder, clock, play)
    return spans


async def test_each_day_is_predicted_once_soon_after_it_has_ended_and_from_its_own_begin_on(tmp_path: Path) -> None:
    spans = await asked_between(MIDNIGHT - 300.0, MIDNIGHT + 2 * 86_400.0, tmp_path)
    assert spans[1:] == [86_400.0 + 540.0] * 2  # ten minutes after midnight, without the day's first minute
    assert await asked_between(MIDNIGHT + 2 * 86_400.0 - 3600.0, MIDNIGHT + 2 * 86_400.0, tmp_path) == []


async def test_a_day_that_cannot_be_predicted_is_told_and_left(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as said:
        spans = await asked_between(MIDNIGHT + 7200.0, MIDNIGHT + 14_400.0, tmp_path, why="no numba")
    assert (len(spans), [each["why"] for each in said]) == (1, ["no numba"])


@pytest.mark.timeout(240)  # it imports a compiler: 4 s of a core that others may have
async def test_a_process_of_its_own_predicts_and_says_why_it_cannot(tmp_path: Path) -> None:
    assert "no journal in" in await played_apart(tmp_path, 86_400.0)


async def test_a_process_that_cannot_be_started_is_a_reason_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert "could not be started" in await played_apart(tmp_path, 86_400.0)
