"""The errors of stored predictions, as the service shows them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.app.predictions import StoredPredictions
from rebalancer.loop.clock import ScaledClock
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.metrics.figures import prediction_figures
from rebalancer.obs.predictions import NAME, store
from tests.builders import a_model, a_policy
from tests.obs.test_metrics import shown
from tests.report.test_predictions import ONE

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
