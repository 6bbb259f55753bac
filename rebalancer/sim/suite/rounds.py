"""In which worlds and with which seeds a case is played, and what that costs: so that a full run ends within hours.

CPU seconds were measured on one core of a loaded machine; they order tasks, and estimate a run before it begins.
"""

from collections.abc import Mapping
from typing import NamedTuple

from rebalancer.sim.suite.cases import Case
from rebalancer.sim.suite.peers import BY_UTILITY
from rebalancer.sim.suite.row import BOUND, OURS
from rebalancer.sim.suite.worlds import World

FARO = "faro"

# Where chance is played out: a seed draws every request of Faro's jobs, and tight budgets are what the table is about.
SEEDED_GPUS = frozenset({28, 32, 36})
REPORTED_FARO_DAY = "11"
# A day of continuous batching costs 50 s: the cells that the targets speak of.
BATCHED_S2 = frozenset({(32, 60), (40, 60)})


class Round(NamedTuple):
    """One draw of chance in one world."""

    world: World
    seed: int


def rounds(case: Case) -> tuple[Round, ...]:
    """Those of a case; the fluid world first."""
    if case.scenario in BY_UTILITY:
        # The fluid form's own chance is in which second a request comes: one seed says enough of it.
        seeded = case.day == REPORTED_FARO_DAY and case.gpus in SEEDED_GPUS
        seeds = case.seeds if seeded else case.seeds[:1]
        return Round("fluid", case.seeds[0]), *(Round("requests", seed) for seed in seeds)
    fluid = tuple(Round("fluid", seed) for seed in case.seeds)
    return (*fluid, Round("batching", case.seeds[0])) if _batched(case) else fluid


def _batched(case: Case) -> bool:
    if case.scenario == "S2":
        return (case.gpus, case.start_seconds) in BATCHED_S2
    return (case.scenario, case.day) == ("S7", "azure-code")  # the one of S7 that knows its tokens


# For an hour of one model: what a controller's decisions take, and what the world takes beside them.
_DECISIONS: Mapping[str, float] = {
    "static": 0.001,
    "hpa": 0.012,
    "keda": 0.009,
    "kpa": 0.025,
    "ray-serve": 0.02,
    "apa": 0.02,
    "wva": 0.02,
    "aiad": 0.01,
    "oneshot": 0.01,
    "spothedge": 0.02,
    "faro": 0.4,
    "foresight": 0.05,
    OURS: 0.65,
    BOUND: 0.35,
}
_WORLD: Mapping[World, float] = {"fluid": 0.002, "requests": 0.04, "batching": 0.65}
_MODELS_AND_HOURS = {"S1a": (10, 6), "S1b": (10, 6), "S2": (3, 24), "S3": (5, 24), "S4": (18, 24), "S7": (2, 12)}
BUILD_SECONDS = 1.0


def cpu_seconds(case: Case, world: World, controller: str) -> float:
    """About what a run takes. Raises KeyError for a controller without a price."""
    models, hours = _MODELS_AND_HOURS.get(case.scenario, (3, 24))
    each = _DECISIONS[controller]
    if controller == FARO:  # its solver's time grows with the square of the number of jobs
        each *= models / 10
    return BUILD_SECONDS + models * hours * (each + _WORLD[world])
