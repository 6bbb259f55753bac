"""Families of shapes: worlds that are drawn from seeds, so that nobody can be fitted to one window.

A family says how demand moves; how often, how far and how fast, of how many models and how full is drawn for each
world. At their peak the models keep 60 to 85 % of the GPUs busy together: all could be served in time, if replicas
were where they are needed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rebalancer.sim.demand import F64
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.suite.surges import arriving

GPUS, START_SECONDS = 16, 60
HOUR = 3600
BUSY = (0.6, 0.85)  # of the GPUs, all models together at their peak
SIZES = (0.1, 0.8)  # replica-seconds of a mean request: a few words, or a long answer
QUIET = 0.05  # of its level, of a model that has next to nothing to do
LEVELS = (0.5, 1.0)  # of one model over another's, before all are scaled to the GPUs
FIRST_CHANGE = (600, 1500)  # seconds until something happens


class LevelChange(NamedTuple):
    """From second `at` on a level goes to another one within `ramp` seconds, and stays there."""

    at: float
    ramp: float
    to: float


@dataclass(frozen=True, slots=True)
class Draw:
    """One world's chance, with what the families draw from it."""

    chance: np.random.Generator
    models: int
    seconds: int

    def one(self, span: tuple[float, float]) -> float:
        """A number between two, all alike probable."""
        return float(self.chance.uniform(*span))

    def levels(self) -> list[float]:
        """What each model keeps busy, over one another."""
        return [self.one(LEVELS) for _ in range(self.models)]

    def instants(self, apart: tuple[float, float]) -> Iterator[float]:
        """Seconds in which something happens, so far apart, until the end."""
        at = self.one(FIRST_CHANGE)
        while at < self.seconds:
            yield at
            at += self.one(apart)


Shape = Callable[[Draw], Sequence[tuple[float, list[LevelChange]]]]
"""Of each model its level at first, and how it changes: in order, none before the last has ended."""


