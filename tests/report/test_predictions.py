"""What is predicted of a day from its work alone, held against what came."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.domain.readings import Reading
from rebalancer.ledger.looks import look
from rebalancer.obs.ledger_reading import RecordedLook
from rebalancer.obs.predictions import AUTOSCALER, US, DayPrediction, store, stored
from rebalancer.report.days import DAY, Days, ModelDay, RecordedDay
from rebalancer.report.lateness import served
from rebalancer.report.predictions import came, predicted
from rebalancer.report.predictions_telling import causes_said, courses_said, prediction_rows, predictions_said
from tests.builders import NOW, a_model, a_policy, a_snapshot
from tests.report.calibration import day_number, predictions_of, recorded, truths_of
from tests.sim.product.scenarios import a_surge

SECONDS = 600
ONE = DayPrediction(
    day="2027-01-15", model="a", seconds=DAY, in_charge=AUTOSCALER, requests=1000.0, late_by_autoscaler=120.0,
    late_by_us=40.0, late=100.0, late_by="latency", gpu_hours_by_autoscaler=11.0, gpu_hours_by_us=9.0, gpu_hours=10.0,
)  # fmt: skip


@pytest.mark.parametrize(
    "line", [b'{"day":"2027-01-\xe6"}', b'{"a":' * 3000 + b"1" + b"}" * 3000, b'{"day":7}', b"\xff"]
)
def test_a_line_that_is_none_costs_no_prediction_beside_it(line: bytes, tmp_path: Path) -> None:
    store(tmp_path / "predictions.jsonl", [ONE])
    with (tmp_path / "predictions.jsonl").open("ab") as file:
        file.write(line + b"\n")
    store(tmp_path / "predictions.jsonl", [replace(ONE, model="other")])
    assert stored(tmp_path / "predictions.jsonl") == tuple(
        sorted((ONE, replace(ONE, model="other")), key=lambda one: one.model)
    )


@pytest.mark.parametrize("in_charge", [AUTOSCALER, US])
def test_a_day_is_held_against_the_course_of_whoever_was_in_charge(in_charge: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    truths = truths_of(recorded(a_surge(1200), path, in_charge=in_charge))
    made = predictions_of(path)
    assert [(each.model, each.in_charge) for each in made] == [(name, in_charge) for name in "abc"]
    for each in made:
        true = truths[day_number(each), each.model]
        assert each.late == pytest.approx(true.late, rel=0.2, abs=20.0)  # what the journal says came did come
        assert each.gpu_hours == pytest.approx(true.gpu_hours, rel=0.03)
        assert each.gpu_hours_predicted == pytest.approx(true.gpu_hours, rel=0.25)
    calm = [each for each in made if each.model != "a"]
    assert all(each.is_close for each in calm)
    surging = made[0]
    assert surging.late_by_us is not None
    assert surging.late_by_autoscaler is not None
    assert surging.late_by_us < surging.late_by_autoscaler


def test_errors_are_over_what_came_and_a_few_requests_are_close_whatever_their_share() -> None:
    assert ONE.late_error == pytest.approx(0.2)
    assert ONE.gpu_hours_error == pytest.approx(0.1)
    assert ONE.is_close
    by_us = replace(ONE, in_charge=US)
    assert by_us.late_error == pytest.approx(-0.6)
    assert by_us.is_close is False
    assert replace(ONE, late=3.0, late_by_autoscaler=22.0).is_close
    assert not replace(ONE, late=3.0, late_by_autoscaler=24.0).is_close
    assert replace(ONE, late=None).is_close is None
    assert replace(ONE, late=0.0, late_by_autoscaler=5.0).late_error == 5.0


def test_a_prediction_that_missed_says_which_half_of_the_way_is_the_longer_one() -> None:
    off = replace(ONE, late=500.0, late_by_replicas=130.0)
    assert off.likely_cause.startswith(
        "not the replicas, with the replicas that were recorded the same physics make 130"
    )
    moved = replace(ONE, late=500.0, late_by_replicas=480.0)
    assert moved.likely_cause.startswith("its autoscaler moved otherwise than predicted; with the replicas that were")
    assert moved.likely_cause.endswith("the same physics make 480 late")
    assert replace(moved, in_charge=US).likely_cause.startswith("we moved otherwise")
    assert replace(ONE, late_by_replicas=0.0).likely_cause == ""
    assert replace(off, late_by_replicas=None).likely_cause == ""
    said = list(causes_said([ONE, off]))
    assert len(said) == 1
    assert said[0].startswith("a, 2027-01-15: not the replicas")


def a_told_day(latency: float, told: int) -> tuple[ModelDay, RecordedDay]:
    """2 requests a second on replicas that carry all of it; users saw `latency` in the first `told` seconds."""
    policy = a_policy(a_model("a", entitlement=3, slo={"latency_seconds": 2.0}))
    day = RecordedDay(int(NOW), policy, SECONDS, nodes=(8,))
    of = ModelDay(policy.models[0], 3, (1, 8))
    of.work[:SECONDS], of.requests[:SECONDS], of.ready[:SECONDS] = 2.0, 2.0, 3
    of.latency[:told] = 0.5
    of.latency[: told // 2] = latency
    day.models["a"] = of
    return of, day


def test_what_came_is_by_the_latency_that_users_saw_where_it_is_told() -> None:
    of, day = a_told_day(2.5, SECONDS)
    assert came(of, served(of, day), SECONDS) == (2.0 * SECONDS / 2, "latency")
    of, day = a_told_day(1.9, SECONDS)
    assert came(of, served(of, day), SECONDS) == (0.0, "latency")


def test_where_latency_is_not_told_what_came_is_by_the_recorded_replicas() -> None:
    of, day = a_told_day(2.5, SECONDS // 2)
    assert came(of, served(of, day), SECONDS) == (0.0, "replicas")


def test_without_counted_requests_nothing_is_said_of_late_ones() -> None:
    of, day = a_told_day(2.5, SECONDS)
    of.requests[:] = 0.0
    (made,) = predicted(day, writes=0)
    assert (made.requests, made.late, made.late_predicted, made.is_close) == (None, None, None, None)
    assert made.gpu_hours == pytest.approx(3 * SECONDS / 3600)
    assert "nobody counts requests" in predictions_said([made])


def test_what_is_predicted_of_a_renamed_model_is_under_each_name_what_was_so_long() -> None:
    of, day = a_told_day(0.5, SECONDS)
    renamed = a_policy(of.entry.model_copy(update={"id": "z"}))  # the workload is the same
    day.earlier, day.policy = [(SECONDS // 2, day.policy)], renamed
    day.models["z"] = ModelDay(renamed.models[0], 3, (1, 8))
    for rows in ("work", "requests", "ready"):
        getattr(day.models["z"], rows)[SECONDS // 2 : SECONDS] = getattr(of, rows)[SECONDS // 2 : SECONDS]
        getattr(of, rows)[SECONDS // 2 :] = 0
    made = predicted(day, writes=0)
    assert [(each.model, each.requests) for each in made] == [("a", 1.0 * SECONDS), ("z", 1.0 * SECONDS)]
    for each in made:
        assert each.gpu_hours == each.gpu_hours_by_autoscaler == pytest.approx(3 * SECONDS / 2 / 3600)
        assert each.gpu_hours_by_us is not None
        assert each.gpu_hours_by_us <= 8 * SECONDS / 2 / 3600  # all eight GPUs, for that long


def test_a_day_ends_at_midnight_utc_and_an_old_latency_is_none() -> None:
    policy = a_policy()
    days: list[RecordedDay] = []
    gathering = Days(days.append)
    midnight = (NOW // DAY + 1) * DAY
    for at, measured in ((midnight - 20.0, 5.0), (midnight - 10.0, 5.0), (midnight, 5.0), (midnight + 10.0, 400.0)):
        seen = a_snapshot(policy, {"a": 2}, work={"a": 1.0})
        load = replace(seen.loads[0], signals={"latency": Reading(3.0, at - measured, 1.0)})
        seen = replace(seen, at=at, loads=(load, *seen.loads[1:]))
        gathering.see(RecordedLook(look(seen, policy), policy))
    gathering.end()
    assert [(day.since, day.seconds) for day in days] == [(midnight - 20, 10), (midnight, 10)]
    assert list(days[0].models["a"].latency[:11]) == pytest.approx([3.0] * 10 + [np.nan], nan_ok=True)
    assert np.isnan(days[1].models["a"].latency[:10]).all()


def test_the_store_keeps_what_was_made_of_more_of_a_day_and_skips_what_is_no_prediction(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    assert stored(path) == ()
    store(path, [replace(ONE, day="2027-01-16"), ONE])
    with path.open("ab") as file:
        file.write(b'{"day":\n')
    store(path, [replace(ONE, seconds=60, late=7.0)])
    assert stored(path) == (ONE, replace(ONE, day="2027-01-16"))


def test_a_day_after_a_line_that_a_full_disk_tore_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(b'{"day":"2027-')
    store(path, [ONE])
    store(path, [replace(ONE, day="2027-01-16")])
    assert stored(path) == (ONE, replace(ONE, day="2027-01-16"))
    assert len(path.read_bytes().splitlines()) == 3


def test_what_the_shadow_would_have_come_to_stands_beside_what_was_in_charge() -> None:
    ours, unplayed = replace(ONE, in_charge=US, late_by_us=1.0), replace(ONE, late_by_us=None)
    (said,) = courses_said([ONE, replace(ONE, model="b", late_by_us=20.0), ours, unplayed])
    assert said == (
        "Predicted of 1 day in shadow: with us in charge 60 late requests and 18.0 GPU-hours of Ready replicas, with"
        " your autoscalers 240 and 22.0."
    )
    assert list(courses_said([ours, unplayed])) == []


def test_the_report_says_how_often_it_was_close_and_shows_each_day() -> None:
    off = replace(ONE, model="b", late=500.0)
    assert "within 20 % or 20 for 1 of 2 days of models" in predictions_said([ONE, off])
    heads, one, other = prediction_rows([ONE, off])
    assert one == ["a", "2027-01-15", "autoscaler", "120", "100", "11.0", "10.0", "yes"]
    assert (len(heads), other[-1]) == (len(one), "no")
