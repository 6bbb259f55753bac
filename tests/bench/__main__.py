"""`python -m tests.bench`: all figures of the engine. `--quick` says within a minute whether the benchmark still runs.

A quick run measures the same things on a smaller cluster where size costs time: its figures are not the engine's.
"""

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from tests.bench import report
from tests.bench.fleet import Fleet
from tests.bench.ingest import ingest
from tests.bench.latency import ANSWER_SECONDS, Latency, latency
from tests.bench.lists import list_times
from tests.bench.memory import memory
from tests.bench.plans import fleet_times, plan_times
from tests.bench.report import Measure
from tests.bench.scale import LARGE, SMALL, Scale
from tests.bench.timing import noise

EVENTS_AIM = 250_000
SPARE_FOR_EVENT = 16  # GPUs of a notice and a surge


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    ingest: Scale
    rounds: int
    live: Scale
    events: int
    warm_up_seconds: float
    small_plans: int
    large_plans: int
    fleet: int
    lists: int
    memory: Scale


FULL = Effort(
    ingest=LARGE,
    rounds=5,
    live=Scale(models=1000, pools=1, spare=80 * SPARE_FOR_EVENT),
    events=50,
    warm_up_seconds=20.0,
    small_plans=300,
    large_plans=120,
    fleet=1000,
    lists=9,
    memory=LARGE,
)
QUICK = Effort(
    ingest=SMALL,
    rounds=2,
    live=Scale(models=40, pools=1, spare=10 * SPARE_FOR_EVENT),
    events=2,
    warm_up_seconds=10.0,
    small_plans=20,
    large_plans=3,
    fleet=100,
    lists=1,
    memory=SMALL,
)


async def measure(effort: Effort) -> list[Measure]:
    """Everything, one after the other: nothing else of ours may run beside what is measured."""
    _now("events from Kafka to state")
    measures = await _ingest(effort)
    for kind in ("notice", "surge"):
        _now(f"{kind} to scale call: up to {effort.events}")
        measures += _answers(await latency(kind, effort.live, effort.events, effort.warm_up_seconds))
    _now("plans")
    measures.append(_plan("plan_100x1000_p99_ms", SMALL, effort.small_plans, 5.0))
    measures.append(_plan("plan_1000x10000_p99_ms", LARGE, effort.large_plans, 50.0))
    _now("plans of fleets with outlooks")
    measures.append(_fleet("fleet_100x1000_p99_ms", Fleet(100, 2), effort.small_plans, 5.0))
    measures.append(_fleet("fleet_1000x10000_p99_ms", Fleet(effort.fleet, 5), effort.large_plans, 50.0))
    measures.append(_fleet("alike_1000x10000_p99_ms", Fleet(effort.fleet, 5, alike=True), effort.large_plans, 50.0))
    _now("lists and memory")
    measures.append(_lists(effort))
    held = await memory(effort.memory)
    measures.append(Measure("resident_mib", "state with full history", held, "MiB", 250.0))
    return measures


def _now(what: str) -> None:
    """A full run takes minutes: say where it is."""
    print(f"... {what}", file=sys.stderr, flush=True)


async def _ingest(effort: Effort) -> list[Measure]:
    found, profile = await ingest(effort.ingest, effort.rounds)
    ceiling, rate = found.ceiling(), found.rate()
    split = ", ".join(f"{step} {cost:.1f}" for step, cost in found.split_us().items())
    wall = statistics.median(one.events / one.wall for one in found.whole)
    notes = [
        f"{rate / ceiling:.0%} of the ceiling (aim 70 %); by the wall clock {wall:,.0f}/s on this machine",
        f"us per event: {split}; without consuming {found.from_batch():,.0f}/s",
        f"most time of their own from batch to state: {', '.join(profile)}",
    ]
    return [
        Measure("ingest_events_per_second", "consume, decode, state", rate, "/s", EVENTS_AIM, more=True, notes=notes),
        Measure("ingest_ceiling_events_per_second", "consume and decode alone", ceiling, "/s"),
    ]


def _answers(found: Latency) -> list[Measure]:
    steps = ", ".join(f"{step} {cost:.0f}" for step, cost in found.split_ms().items())
    beside = f"{found.events} events beside {found.flood:,.0f} samples/s"
    service = f"the service kept {found.cores:.2f} cores busy and held {found.resident:.0f} MiB"
    notes = [f"median ms: {steps}", f"{beside}; {service}"]
    if found.missed:
        notes.append(f"{found.missed} had no answer within {ANSWER_SECONDS:.0f} s and count as that")
    key, what = f"{found.kind}_to_call", f"{found.kind} to scale call"
    return [
        Measure(f"{key}_p50_ms", f"{what}, p50", found.milliseconds(0.5), "ms", 5.0, notes=notes),
        Measure(f"{key}_p99_ms", f"{what}, p99", found.milliseconds(0.99), "ms", 50.0),
    ]


def _plan(key: str, scale: Scale, runs: int, aim: float) -> Measure:
    times, profile = plan_times(scale, runs)
    cpu = f"of the processor {times.cpu_p50_ms():.1f} / {times.cpu_p99_ms():.1f}"
    notes = [f"ms: p50 {times.p50_ms():.1f}; {cpu}", f"most time of their own: {', '.join(profile)}"]
    what = f"plan of {scale.models:,} models on {scale.gpus:,} GPUs, p99"
    return Measure(key, what, times.p99_ms(), "ms", aim, notes=notes)


def _fleet(key: str, fleet: Fleet, runs: int, aim: float) -> Measure:
    found = fleet_times(fleet, runs)
    notes = [
        f"{name}: ms p50 {times.p50_ms():.1f}, p99 {times.p99_ms():.1f};"
        f" of the processor {times.cpu_p50_ms():.1f} / {times.cpu_p99_ms():.1f}"
        for name, times in found.items()
    ]
    alike = "equal outlooks" if fleet.alike else "outlooks"
    what = f"plan of {fleet.models:,} models with {alike}, 5 % of them new, p99"
    return Measure(key, what, found["5 % changed"].p99_ms(), "ms", aim, notes=notes)


def _lists(effort: Effort) -> Measure:
    times = list_times(effort.lists)
    notes = [f"median of {effort.lists}; of the processor {times.cpu_p50_ms() / 1e3:.2f} s"]
    what = "10,000 pods and 1,000 nodes from bytes"
    return Measure("cold_start_seconds", what, times.p50_ms() / 1e3, "s", 0.5, notes=notes)


def main() -> None:
    """Measure, tell, write."""
    arguments = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a minute's run on a smaller cluster")
    arguments.add_argument("--into", type=Path, help="the JSON file, else build/bench/engine.json (or quick.json)")
    given = arguments.parse_args()
    file = given.into or report.FOLDER / ("quick.json" if given.quick else "engine.json")
    disturbed, began = noise(), time.monotonic()
    measures = uvloop.run(measure(QUICK if given.quick else FULL))
    report.write(measures, file)
    print(report.table(measures))
    print(f"\n{report.machine()}; {disturbed}\n{file} after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