def swaps(draw: Draw) -> list[tuple[float, list[LevelChange]]]:
    """One half of the models is busy while the other is not, and they swap every 7 to 30 min within a minute."""
    high, low = draw.levels(), draw.one((0.2, 0.4))
    turns = [(at, draw.one((10, 60))) for at in draw.instants((420, 1800))]
    rows = []
    for index, level in enumerate(high):
        second = int(index >= draw.models // 2)
        of = [level * (low if (number + second) % 2 else 1.0) for number in range(len(turns) + 1)]
        rows.append((of[0], [LevelChange(at, ramp, to) for (at, ramp), to in zip(turns, of[1:], strict=True)]))
    return rows


def joint_rises(draw: Draw) -> list[tuple[float, list[LevelChange]]]:
    """All models rise together to 2 to 3.5 times their own for 5 to 15 min; there is room for all."""
    levels, changes = draw.levels(), []
    for at in draw.instants((1500, 2700)):
        ramp, times = draw.one((20, 90)), draw.one((2.0, 3.5))
        changes.append([LevelChange(at, ramp, times), LevelChange(at + draw.one((300, 900)), ramp, 1.0)])
    return [(level, [each._replace(to=level * each.to) for pair in changes for each in pair]) for level in levels]


def joint_falls(draw: Draw) -> list[tuple[float, list[LevelChange]]]:
    """All models but one end together, and that one rises to 2 to 4 times its own, for 10 to 25 min."""
    levels, riser = draw.levels(), int(draw.chance.integers(draw.models))
    times = draw.one((2.0, 4.0))
    ends = [(at, draw.one((10, 60)), draw.one((600, 1500))) for at in draw.instants((2100, 3000))]
    rows = []
    for index, level in enumerate(levels):
        to = level * (times if index == riser else QUIET)
        pairs = ((LevelChange(at, ramp, to), LevelChange(at + held, ramp, level)) for at, ramp, held in ends)
        rows.append((level, [each for pair in pairs for each in pair]))
    return rows


def ramps(draw: Draw) -> list[tuple[float, list[LevelChange]]]:
    """Each model goes from one level to the next in 15 to 50 min, all the time."""
    rows = []
    for _ in range(draw.models):
        at, changes = 0.0, []
        while at < draw.seconds:
            ramp = draw.one((900, 3000))
            changes.append(LevelChange(at, ramp, draw.one((0.15, 1.0))))
            at += ramp
        rows.append((draw.one((0.15, 1.0)), changes))
    return rows


def dips(draw: Draw) -> list[tuple[float, list[LevelChange]]]:
    """Steady models, of which now and then one has next to nothing to do for 1 to 6 min, and then all at once."""
    rows: list[tuple[float, list[LevelChange]]] = [(level, []) for level in draw.levels()]
    for at in draw.instants((600, 1500)):
        level, changes = rows[draw.chance.integers(draw.models)]
        ramp, held = draw.one((5, 20)), draw.one((60, 360))
        changes += [LevelChange(at, ramp, QUIET * level), LevelChange(at + held, ramp, level)]
    return rows


def bursts(draw: Draw) -> list[tuple[float, list[LevelChange]]]:
    """Each model has a burst of 2 to 5 min to 2 to 4 times its own, at a period of its own of 10 to 30 min."""
    rows = []
    for level in draw.levels():
        period, held, ramp, times = (draw.one(span) for span in ((600, 1800), (120, 300), (5, 30), (2.0, 4.0)))
        starts = np.arange(draw.one((60, period)), draw.seconds, period)
        pairs = ((LevelChange(at, ramp, times * level), LevelChange(at + held, ramp, level)) for at in starts)
        rows.append((level, [each for pair in pairs for each in pair]))
    return rows


def spikes(draw: Draw) -> list[tuple[float, list[LevelChange]]]:
    """Now and then one model has 3 to 6 times its own for 15 to 45 s: it is over before a replica has started."""
    rows: list[tuple[float, list[LevelChange]]] = [(level, []) for level in draw.levels()]
    for at in draw.instants((180, 900)):
        level, changes = rows[draw.chance.integers(draw.models)]
        ramp = draw.one((1, 4))
        changes += [
            LevelChange(at, ramp, draw.one((3.0, 6.0)) * level),
            LevelChange(at + draw.one((15, 45)), ramp, level),
        ]
    return rows


def office_hours(draw: Draw) -> list[tuple[float, list[LevelChange]]]:
    """Each model's users begin to work within 10 to 40 min, each in its own time zone, and go to lunch."""
    rows = []
    for level in draw.levels():
        begin, last, idle = draw.one((900, 3.0 * HOUR)), draw.one((3.5 * HOUR, 4.5 * HOUR)), draw.one((QUIET, 0.2))
        lunch = begin + last * draw.one((0.4, 0.6))
        come, go, leave = (draw.one((600, 2400)) for _ in range(3))
        changes = [
            LevelChange(begin, come, level),
            LevelChange(lunch, go / 2, level * draw.one((0.5, 0.8))),
            LevelChange(lunch + go, go / 2, level),
            LevelChange(begin + last, leave, idle * level),
        ]
        rows.append((idle * level, changes))
    return rows


class Family(NamedTuple):
    """A shape, and for how many hours it is played."""

    shape: Shape
    hours: int = 3
    models: tuple[int, int] = (2, 4)


FAMILIES: Mapping[str, Family] = {
    "swaps": Family(swaps),
    "joint-rises": Family(joint_rises),
    "joint-falls": Family(joint_falls, models=(3, 4)),
    "ramps": Family(ramps),
    "dips": Family(dips),
    "bursts": Family(bursts),
    "spikes": Family(spikes),
    "office-hours": Family(office_hours, hours=8),
}


def level(family: str, seed: int) -> F64:
    """Replicas that are kept busy on average in each second of one world; shape (models, seconds)."""
    return _level(FAMILIES[family], _chance(family, seed))


def world(family: str, seed: int, day: str = "") -> Scenario:
    """One world of a family: 2 to 4 models on 16 GPUs that began with equal parts of them, and start in a minute.

    Each `family` has chances of its own for each `seed`.
    """
    chance = _chance(family, seed)
    levels = _level(FAMILIES[family], chance)
    models = []
    for index, row in enumerate(levels):
        first = GPUS // len(levels) + (index < GPUS % len(levels))
        work, requests = arriving(row, float(chance.uniform(*SIZES)), chance)
        models.append(ScenarioModel("abcd"[index], work, requests, first, start_seconds=START_SECONDS))
    return Scenario(family, day, tuple(models), (GPUS,), levels.shape[1])


def _chance(family: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([*family.encode(), seed])


def _level(family: Family, chance: np.random.Generator) -> F64:
    least, most = family.models
    draw = Draw(chance, int(chance.integers(least, most + 1)), family.hours * HOUR)
    levels = np.stack([_followed(first, changes, draw.seconds) for first, changes in family.shape(draw)])
    scaled: F64 = levels * (GPUS * draw.one(BUSY) / levels.sum(axis=0).max())
    return scaled


def _followed(first: float, changes: Sequence[LevelChange], seconds: int) -> F64:
    """A level through its changes, by the second; one that would begin before the last has ended waits for it."""
    at, values = [0.0], [first]
    for change in changes:
        begin = max(change.at, at[-1])
        at += [begin, begin + change.ramp]
        values += [values[-1], change.to]
    level: F64 = np.interp(np.arange(seconds), at, values)
    return level
