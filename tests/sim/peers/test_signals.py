"""What HPA, KEDA, KPA and Ray Serve look at."""

import math

import numpy as np
import pytest

from rebalancer.sim.controller import Seen
from rebalancer.sim.fluid.fast import FastWorld
from rebalancer.sim.peers import engine, signals
from rebalancer.sim.peers.hpa import HpaMetric, HpaPeer, PodReading, Total, by_metrics
from rebalancer.sim.scenario import Scenario, ScenarioModel

SECONDS = 600


def a_world(
    load: float, first: int = 2, gpus: int = 8, start_seconds: int = 60, slots: float = 64.0, scale: float = 1.0
) -> FastWorld:
    """One model under an even load of `load` replicas, two requests per replica-second; the budget is 8 GPUs."""
    work = np.full(SECONDS, load)
    model = ScenarioModel("m", work, work * 2, first=first, start_seconds=start_seconds, slots=slots, scale=scale)
    return FastWorld(Scenario("s", "0", (model,), (gpus,), SECONDS))


def seen_at(world: FastWorld, second: int) -> Seen:
    world.advance(second)
    return world.seen


def reading(seen: Seen, signal: signals.Utilisation | signals.GpuUtil | signals.KvUse) -> PodReading:
    told = signal(seen, 0)
    assert told is not None
    return told


def total(seen: Seen, signal: signals.WorkRate | signals.Queue) -> float:
    told = signal(seen, 0)
    assert told is not None
    return told.value


def test_work_is_the_share_that_ready_replicas_did() -> None:
    seen = seen_at(a_world(1.2), 120)
    told = reading(seen, signals.Utilisation())
    assert told.used == pytest.approx(1.2)
    assert (told.able, told.measured) == (2, 2)
    assert total(seen, signals.WorkRate()) == pytest.approx(1.2)


def test_nothing_is_known_at_the_beginning() -> None:
    seen = a_world(1.2).seen
    assert signals.Utilisation()(seen, 0) is None
    assert signals.WorkRate()(seen, 0) is None
    assert signals.GpuUtil()(seen, 0) is None
    assert signals.KvUse()(seen, 0) is None
    assert signals.Queue()(seen, 0) is None
    assert math.isnan(signals.in_flight(seen, (60,))[0][0])


def test_pods_that_load_are_missing_and_pods_that_wait_are_pending() -> None:
    world = a_world(1.2, gpus=5)
    world.advance(120)
    world.ask(0, 7)
    seen = seen_at(world, 135)
    assert (seen.ready, seen.loading, seen.waiting) == ([2], [3], [2])
    told = reading(seen, signals.Utilisation())
    assert (told.measured, told.missing, told.unready) == (2, 3, 2)


def test_gpu_util_is_near_full_at_a_tenth_of_the_load_and_hardly_rises_above() -> None:
    tenth = reading(seen_at(a_world(0.2), 120), signals.GpuUtil())
    full = reading(seen_at(a_world(2.0), 120), signals.GpuUtil())
    assert tenth.used / tenth.able == pytest.approx(0.89, abs=0.005)
    assert full.used / full.able == pytest.approx(1.0)


def test_where_one_request_is_served_at_a_time_gpu_util_is_the_share_of_work() -> None:
    told = reading(seen_at(a_world(1.2, slots=1.0), 120), signals.GpuUtil())
    assert told.used / told.able == pytest.approx(0.6)


def test_gpu_util_counts_loading_pods_at_nothing() -> None:
    world = a_world(2.0)
    world.advance(120)
    world.ask(0, 4)
    told = reading(seen_at(world, 135), signals.GpuUtil())
    assert told.used == pytest.approx(2.0)
    assert (told.able, told.measured, told.missing) == (4, 4, 0)


