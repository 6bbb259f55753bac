"""7.4 Metrics."""

import asyncio
import math
import time

from tests.faults.injections import sample, sent
from tests.faults.row import Group, Row
from tests.faults.scene import LITTLE, PER_REPLICA, Scene


async def _frozen_readings(scene: Scene) -> None:
    """What everybody said last comes again and again, with its old instant."""
    last = time.time()
    for name in scene.desired:
        scene.traffic.silent(name)
    end = last + 16.0
    async with scene.blinded():
        while time.time() < end:
            await sent(scene, *(sample(name, last, '{"running": 5}') for name in scene.desired))
            await asyncio.sleep(1.0)
        scene.tide()


async def _flapping(scene: Scene) -> None:
    """Side needs a little more and a little less than two replicas, in waves of four seconds, for 24 s."""
    began = time.time()
    while (passed := time.time() - began) < 24.0:
        scene.traffic.says("side", running=15.0 + 8.0 * math.sin(passed * math.pi / 2))
        await asyncio.sleep(0.5)
    scene.tide()
    writes = await scene.service.writes(scene.kube, since=began)
    changed = [write for write in writes if write.name == "side"]
    assert len(changed) <= 8, f"{len(changed)} changes in 24 s, of windows of 3 s"


async def _liars(scene: Scene) -> None:
    """Two of three claim to need everything for ten seconds; the third tells the truth."""
    for liar in (scene.needs_little, "side"):
        scene.traffic.says(liar, running=500)
    await scene.silent(10.0)
    least = (await scene.replicas())[scene.needs_much]
    scene.tide()
    assert least >= LITTLE, f"who told the truth was left with {least}"


async def _zeros(scene: Scene) -> None:
    """A producer says zero of everybody for two seconds."""
    for name in scene.desired:
        scene.traffic.says(name, running=0.0)
    await scene.silent(2.0)
    scene.tide()


async def _cardinality(scene: Scene) -> None:
    """10,000 gauges that nobody knows, 100 to a record."""
    for number in range(100):
        names = ", ".join(f'"g{number}_{each}": 1' for each in range(100))
        await sent(scene, sample("side", time.time(), f'{{"running": {2 * PER_REPLICA - 5}, {names}}}'))
    await scene.silent(2.0)
    series = await scene.service.metrics()
    assert not [name for name in series if "g1_1" in name], "a gauge of a stranger became a label"


_AWAY = tuple(
    f"ingest/test_prometheus.py::{name}"
    for name in (
        "test_a_slow_answer_is_given_up_at_the_deadline_while_the_loop_runs_on",
        "test_a_bad_answer_makes_no_sample_and_is_told_and_the_next_good_one_counts",
        "test_nobody_there_is_told",
    )
)
_BESIDE = "ingest/test_prometheus_beside_kafka.py::"

METRICS = Group(
    "metrics",
    "7.4 Metrics",
    (
        Row("M01", "Prometheus down, slow, wrong", "I9 I14", elsewhere=_AWAY),
        Row("M02", "empty vector", "I9",
            elsewhere=("ingest/test_prometheus.py::test_an_empty_answer_abstains_and_says_so",)),
        Row("M03", "NaN, infinities", "I9",
            elsewhere=("ingest/test_prometheus.py::TestAnswer::test_what_is_not_finite_is_absent_and_the_rest_counts",)),
        Row("M04", "half of the pods missing", "missing is busy for down, idle for up",
            elsewhere=(f"{_BESIDE}test_a_pod_that_was_not_scraped_is_missing_from_the_coverage",)),
        Row("M05", "frozen readings with an old instant", "I9", _frozen_readings),
        Row("M06", "counter reset", "no decrease for one window",
            elsewhere=("ingest/test_prometheus_asked.py::TestCounterStarts::test_a_counter_that_fell_began_anew_and_stays_so",)),
        Row("M07", "poisoned: all zero", "I1 I10", _zeros, "zeros for 2 s; neither 1,000 times as much nor swapped",
            fast=True),
        Row("M08", "two sources disagree", "the higher demand counts",
            elsewhere=(f"{_BESIDE}test_a_source_that_sees_less_lowers_nothing_and_one_that_sees_more_counts",)),
        Row("M09", "flapping around a threshold", "one change per window", _flapping),
        Row("M10", "cardinality", "I13", _cardinality, "10,000 gauges"),
        Row("M11", "one honest model among liars", "I1", _liars, "two liars"),
    ),
)  # fmt: skip
