"""The last day in minutes: what a cycle saw and decided, gaps that stay gaps, bounded memory, one day for two runs."""

import tracemalloc

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.api.ports.day import FIGURES, FINE_SECONDS, STEP_SECONDS, STEPS, Figures
from rebalancer.app.charts import NAN, POINTS, Charts
from rebalancer.domain.plan import ModelDecision, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.readings import Reading
from rebalancer.domain.snapshot import ModelView
from tests.builders import NOW, a_load, a_model, a_model_view, a_node, a_policy, a_snapshot, a_target
from tests.cli.scene import decided
from tests.planning.outlooks import an_outlook

POLICY = a_policy()
BEGIN = NOW - NOW % STEP_SECONDS


def b(demand: int | None, ready: int) -> ModelDecision:
    return decided("b", demand, ready, ready, 0, 0, 0, why="")


def note(charts: Charts, at: float, *models: ModelDecision, policy: Policy = POLICY, **seen: object) -> None:
    """A cycle that decided `models`."""
    charts.note(replace(a_snapshot(), at=at, **seen), Plan(cycle=1, at=at, models=models), policy)


def figure(charts: Charts, name: str, at: float = BEGIN) -> float:
    """Of model b in the minute of `at`."""
    return float(charts.day().models["b"][int(at // STEP_SECONDS) % STEPS, FIGURES.index(name)])


def ready(charts: Charts, minute: int, steps: int, stride: int = 1, *, most: bool = False) -> list[float]:
    """Ready replicas of b in the `steps` steps that begin `minute` minutes after the start; -1 is unknown."""
    day, first = charts.day(), int(BEGIN // STEP_SECONDS) + minute
    found: Figures = day.window(day.models["b"][:, FIGURES.index("ready")], first, steps, stride=stride, most=most)
    return [float(each) for each in np.nan_to_num(found, nan=-1.0)]


def test_replicas_of_a_minute_are_those_of_its_last_cycle_and_a_minute_without_one_is_unknown() -> None:
    charts = Charts()
    for minute, count in ((0, 1), (0.5, 2), (1, 3), (4, 4)):
        note(charts, BEGIN + 60.0 * minute, b(1, count))
    assert ready(charts, -1, 6) == [-1.0, 2.0, 3.0, -1.0, -1.0, 4.0]


def test_of_several_minutes_the_last_known_counts_or_the_largest() -> None:
    charts = Charts()
    for minute, count in ((0, 9), (1, 3), (4, 4), (7, 5)):
        note(charts, BEGIN + 60.0 * minute, b(1, count))
    assert ready(charts, 0, 3, stride=4) == [3.0, 5.0, -1.0]
    assert ready(charts, 0, 3, stride=4, most=True) == [9.0, 5.0, -1.0]


def test_a_day_later_an_old_minute_is_not_taken_for_a_new_one() -> None:
    charts = Charts()
    note(charts, BEGIN, b(1, 7))
    note(charts, BEGIN + 60.0, b(1, 8))
    note(charts, BEGIN + 60.0 * STEPS, b(1, 9))
    assert ready(charts, STEPS, 2) == [9.0, -1.0]
    assert ready(charts, 0, 2) == [-1.0, 8.0]


def test_work_and_latency_are_as_seen_and_an_old_latency_is_unknown() -> None:
    charts = Charts()
    fresh = a_load(readings={"latency": Reading(0.7, BEGIN, 1.0)}, work=1.5)
    note(charts, BEGIN, b(2, 2), loads=(fresh,))
    assert [figure(charts, "work"), figure(charts, "latency_seconds")] == pytest.approx([1.5, 0.7])
    later = BEGIN + 60.0 + POLICY.guards.blind.stale_seconds
    note(charts, later, b(None, 2), loads=(fresh,))
    assert np.isnan([figure(charts, "latency_seconds", later), figure(charts, "demand", later)]).all()


def seen(charts: Charts, second: float, work: float, latency: float | None, policy: Policy) -> None:
    """A cycle `second` seconds after the start of a model of which a request is 0.5 replica-seconds."""
    at = BEGIN + second
    told = {} if latency is None else {"latency": Reading(latency, at, 1.0)}
    outlook = an_outlook({1: 40.0, 2: 20.0}, 2)
    load = a_load(readings=told, work=work, outlook=replace(outlook, work_of_one=0.5))
    note(charts, at, b(2, 2), policy=policy, loads=(load,))


def test_work_and_late_requests_of_a_minute_are_its_mean_and_latency_its_highest() -> None:
    charts, policy = Charts(), a_policy(a_model(slo={"latency_seconds": 2.0}))
    for second, work, latency in ((0, 3.0, 1.0), (20, 4.0, 9.0), (40, 2.0, 0.5), (50, 1.0, None)):
        seen(charts, second, work, latency, policy)
    figures = [figure(charts, name) for name in ("work", "latency_seconds", "late_per_minute")]
    # with 4 replicas of work 480 requests of 0.5 s come a minute, late in one cycle of four
    assert figures == pytest.approx([2.5, 9.0, 120.0])
    seen(charts, 60, 1.0, 1.0, policy)
    assert figure(charts, "late_per_minute", BEGIN + 60.0) == 0.0


def test_the_last_hour_has_each_ten_seconds_with_the_share_of_cycles_over_the_slo() -> None:
    charts, policy = Charts(), a_policy(a_model(slo={"latency_seconds": 2.0}))
    for second, work, latency in ((0, 3.0, 1.0), (5, 4.0, 9.0), (10, 2.0, None)):
        seen(charts, second, work, latency, policy)
    rows = charts.day().fine_window("b", int(BEGIN // FINE_SECONDS) - 1, 3)
    assert np.isnan(rows[0]).all()
    assert rows[1].tolist() == pytest.approx([3.5, 2.0, 0.5])
    assert rows[2].tolist() == pytest.approx([2.0, 2.0, NAN], nan_ok=True)


def test_gpus_are_those_under_pods_on_the_pools_own_nodes() -> None:
    charts = Charts()
    node, view = a_node("n1", gpus=8), a_target("b", 3, gpus_per_pod=2)
    elsewhere = replace(view.pods[2], node="another")
    target = replace(view, pods=(*view.pods[:2], elsewhere))
    pools = (PoolView(name="a100", nodes=(node,)),)
    note(charts, BEGIN, b(1, 2), pools=pools, models=(a_model_view("b", target), ModelView("a", ())))
    place = int(BEGIN // STEP_SECONDS) % STEPS
    assert {key: float(ring[place]) for key, ring in charts.day().gpus.items()} == {
        ("a100", ""): 8.0,
        ("a100", "b"): 4.0,
    }


def test_who_left_the_policy_is_known_for_a_day() -> None:
    charts = Charts()
    note(charts, BEGIN, b(1, 1))
    other = decided("a", 1, 1, 1, 0, 0, 0, why="")
    for minute in range(1, STEPS):
        note(charts, BEGIN + 60.0 * minute, other)
    assert "b" in charts.day().models
    note(charts, BEGIN + 60.0 * STEPS, other)
    assert "b" not in charts.day().models


def test_a_models_day_takes_47_kilobytes_and_6_for_each_pool() -> None:
    models = [decided(f"m{n}", 1, 1, 1, 0, 0, 0, why="") for n in range(200)]
    views = tuple(a_model_view(f"m{n}", a_target(f"m{n}")) for n in range(200))
    policy = a_policy(*(a_model(f"m{n}") for n in range(200)))
    charts = Charts()
    tracemalloc.start()
    note(charts, BEGIN, *models, policy=policy, models=views)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 52_000 < size / len(models) < 54_500


def test_what_was_known_before_a_start_is_joined_and_the_pause_between_is_a_gap() -> None:
    older, charts = Charts(), Charts()
    for minute in (0, 1, 2):
        note(older, BEGIN + 60.0 * minute, b(1, 1), decided("gone", 1, 1, 1, 0, 0, 0, why=""))
    for minute in (2, 5):  # the old one ended, and the new one began, within one minute
        note(charts, BEGIN + 60.0 * minute, b(1, 2), decided("new", 1, 1, 1, 0, 0, 0, why=""))
    charts.put_before(older)
    assert ready(charts, 0, 6) == [1.0, 1.0, 2.0, -1.0, -1.0, 2.0]
    assert set(charts.day().models) == {"b", "gone", "new"}
    note(charts, BEGIN + 360.0, b(1, 3))
    assert ready(charts, 5, 2) == [2.0, 3.0]


def test_points_are_the_last_hour_with_gaps_as_unknown() -> None:
    charts = Charts()
    for minute in range(0, 90, 2):
        note(charts, BEGIN + 60.0 * minute, b(None if minute == 88 else 1, 2))
    points = charts.points("b", BEGIN + 60.0 * 88)
    assert len(points) == POINTS - 1  # from the first minute that is known
    assert [(each.demand, each.ready) for each in points[-3:]] == [(1, 2), (None, None), (None, 2)]
    assert charts.points("a", BEGIN) == ()


def test_a_page_keeps_what_it_was_given() -> None:
    charts = Charts()
    note(charts, BEGIN, b(1, 1))
    day = charts.day()
    note(charts, BEGIN + 60.0, b(1, 2), decided("late", 1, 1, 1, 0, 0, 0, why=""))
    assert set(day.models) == {"b"}
