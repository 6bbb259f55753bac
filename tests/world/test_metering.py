"""Metric samples as a world gives them."""

from collections import defaultdict

import pytest

from rebalancer.domain.events import Counters, MetricSample
from rebalancer.domain.workload_ref import WorkloadRef
from tests.world.worlds import START, a_deployment, a_served_model, a_world


def a_run(per: str, seconds: float = 120.0, interval: float = 1.0) -> list[MetricSample]:
    """Two replicas, then three."""
    world = a_world(per=per, interval_seconds=interval)
    a_served_model(world, "a", rate_per_second=3.0)
    a_deployment(world, "a", replicas=2)
    world.advance(START + seconds / 2)
    world.scale(WorkloadRef("serving", "Deployment", "a"), 3)
    world.advance(START + seconds)
    return world.take_samples()


def finished(sample: MetricSample) -> float:
    assert isinstance(sample.counters, Counters)
    assert sample.counters.requests_finished is not None
    return sample.counters.requests_finished


@pytest.mark.parametrize("interval", [1.0, 5.0])
def test_a_model_has_one_sample_per_interval(interval: float) -> None:
    samples = a_run("model", interval=interval)
    assert [sample.at for sample in samples] == [START + n * interval for n in range(1, round(120 / interval) + 1)]
    assert {(sample.model, sample.pod, sample.interval_seconds) for sample in samples} == {("a", None, interval)}


def test_only_ready_pods_have_samples_of_their_own() -> None:
    by_instant: defaultdict[float, set[str | None]] = defaultdict(set)
    for sample in a_run("pod"):
        by_instant[sample.at].add(sample.pod)
    assert START + 10 not in by_instant  # still loading
    assert len(by_instant[START + 60]) == 2
    assert len(by_instant[START + 120]) == 3


def test_the_pods_samples_add_up_to_the_models() -> None:
    whole = {sample.at: sample for sample in a_run("model")}
    parts = [sample for sample in a_run("pod") if sample.at == START + 120]
    total = sum(sample.gauges.running or 0.0 for sample in parts)
    assert total == pytest.approx(whole[START + 120].gauges.running)


@pytest.mark.parametrize("per", ["model", "pod"])
def test_counters_only_grow_and_keep_their_start(per: str) -> None:
    last: dict[str | None, MetricSample] = {}
    for sample in a_run(per):
        before = last.get(sample.pod)
        if before is not None:
            assert finished(sample) >= finished(before)
            assert sample.counters is not None
            assert before.counters is not None
            assert sample.counters.start_time == before.counters.start_time
        last[sample.pod] = sample


def test_latency_is_absent_while_nobody_serves() -> None:
    samples = a_run("model")
    assert samples[0].gauges.ttft_p95_seconds is None
    assert samples[0].gauges.waiting == pytest.approx(3.0, rel=0.05)
    assert samples[-1].gauges.ttft_p95_seconds == pytest.approx(0.1)


def test_each_sample_has_an_id_of_its_own() -> None:
    for per in ("model", "pod"):
        ids = [sample.id for sample in a_run(per)]
        assert len(ids) == len(set(ids))
