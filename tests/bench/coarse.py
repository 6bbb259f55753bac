"""`python -m tests.bench.coarse [CASE ...]`: what metrics every 1, 5 and 15 s cost.

Without a case in the error of offered work, by each path; with some (SCENARIO/GPUS/START/DAY, as `S2/32/60/0`; traces
are read from REBALANCER_TRACES) in late requests when the service decides by them.

One model of eight slots a replica for an hour and a half, with bursts of three times its traffic and lengths that
drift, on replicas enough and on too few. The error is that of means over 15, 60 and 300 s against the work that truly
arrived, over its mean, after 15 minutes to learn in.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.product.run import RunMetrics
from rebalancer.sim.score import score
from rebalancer.sim.suite.cases import cases
from rebalancer.sim.traces.folder import traces_folder
from rebalancer.state import ClusterState
from rebalancer.state.checkpoint import ModelPast
from rebalancer.state.ring_level import COVERAGE, WORK
from rebalancer.state.rings import Rings
from tests.builders import a_model, a_policy
from tests.state.engine import Engine, told
from tests.state.loads import two_pods
from tests.state.objects import feed

F64 = NDArray[np.float64]

SECONDS, LEARNING, SLOTS = 5400, 900, 8
INTERVALS, WINDOWS = (1, 5, 15), (15, 60, 300)
PATHS = {"arrivals": (True, True), "concurrency, requests counted": (True, False), "concurrency": (False, False)}


@dataclass(frozen=True, slots=True)
class Error:
    """`by_window`: mean absolute error over the mean of the truth; `bias`: mean over mean, 1 is none."""

    by_window: tuple[float, ...]
    bias: float


def arriving() -> list[list[float]]:
    """Tokens of each second's requests."""
    random = np.random.default_rng(7)
    seconds = np.arange(SECONDS)
    mean = 2.0 * (1.0 + 0.4 * np.sin(seconds / 700.0))
    for begin in range(0, SECONDS, 300):
        mean[begin : begin + random.integers(10, 60)] *= 3.0
    tokens = 120.0 * (1.0 + 0.5 * np.sin(seconds / 900.0))
    each = (tokens[second] * random.lognormal(-0.32, 0.8, random.poisson(mean[second])) for second in seconds)
    return [one.tolist() for one in each]


def error(path: str, replicas: int, every: int) -> Error:
    """Of one path, with metrics every so many seconds."""
    counted, tokens = PATHS[path]
    came, truth, engine = arriving(), np.zeros(SECONDS), Engine(replicas, SLOTS)
    state = _listening()
    samples = told(engine, came, every, tokens=tokens, counted=counted)
    for number, sample in enumerate(samples, 1):
        truth[number * every - every : number * every] = engine.work / every
        engine.work = 0.0
        feed(state, sample, now=sample.at)
    return _against(_by_second(state), truth)


def _listening() -> ClusterState:
    return two_pods(a_policy(a_model("b", signals={"concurrency": {"per_replica": float(SLOTS)}})))


def _by_second(state: ClusterState) -> F64:
    """Offered work as the rings have it."""
    rings = Rings(1)
    rings.restore(0, ModelPast.from_bytes(state.rings_bytes("b")).rings)
    edges, (work, coverage) = rings.cells(np.zeros(1, dtype=np.int64), SECONDS, WORK, COVERAGE)
    rates = np.divide(work, coverage, out=np.zeros_like(work), where=coverage > 0)[:, 0]
    return np.repeat(rates.astype(np.float64), np.diff(edges))[-SECONDS:]


def _against(found: F64, truth: F64) -> Error:
    errors = []
    for window in WINDOWS:
        ours, true = (each[LEARNING - SECONDS :].reshape(-1, window).mean(axis=1) for each in (found, truth))
        errors.append(float(np.abs(ours - true).mean() / true.mean()))
    return Error(tuple(errors), float(found[LEARNING - SECONDS :].sum() / truth[LEARNING:].sum()))


def late(name: str, every: int) -> float:
    """Share of the late requests of a case of the suite, decided by samples that come so often and a second late."""
    case = next(case for case in cases() if f"{case.budget}/{case.day}" == name)
    scenario = case.build(traces_folder(None, os.environ))
    metrics = RunMetrics(scrape_seconds=float(every))
    return score(play_product(scenario, default_policy(scenario), metrics=metrics)).violation


def main(arguments: Sequence[str]) -> None:
    """The table."""
    for name in arguments:
        found = [f"{every} s {late(name, every):7.3%}" for every in INTERVALS]
        print(f"{name:<30} late with metrics every {', '.join(found)}", flush=True)
    if not arguments:
        errors()


def errors() -> None:
    """By path, replicas and interval."""
    print(f"{'path':<30} {'replicas':>8} {'every':>6} " + " ".join(f"{window:>5} s" for window in WINDOWS) + "   bias")
    for path in PATHS:
        for replicas in (6, 3):
            for every in INTERVALS:
                found = error(path, replicas, every)
                row = " ".join(f"{one:7.1%}" for one in found.by_window)
                print(f"{path:<30} {replicas:>8} {every:>4} s {row} {found.bias:6.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
