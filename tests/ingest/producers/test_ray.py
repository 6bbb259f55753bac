"""Replicas of Ray serve in one worker pod, and come and go in it."""

from collections.abc import Iterable
from functools import partial
from itertools import pairwise

import pytest

from rebalancer.domain.events import MetricSample
from rebalancer.ingest.producers.gathering import SETTLE_SECONDS, PodGathering
from tests.ingest.producers.records import AT, HERE, producer, readings
from tests.ingest.producers.test_counted import Numbers, telegraf, told
from tests.lines import lines


def test_two_replicas_of_ray_serve_in_one_worker_pod_are_summed() -> None:
    def look(count: int) -> Numbers:
        return {
            f'{metric}{{ReplicaId="{replica}",WorkerId="w{replica}",model_name="llama"}}': value
            for replica, running, finished in (("a", 20.0, 1000.0 + 30 * count), ("b", 3.0, 40.0 + 2 * count))
            for metric, value in (
                ("ray_vllm_num_requests_running", running),
                ("ray_vllm_request_success_total", finished),
            )
        }

    first, second = told("telegraf", [look(0), look(1)])
    assert first.counters is not None
    assert second.counters is not None
    assert (second.gauges.running, second.counters.start_time) == (23.0, first.counters.start_time)
    assert second.counters.requests_finished == 1072.0


def ray(replica: str, finished: float, uppers: Iterable[str] = ("1.0", "5.0", "+Inf")) -> Numbers:
    """A look at one replica of Ray, half of whose answers begin within 1 s."""
    whose = f'ReplicaId="{replica}",WorkerId="w{replica}",model_name="llama"'
    share = {"1.0": 0.5, "5.0": 1.0, "+Inf": 1.0}
    counted = {
        f'ray_vllm_time_to_first_token_seconds_bucket{{{whose},le="{le}"}}': share[le] * finished for le in uppers
    }
    return {f"ray_vllm_request_success_total{{{whose}}}": finished} | counted


def test_a_replica_of_ray_that_went_amid_a_look_blinds_no_percentile_of_those_after_it() -> None:
    before = [ray("a", 30.0 * n) for n in range(1, 5)]
    after = [ray("b", 30.0 * n) for n in range(1, 12)]
    *_, last = told("telegraf", [*before, ray("a", 150.0, ("1.0",)), *after])
    assert last.gauges.ttft_p95_seconds == pytest.approx(1.0 + 4.0 * 0.9)


def test_replicas_of_ray_that_went_long_ago_cost_nothing_and_what_they_counted_stays_counted() -> None:
    entry, seen, costs = producer(), list[MetricSample](), list[int]()
    gathering = PodGathering(entry)

    def look(at: float, numbers: Numbers) -> None:
        for record in telegraf(numbers, at):
            seen.extend(gathering.put(readings(entry, record).readings, HERE, at))
        seen.extend(gathering.settled(at + SETTLE_SECONDS))

    for replica in range(120):
        for count in range(1, 5):
            at = AT - 7200 + 15 * (4 * replica + count)
            costs.append(lines(partial(look, at, ray(f"r{replica}", 30.0 * count))))
    assert max(costs[-8:]) < 2.0 * max(costs[80:88])
    for before, after in pairwise(seen):
        assert before.counters is not None
        assert after.counters is not None
        if after.counters.start_time <= before.at:
            assert (after.counters.requests_finished or 0.0) - (before.counters.requests_finished or 0.0) == 30.0
