"""A helper: a state with everything in it that 1,000 models bring. Says the MiB that its process holds.

python -m tests.bench.memory MODELS
"""

import gc
import os
import sys
from collections.abc import Iterator

from rebalancer.domain.events import Gauges, MetricSample
from rebalancer.state import ClusterState
from rebalancer.state.rings import SPAN_SECONDS
from tests.bench.children import child, say
from tests.bench.lists import listed
from tests.bench.processes import resident_mib
from tests.bench.scale import PER_REPLICA, REPLICAS, START, Scale
from tests.bench.voices import pod_uid

PAST_INTERVAL_SECONDS = 60
PATIENCE_SECONDS = 300.0


async def memory(scale: Scale) -> float:
    """MiB of a fresh process."""
    async with child("memory", scale.models) as full:
        return float(await full.line(PATIENCE_SECONDS))


def main() -> None:
    """Fill a state and say what it takes."""
    scale = Scale(models=int(sys.argv[1]), pools=1)
    state = ClusterState(scale.policy(), START - SPAN_SECONDS)
    state.apply_all(listed(scale.models, START), START)
    for age in range(SPAN_SECONDS, 0, -PAST_INTERVAL_SECONDS):
        state.apply_all(_past(scale, START - age), START - age)
    for age in (1, 0):
        state.apply_all(_pods(scale, START - age), START - age)
    snapshot = state.snapshot(START, 1)
    assert len(snapshot.loads) == scale.models
    gc.collect()
    say(f"{resident_mib(os.getpid()):.1f}")


def _past(scale: Scale, at: float) -> Iterator[MetricSample]:
    gauges = Gauges(running=PER_REPLICA * REPLICAS * 0.9, waiting=0.0)
    for number in range(scale.models):
        yield MetricSample("gateway", f"{number}-{at}", at, scale.model_id(number), PAST_INTERVAL_SECONDS, gauges)


def _pods(scale: Scale, at: float) -> Iterator[MetricSample]:
    for number in range(scale.models):
        for pod in range(REPLICAS):
            model = scale.model_id(number)
            gauges = Gauges(running=PER_REPLICA * 0.9, waiting=0.0, kv_cache_use=0.5)
            yield MetricSample(f"vllm/{model}-{pod}", f"{at}", at, model, 1.0, gauges, pod_uid(number, pod))


if __name__ == "__main__":
    main()
