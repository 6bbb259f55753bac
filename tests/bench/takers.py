"""`python -m tests.bench.takers [--grace N] CASE ...`: what it costs those who serve that batch jobs get what is idle.

Each case (SCENARIO/GPUS/START/DAY, as `S2/40/60/1`) is played as it is, and with a model more that takes what is idle
(`takesIdle`): workers that nobody asks anything, and that need N seconds to go. It prints how many requests were late
without and with them, and the GPU-hours that they had. Traces are read from REBALANCER_TRACES.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rebalancer.domain.policy import Policy
from rebalancer.domain.signals import Signals
from rebalancer.sim.contest.named import named_cases
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.traces.folder import traces_folder

NIGHTLY = "nightly"
GRACE_SECONDS = 30  # Kubernetes' own


class Told(NamedTuple):
    """One run: requests and late ones of those who serve, GPU-hours of the workers, starts and stops of all."""

    requests: float
    late: float
    hours: float
    moves: int
    floor_breaches: int

    def __str__(self) -> str:
        share = 100 * self.late / max(1.0, self.requests)
        return f"late {share:.2f} % ({self.late:,.0f}), workers {self.hours:.1f} GPU-hours, {self.moves} moves"


def offering(scenario: Scenario, grace_seconds: int = GRACE_SECONDS) -> tuple[Scenario, Policy]:
    """The scenario with workers that take what is idle, and its policy."""
    nothing = np.zeros(scenario.seconds)
    workers = ScenarioModel(NIGHTLY, nothing, nothing, first=0, floor=0, release_seconds=grace_seconds)
    more = replace(scenario, models=(*scenario.models, workers))
    policy = default_policy(more)
    taker = policy.models[-1].model_copy(
        update={"takes_idle": True, "workload_class": "batch", "signals": Signals(), "slo": None}
    )
    return more, policy.model_copy(update={"models": (*policy.models[:-1], taker)})


def told(record: Record, serving: int) -> Told:
    """Of the first `serving` models; the others are workers."""
    requests = sum(float(model.requests[: record.scenario.seconds].sum()) for model in record.scenario.models[:serving])
    hours = float(record.ready[serving:].sum()) / 3600
    late = float(record.late[:serving].sum())
    return Told(requests, late, hours, record.starts + record.stops, record.floor_breaches)


def played(scenario: Scenario, grace_seconds: int = GRACE_SECONDS) -> tuple[Told, Told]:
    """Without and with workers."""
    more, policy = offering(scenario, grace_seconds)
    runs = play_product(scenario, default_policy(scenario)), play_product(more, policy)
    without, beside = (told(run, len(scenario.models)) for run in runs)
    return without, beside


def main(arguments: Sequence[str]) -> None:
    """A line for each case and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.takers", description=__doc__)
    parser.add_argument("--grace", type=int, default=GRACE_SECONDS)
    parser.add_argument("case", nargs="+")
    options = parser.parse_args(arguments)
    for name in options.case:
        without, beside = played(named_cases()[name].build(traces_folder(None, os.environ)), options.grace)
        print(f"{name:<24} without: {without}", flush=True)
        print(f"{name:<24}    with: {beside}, {beside.floor_breaches} floors broken", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
