"""Faro as a whole: when it plans, what it asks for between plans, and how it sees the fluid world."""

from collections.abc import Sequence

import numpy as np
import pytest

from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import F64
from rebalancer.sim.fluid.fast import FastWorld, play
from rebalancer.sim.peers.faro.controllers import OnFluid, OnRequests, faro_on_fluid, forecast
from rebalancer.sim.peers.faro.jobs import FaroJob
from rebalancer.sim.peers.faro.policy import Faro
from rebalancer.sim.peers.faro.reactive import FairShare, Oneshot
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.score import score


def job(replicas: int, latency_seconds: float = 0.2, *, changing: bool = False) -> FaroJob:
    return FaroJob(latency_seconds, 0.72, replicas, replicas, changing=changing)


class Planned(Faro):
    """Faro that notes when it asks for a forecast."""

    def __init__(self, rates: list[float]) -> None:
        self.asked_at: list[int] = []
        self._rates = rates
        super().__init__(self._note, [0.18] * len(rates))

    def _note(self, now: int) -> F64:
        self.asked_at.append(now)
        return np.repeat(np.array(self._rates)[:, None], 7, axis=1)


def test_plans_after_a_minute_and_then_every_five() -> None:
    faro = Planned([5.0, 5.0])
    for now in range(10, 1000, 10):
        faro.step(now, [job(3), job(3)], 2)
    assert faro.asked_at == [60, 300, 600, 900]


def test_a_plan_gives_the_busier_job_more_within_the_quota() -> None:
    asked = Planned([20.0, 3.0]).step(60, [job(2), job(2)], 4)
    assert sum(asked) <= 8
    assert asked[0] > asked[1] >= 1


def test_between_plans_a_job_over_its_slo_gets_one_more_while_the_quota_lets() -> None:
    faro = Planned([5.0, 5.0])
    steps = [faro.step(now, [job(3, 1.0), job(3, 1.0)], 1) for now in (310, 320, 330)]
    assert steps == [[3, 3], [3, 3], [4, 3]]


def test_a_plan_starts_the_counts_of_the_slo_again() -> None:
    faro = Planned([5.0])
    assert [faro.step(now, [job(3, 1.0)], 5) for now in (280, 290)] == [[3], [3]]
    faro.step(300, [job(3, 1.0)], 5)
    assert [faro.step(now, [job(3, 1.0)], 5) for now in (310, 320, 330)] == [[3], [3], [4]]


def test_a_job_whose_change_is_under_way_is_not_counted_between_plans() -> None:
    faro = Planned([5.0])
    for now in (310, 320, 330):
        assert faro.step(now, [job(3, 1.0, changing=True)], 5) == [3]
    assert faro.step(340, [job(3, 1.0)], 5) == [3]


def test_at_the_end_of_the_forecast_nothing_is_planned() -> None:
    faro = Faro(lambda _: np.zeros((1, 0)), [0.18])
    assert faro.step(60, [job(3)], 5) == [3]


def two(seconds: int = 1800) -> Scenario:
    step = np.where(np.arange(seconds) < seconds // 2, 1.0, 5.0)
    models = (
        ScenarioModel("rises", step, np.full(seconds, 10.0), first=3, start_seconds=30),
        ScenarioModel("falls", step[::-1].copy(), np.full(seconds, 10.0), first=3, start_seconds=30),
    )
    return Scenario("two", "0", models, (9,), seconds)


def test_the_forecast_begins_with_the_minute_under_way_and_ends_with_the_scenario() -> None:
    rates = np.arange(60.0).reshape(2, 30)
    assert forecast(rates)(130).tolist() == [[2, 3, 4, 5, 6, 7, 8], [32, 33, 34, 35, 36, 37, 38]]
    assert forecast(rates)(1740).tolist() == [[29], [59]]
    assert forecast(rates)(1800).shape == (2, 0)


def test_on_the_fluid_world_it_moves_replicas_with_the_load() -> None:
    scenario = two()
    record = play(scenario, faro_on_fluid(scenario), "faro")
    fair = play(scenario, OnFluid(FairShare()), "fairshare")
    assert record.ready[:, [290, 1100]].tolist() == [[2, 7], [7, 2]]
    assert record.gpus.max() <= 9
    assert score(record).violation < score(fair).violation


def test_a_job_shows_the_backlog_that_its_requests_met() -> None:
    seen: list[FaroJob] = []

    class Spy:
        def step(self, _now: int, jobs: Sequence[FaroJob], free_units: int) -> list[int]:
            seen.append(jobs[0])
            assert free_units == 2
            return [each.replicas for each in jobs]

    model = ScenarioModel("one", np.full(60, 2.0), np.full(60, 4.0), first=1)
    world = FastWorld(Scenario("one", "0", (model,), (3,), 60))
    world.advance(10)
    view: Seen = world.seen
    OnFluid(Spy()).decide(view)
    # 2 replica-seconds come and 1 is done each second: 1 to 10 are left at the seconds' ends; the SLO is four pieces.
    assert seen[0].latency_seconds == pytest.approx(5.5 + 2.5 / 3)
    assert seen[0].slo_seconds == pytest.approx(4 * 2.5 / 3)


def test_where_nobody_serves_the_latency_is_infinite() -> None:
    model = ScenarioModel("one", np.full(60, 2.0), np.full(60, 4.0), first=0, floor=0)
    world = FastWorld(Scenario("one", "0", (model,), (3,), 60))
    world.advance(10)
    # What Oneshot makes of it is the most that a model may have, not an error.
    controller = OnFluid(Oneshot())
    assert [controller.decide(world.seen) for _ in range(3)] == [[0], [0], [3]]


def test_a_view_without_latency_is_refused_where_latency_is_needed() -> None:
    world = FastWorld(two())
    with pytest.raises(TypeError, match="request-level"):
        OnRequests(FairShare()).decide(world.seen)