def test_the_queue_is_what_waits_behind_full_replicas() -> None:
    seen = seen_at(a_world(2.1), 121)
    # 0.1 replica-seconds are left over each second: 12 at the scrape of 120 s, of which 2 x 0.5 are in service.
    assert total(seen, signals.Queue()) == pytest.approx((12.0 - 1.0) * 2)
    assert reading(seen, signals.KvUse()).used == 2


def test_gauges_stand_still_between_scrapes() -> None:
    world = a_world(2.1)
    queued = [signals.Queue()(seen_at(world, at), 0) for at in (120, 134, 135)]
    assert queued[0] == queued[1] != queued[2]


def test_in_flight_are_the_slots_in_use_and_the_queue() -> None:
    world = a_world(1.0, slots=10)
    world.advance(120)
    assert signals.in_flight(world.seen, (60, 6)) == [[pytest.approx(10.0)], [pytest.approx(10.0)]]
    world = a_world(2.1, slots=10)
    world.advance(120)
    (last,) = signals.in_flight(world.seen, (1,))
    assert last == [pytest.approx(2 * 10 + 12.0 * 2)]


def test_a_request_of_a_thinned_trace_waits_as_many() -> None:
    plain, thinned = (seen_at(a_world(2.1, scale=scale), 121) for scale in (1.0, 3.6))
    assert total(thinned, signals.Queue()) == pytest.approx(3.6 * total(plain, signals.Queue()))
    (once,), (often,) = (signals.in_flight(seen, (1,)) for seen in (plain, thinned))
    assert often[0] - 2 * 64 == pytest.approx(3.6 * (once[0] - 2 * 64))


def test_kv_use_is_the_share_of_work_over_a_request_s_stay() -> None:
    work = np.where(np.arange(SECONDS) < 100, 0.0, 1.0)
    model = ScenarioModel("m", work, work * 2, first=2)
    seen = seen_at(FastWorld(Scenario("s", "0", (model,), (8,), SECONDS)), 105)
    # Five of the last eight seconds brought work for half of both replicas.
    assert engine.kv_use(seen, 0, 105) == pytest.approx(0.5 * 5 / 8)
    assert engine.kv_use(seen, 0, 0) is None


def test_the_peak_is_the_most_that_a_scrape_of_the_window_saw() -> None:
    seen = seen_at(a_world(2.1), 120)
    told = engine.peak(seen, 0, 60)
    assert told is not None
    assert list(told) == pytest.approx([1.0, (12.0 - 1.0) * 2 / 2])
    seen.left[0, 119], seen.busy[0, 112:] = 0.0, 0.0  # at the last scrape it is over
    told = engine.peak(seen, 0, 60)
    assert told is not None
    assert list(told) == pytest.approx([1.0, (10.5 - 1.0) * 2 / 2])


def test_the_most_of_several_metrics_counts_and_an_unknown_one_forbids_less() -> None:
    seen = seen_at(a_world(0.2), 120)

    def wants(replicas: float) -> HpaMetric:
        return HpaMetric(lambda _seen, _model: Total(replicas), 1.0)

    unknown = HpaMetric(lambda _seen, _model: None, 1.0)
    assert by_metrics(seen, 0, (wants(3), wants(5))) == 5
    assert by_metrics(seen, 0, (wants(5), unknown)) == 5
    assert by_metrics(seen, 0, (wants(1),)) == 1
    assert by_metrics(seen, 0, (wants(1), unknown)) is None
    assert by_metrics(seen, 0, (unknown,)) is None


@pytest.mark.parametrize(("asked", "expected"), [(1, 2), (7, 6), (0, 0)])
def test_an_hpa_first_returns_between_its_bounds_and_is_off_at_nothing(asked: int, expected: int) -> None:
    work = np.full(SECONDS, 0.2)
    world = FastWorld(Scenario("s", "0", (ScenarioModel("m", work, work, first=3, floor=2, most=6),), (8,), SECONDS))
    world.advance(120)
    world.ask(0, asked)
    assert HpaPeer((HpaMetric(signals.Utilisation(), 0.7),)).decide(world.seen) == [expected]
