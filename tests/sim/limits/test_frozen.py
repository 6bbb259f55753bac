"""Foresight is frozen: whoever changes what it decides says so with a new version."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np

from rebalancer.sim.controller import Seen
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.limits import foresight, lookahead
from rebalancer.sim.limits.foresight import FORESIGHT_VERSION, PerfectForesight, Utility
from rebalancer.sim.scenario import Scenario, ScenarioModel

# Of every decision on the scenarios below, by version. What changes one needs a new version: gap closure is measured
# against it, and numbers of two versions do not compare. (What the fast world does to pods moves them, too: if only
# that was changed, the version stays.)
DECISIONS = {2: "0c51609648cbbdf2"}
# By version, too: what these scenarios hardly feel.
CONSTANTS = {
    2: {
        "DWELL_SECONDS": 90,
        "RANGE": 6,
        "SWITCHING_REPLICA_SECONDS": 2.0,
        "LEVEL_WINDOWS": ((60, 0.1), (300, 0.5), (1200, 0.4)),
        "LEAST_LEVEL": 0.001,
        "REQUEST_WINDOW_SECONDS": 600,
        "BARRED_SECONDS": 300,
        "TERMINAL_CAP_SECONDS": 300.0,
        "LEAST_DRAIN": 0.3,
        "FULL_USE": 1e-7,
        "BLOCK_SECONDS": 60,
        "SLO_SECONDS": 0.72,
        "OWN_SECONDS": 0.272,
    }
}


def chance(state: int) -> Iterator[float]:
    """Numbers from 0 to 1, the same for ever and everywhere: NumPy promises no stream from one version to the next."""
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 33) / 2**31


def a_model(name: str, level: float, surge: tuple[int, int, float], *, seconds: int = 1500) -> ScenarioModel:
    """Level with bursts: every second brings 0 to 2 times it, every fiftieth 10 times; and one surge."""
    begin, end, factor = surge
    draw, work = chance(ord(name)), np.empty(seconds)
    for second in range(seconds):
        burst = 10.0 if next(draw) < 0.02 else 2.0
        work[second] = level * burst * next(draw) * (factor if begin <= second < end else 1.0)
    work[700:720] = 0.0
    return ScenarioModel(name, work, work * 5.0, first=3, floor=1)


PLAIN = (a_model("a", 1.5, (300, 600, 4.0)), a_model("b", 1.1, (500, 900, 3.0)), a_model("c", 0.7, (1000, 1100, 8.0)))


def scenarios() -> Iterator[tuple[Scenario, Utility | None]]:
    yield Scenario("one node", "0", PLAIN, (12,), 1500), None
    yield Scenario("short", "0", tuple(replace(model, start_seconds=180) for model in PLAIN), (9,), 1500), None
    urgent = tuple(
        replace(model, slo_wait_seconds=0.5, headroom_seconds=0.2, priority=priority, patience_seconds=5.0)
        for model, priority in zip(PLAIN, (1.0, 3.0, 1.0), strict=True)
    )
    yield Scenario("urgent", "0", urgent, (12,), 1500), None
    wide = tuple(replace(model, gpus=gpus, release_seconds=30) for model, gpus in zip(PLAIN, (2, 4, 1), strict=True))
    yield Scenario("nodes", "0", wide, (8, 8, 8), 1500), None
    queues = {"queue_base": 50.0, "queue_per_replica": 4.0, "patience_seconds": 86_400.0, "headroom_seconds": 0.0}
    jobs = tuple(replace(model, release_seconds=30, start_seconds=35, **queues) for model in PLAIN)  # type: ignore[arg-type]  # each field is a float
    yield Scenario("jobs", "0", jobs, (11,), 1500), Utility()


@dataclass
class Noted:
    """Foresight, and all that it decided."""

    inner: PerfectForesight
    every_seconds: int = 10
    decisions: list[tuple[int, ...]] = field(default_factory=list)

    def decide(self, seen: Seen) -> tuple[int, ...]:
        self.decisions.append(tuple(self.inner.decide(seen)))
        return self.decisions[-1]


def test_a_version_decides_what_it_always_did() -> None:
    every = []
    for scenario, utility in scenarios():
        noted = Noted(PerfectForesight(utility))
        play(scenario, noted, "foresight")
        assert len(set(noted.decisions)) > 5, scenario.name  # there is something to notice
        every.append((scenario.name, noted.decisions))
    assert sha256(repr(every).encode()).hexdigest()[:16] == DECISIONS[FORESIGHT_VERSION]


def test_a_version_has_the_constants_that_it_always_had() -> None:
    now = {**vars(foresight), **vars(lookahead)}
    told = {name: round(now[name], 3) if name == "OWN_SECONDS" else now[name] for name in CONSTANTS[FORESIGHT_VERSION]}
    assert told == CONSTANTS[FORESIGHT_VERSION]
