"""Continuous batching inside the full world."""

import numpy as np
import pytest

from rebalancer.sim.batching.engines import Served, shaped
from rebalancer.sim.batching.plug import BatchingService, serving
from rebalancer.sim.batching.world import BatchingWorld
from rebalancer.sim.demand import DemandStreams, Stream
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.product.stage import STARTED_AT, Stage
from rebalancer.sim.scenario import Scenario, ScenarioModel

pytestmark = pytest.mark.timeout(300)  # the first run compiles the kernel: 15 s of an idle core

SERVED = Served(shaped(10_000.0, 0.04, 64, 400_000))
SECONDS = 600


def two_models(surge: float) -> tuple[DemandStreams, Scenario]:
    """`a` surges in the middle of the time; a replica carries 5.5 requests a second."""
    streams, models = [], []
    for seed, (name, middle) in enumerate({"a": surge, "b": 3.0}.items()):
        mean = np.full(SECONDS, 5.0)
        mean[200:400] = middle
        requests = np.random.default_rng(seed).poisson(mean).astype(float)
        streams.append(Stream(name, requests, requests * 800, requests * 160))
        models.append(
            ScenarioModel(name, requests * 0.18, requests, first=3, floor=1, start_seconds=20, release_seconds=20)
        )
    return DemandStreams("two", tuple(streams)), Scenario("two", "0", tuple(models), (6,), SECONDS)


def test_a_fleet_that_nobody_touches_serves_as_in_the_world_without_a_cluster() -> None:
    demand, scenario = two_models(surge=25.0)
    stage = Stage(scenario, default_policy(scenario), serve=serving(demand, {"a": SERVED, "b": SERVED}))
    stage.world.advance(STARTED_AT + SECONDS)
    alone = BatchingWorld(scenario, demand, [SERVED, SERVED])
    alone.advance(SECONDS)
    for index, name in enumerate("ab"):
        service = stage.services[name]
        happened = alone.outcome("static").record
        assert np.array_equal(service.lost, happened.lost[index])
        assert np.array_equal(service.late, happened.late[index])
        assert np.allclose(service.wait, happened.wait[index], rtol=1e-12)
        assert np.array_equal(service.left, happened.left[index])


def test_the_product_moves_replicas_to_the_surge_and_loses_nobody_in_flight() -> None:
    demand, scenario = two_models(surge=22.0)
    made: list[BatchingService] = []
    make = serving(demand, {"a": SERVED, "b": SERVED})

    def kept(model: ScenarioModel, started_at: float, seconds: int) -> BatchingService:
        made.append(make(model, started_at, seconds))
        return made[-1]

    record = play_product(scenario, default_policy(scenario), serve=kept)
    assert record.ready[0].max() > 3
    assert sum(service.lost_in_flight for service in made) == 0
    assert record.late[1].sum() < 0.2 * scenario.models[1].requests.sum()


def test_metrics_show_the_queue_the_cache_and_the_first_tokens() -> None:
    demand, scenario = two_models(surge=40.0)
    stage = Stage(
        scenario, default_policy(scenario), serve=serving(demand, {"a": SERVED, "b": SERVED}), lag_seconds=0.0
    )
    stage.world.advance(STARTED_AT + 300)
    last = {sample.model: sample for sample in stage.world.take_samples()}
    busy, idle = last["a"].gauges, last["b"].gauges
    assert busy.running == 3 * 64
    assert busy.waiting is not None
    assert busy.waiting > 100
    assert busy.gpu_utilisation == 1.0
    assert busy.ttft_p95_seconds is not None
    assert idle.ttft_p95_seconds is not None
    assert busy.ttft_p95_seconds > 5 > idle.ttft_p95_seconds
    counters = last["b"].counters
    assert counters is not None
    asked = demand.streams[1].requests[:300].sum()
    assert counters.requests_finished == pytest.approx(asked, abs=60)
    assert counters.generated_tokens == pytest.approx(160 * asked, rel=0.05)
    assert counters.requests_left == 0
    gone = last["a"].counters
    assert gone is not None
    assert gone.requests_left is not None
    assert gone.requests_left > 100
    came = demand.streams[0].requests[:300].sum()
    inside = 3 * 64 + busy.waiting
    assert (gone.requests_finished or 0.0) + gone.requests_left + inside == pytest.approx(came, rel=0.03)
