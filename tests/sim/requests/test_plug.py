"""Faro's jobs inside the full world."""

import numpy as np
import pytest

from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import F64
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.product.stage import STARTED_AT, Stage
from rebalancer.sim.requests.minutes import Minutes
from rebalancer.sim.requests.plug import HeadService, serving
from rebalancer.sim.requests.scenarios import SLO_SECONDS, s1
from rebalancer.sim.requests.world import RequestScenario, play_requests
from rebalancer.sim.scenario import ScenarioModel
from rebalancer.sim.traces.faro import FaroDay

pytestmark = pytest.mark.timeout(300)  # the first run compiles the kernels

MINUTES = 10


class Fixed:
    every_seconds = 600

    def decide(self, seen: Seen) -> list[int]:
        return list(seen.desired)


def scenario(*per_minute: int, gpus: int = 8, first: int = 3) -> RequestScenario:
    counts = np.repeat(np.array(per_minute)[:, None], MINUTES, axis=1)
    return s1(FaroDay(1, tuple(f"job{n}" for n in range(len(per_minute))), counts), gpus, "clean", 42, first)


def stage_of(of: RequestScenario, delay_seconds: float = 1.0) -> Stage:
    return Stage(of.scenario, default_policy(of.scenario), serve=serving(of), lag_seconds=delay_seconds)


def test_jobs_that_nobody_touches_fare_as_in_the_world_without_a_cluster() -> None:
    of = scenario(1400, 300)
    stage = stage_of(of)
    stage.world.advance(STARTED_AT + of.scenario.seconds)

    alone = play_requests(of, Fixed(), "static")

    services = [stage.services[model.name] for model in of.scenario.models]
    assert alone.record.lost.sum() > 0
    for row in ("wait", "late", "lost", "left"):
        assert np.array_equal(np.stack([getattr(each, row) for each in services]), getattr(alone.record, row)), row
    minutes = Minutes.of([each.minutes for each in services if isinstance(each, HeadService)], SLO_SECONDS)
    assert minutes.lost_utility == alone.lost_utility


def test_a_replica_that_the_product_moves_is_away_for_65_seconds_and_its_requests_are_finished() -> None:
    of = scenario(1900, 60, gpus=6)

    record = play_product(of.scenario, default_policy(of.scenario), serve=serving(of))

    ready = record.ready
    given, taken = int(np.argmax(ready[1] < 3)), int(np.argmax(ready[0] > 3))
    assert ready[0].max() > 3
    assert taken - given >= 65
    assert record.gpus.max() <= 6
    assert record.lost[1].sum() == 0


def test_metrics_show_who_is_served_who_waits_and_for_how_long() -> None:
    of = scenario(2400, 600)
    stage = stage_of(of, delay_seconds=0.0)
    stage.world.advance(STARTED_AT + 300)

    last = {sample.model: sample for sample in stage.world.take_samples()}

    busy, idle = last["job0"], last["job1"]
    assert busy.gauges.running == pytest.approx(3.0)
    assert busy.gauges.waiting == 52 + 9  # what a head holds, and three behind the one that each replica serves
    assert busy.gauges.gpu_utilisation == pytest.approx(1.0)
    assert busy.gauges.kv_cache_use is None
    assert busy.gauges.latency_p95_seconds is not None
    assert idle.gauges.latency_p95_seconds is not None
    assert busy.gauges.latency_p95_seconds > 3 > SLO_SECONDS > idle.gauges.latency_p95_seconds
    assert idle.gauges.running == pytest.approx(600 / 60 * 0.154, rel=0.3)
    assert idle.counters is not None
    assert idle.counters.requests_finished == pytest.approx(600 * 5, abs=20)
    assert idle.counters.requests_left == 0
    counters = busy.counters
    assert counters is not None
    assert counters.requests_finished is not None
    assert counters.requests_left is not None
    assert counters.requests_finished == pytest.approx(300 * 3 / 0.154, rel=0.05)
    inside = (busy.gauges.running or 0.0) + busy.gauges.waiting
    assert counters.requests_finished + counters.requests_left + inside == pytest.approx(2400 * 5, rel=0.03)


class Counting(HeadService):
    """Counts the latencies that quantiles were taken of."""

    shown = 0

    def _answered_in(self, begin: int, end: int) -> F64:
        found = super()._answered_in(begin, end)
        self.shown += len(found)
        return found


def test_every_answered_request_is_shown_once() -> None:
    of = scenario(900)
    service = Counting(of, 0, STARTED_AT, of.scenario.seconds)
    pods = stage_of(of).world.ready_pods("job0")
    for second in range(of.scenario.seconds):
        service.flow(STARTED_AT + second, STARTED_AT + second + 1, pods)
        if second % 5 == 4:
            service.looks(pods)

    assert service.shown == pytest.approx(900 * MINUTES, abs=10)  # who is inside at the end was answered after it


def test_how_often_somebody_looks_changes_nothing() -> None:
    of = scenario(1400)
    pods = stage_of(of).world.ready_pods("job0")
    often, never = (serving(of)(of.scenario.models[0], STARTED_AT, of.scenario.seconds) for _ in range(2))
    for second in range(of.scenario.seconds):
        some = pods[: 1 + (second // 7) % 3]  # replicas come and go between scrapes
        for service in (often, never):
            service.flow(STARTED_AT + second, STARTED_AT + second + 1, some)
        often.looks(some)

    for row in ("wait", "late", "lost", "left", "busy", "served_by"):
        assert np.array_equal(getattr(often, row), getattr(never, row)), row


def test_a_policy_may_act_through_the_autoscalers_inside() -> None:
    of = scenario(1900, 60, gpus=6)
    policy = default_policy(of.scenario)

    record = play_product(of.scenario, policy, "bounds", serve=serving(of))

    assert record.ready[0].max() > 3


def test_the_model_of_a_service_is_found_by_its_name() -> None:
    of = scenario(100, 200)
    model: ScenarioModel = of.scenario.models[1]

    service = serving(of)(model, STARTED_AT, of.scenario.seconds)

    assert service.late.shape == (60 * MINUTES,)
    with pytest.raises(KeyError):
        serving(of)(ScenarioModel("other", model.work, model.requests, 1), STARTED_AT, 60)
