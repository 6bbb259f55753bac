"""In which worlds and with which seeds a case is played, and what that costs: so that a full run ends within hours.

CPU seconds were measured on one core of a loaded machine; they order tasks, and estimate a run before it begins.
"""

from collections.abc import Mapping
from typing import NamedTuple

from rebalancer.sim.product.run import Actuation
from rebalancer.sim.scenario import BY_MINUTE
from rebalancer.sim.suite.cases import SuiteCase
from rebalancer.sim.suite.families import FAMILIES
from rebalancer.sim.suite.row import BOUND, OURS
from rebalancer.sim.suite.worlds import World

REPORTED_DAY = {"S1a": "11", "S1b": "11", "S2": "1", "S3": "0", "S4": "9", "S5": "1", "S6": "1"}  # S7: any
# Where chance is played out: a seed draws every request of Faro's jobs, and tight budgets are what the table is about.
SEEDED_GPUS = frozenset({28, 32, 36})
# A day of continuous batching costs 50 s: the cells that the targets speak of.
BATCHED_S2 = frozenset({(32, 60), (40, 60)})
SCALE: tuple[Actuation, ...] = ("scale",)
BOTH: tuple[Actuation, ...] = ("scale", "bounds")


class Round(NamedTuple):
    """One draw of chance in one world, and by what the product acts in it."""

    world: World
    seed: int
    actuations: tuple[Actuation, ...]


def rounds(case: SuiteCase) -> tuple[Round, ...]:
    """The rounds of a case; the fluid world first. By bounds the product acts on the reported day with the first seed.

    What is given, and families of shapes, are played in the fluid world only: there a difference is theirs alone.
    """
    if not case.is_plain:
        return tuple(Round("fluid", seed, SCALE) for seed in case.seeds)
    if case.scenario in BY_MINUTE:
        return _of_faro(case)
    first = BOTH if _reported(case) else SCALE
    fluid = [Round("fluid", seed, SCALE if index else first) for index, seed in enumerate(case.seeds)]
    return (*fluid, *([Round("batching", case.seeds[0], first)] if _batched(case) else []))


def _of_faro(case: SuiteCase) -> tuple[Round, ...]:
    """The fluid form's own chance is in which second a request comes: one seed says enough of it."""
    tight = case.gpus in SEEDED_GPUS
    first = BOTH if tight and _reported(case) else SCALE
    fluid = Round("fluid", case.seeds[0], first)
    if not _reported(case):
        return (fluid, Round("requests", case.seeds[0], SCALE)) if tight else (fluid,)
    seeds = case.seeds if tight else case.seeds[:1]
    return fluid, *(Round("requests", seed, SCALE if index else first) for index, seed in enumerate(seeds))


def _reported(case: SuiteCase) -> bool:
    return case.day.partition("-")[0] == REPORTED_DAY.get(case.scenario, case.day.partition("-")[0])


def _batched(case: SuiteCase) -> bool:
    if case.scenario == "S2":
        return (case.gpus, case.start_seconds) in BATCHED_S2
    return (case.scenario, case.day) == ("S7", "azure-code")  # the one of S7 that knows its tokens


# For an hour of one model: what a controller's decisions take.
_DECISIONS: Mapping[str, float] = {
    "static": 0.001,
    "hpa": 0.012,
    "keda": 0.009,
    "kueue": 0.015,
    "kpa": 0.025,
    "ray-serve": 0.02,
    "apa": 0.02,
    "wva": 0.02,
    "aiad": 0.02,
    "oneshot": 0.02,
    "spothedge": 0.02,
    "foresight": 0.06,
    BOUND: 0.35,
}
# What the world takes beside them.
_WORLD: Mapping[World, float] = {"fluid": 0.002, "requests": 0.04, "batching": 0.7}
# The product's day costs about as much with few models as with many: an hour, and each model in it.
_OURS: Mapping[World, tuple[float, float]] = {"fluid": (1.4, 0.1), "requests": (1.4, 0.6), "batching": (1.4, 0.1)}
_FARO: Mapping[World, float] = {"fluid": 0.11, "requests": 0.5, "batching": 0.11}  # its solver's, by what it sees
_MODELS_AND_HOURS: dict[str, tuple[int, int]] = {
    "S1a": (10, 6),
    "S1b": (10, 6),
    "S2": (3, 24),
    "S3": (5, 24),
    "S4": (18, 24),
    "S7": (2, 12),
}
_MODELS_AND_HOURS |= {name: (3, family.hours) for name, family in FAMILIES.items()}
BUILD_SECONDS, DRAW_SECONDS = 1.0, 0.1


def cpu_seconds(case: SuiteCase, world: World, controller: str) -> float:
    """About what a run takes. Raises KeyError for a controller without a price."""
    models, hours = _MODELS_AND_HOURS.get(case.scenario, (3, 24))
    seconds = (DRAW_SECONDS if case.scenario in FAMILIES else BUILD_SECONDS) + models * hours * _WORLD[world]
    if controller == OURS:
        whole, each = _OURS[world]
        return seconds + hours * (whole + models * each)
    each = _FARO[world] if controller == "faro" else _DECISIONS[controller]
    return seconds + models * hours * each
