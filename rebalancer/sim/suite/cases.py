"""Which scenario is played on which day, with how many GPUs: the lines of the table, and what peers are tuned on."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rebalancer.sim.requests.arrivals import SEEDS as FARO_SEEDS
from rebalancer.sim.requests.scenarios import BUDGETS as FARO_GPUS
from rebalancer.sim.requests.scenarios import START_SECONDS as FARO_START_SECONDS
from rebalancer.sim.requests.scenarios import s1a, s1b
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.suite import elastic, families, scenarios
from rebalancer.sim.suite.families import FAMILIES
from rebalancer.sim.suite.given import EXACT, GIVEN, Given
from rebalancer.sim.suite.peers import DIGEST_LETTERS

SURGE_SEEDS = (0, 1, 2, 3, 4)
WORLDS_OF_A_FAMILY = 50
JUDGED, TUNED = "judged", "tuned"  # the days of a family: whose worlds are reported, and whose peers are tuned on
TUNED_WORLDS, TUNED_FROM = 8, 1000  # seeds of those


class Budget(NamedTuple):
    """What peers are tuned for, each for itself.

    scenario: name of the scenario or family.
    gpus: GPUs of the case.
    start_seconds: seconds that a replica takes to start, 0 where models differ.
    figures: whether a figure says what a replica carries; where none does, peers are tuned on signals that need none.
    """

    scenario: str
    gpus: int
    start_seconds: int
    figures: bool = True

    def __str__(self) -> str:
        return f"{self.scenario}/{self.gpus}/{self.start_seconds}{'' if self.figures else '/absent'}"


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """A scenario or a family on one day, with one budget.

    scenario: name of the scenario or family.
    day: the day of a trace as its number, in S6 with a zone (`1-bamboo`); in S7 `generated` or `azure-code`; of a
        family `judged`, or `tuned-N` for one of the worlds that peers are tuned on.
    gpus: GPUs of the case; of S5 the reserved ones alone.
    start_seconds: seconds that a replica takes to start, 0 where models differ.
    seeds: seeds that chance makes worth playing.
    given: what whoever decides is told; peers are tuned on exact figures, as far as they need any.
    """

    scenario: str
    day: str
    gpus: int
    start_seconds: int
    seeds: tuple[int, ...] = (0,)
    given: Given = EXACT

    @property
    def budget(self) -> Budget:
        """What it shares with its other days."""
        return Budget(self.scenario, self.gpus, self.start_seconds, self.given.carries is not None)

    @property
    def is_plain(self) -> bool:
        """Exact figures on one of the scenarios: everybody plays it, in all of its worlds."""
        return self.given == EXACT and self.scenario not in FAMILIES

    def build(self, folder: Path, seed: int = 0) -> Scenario:
        """The scenario itself. Raises MissingTrace."""
        match self.scenario:
            case "S1a" | "S1b" as name:
                build = s1a if name == "S1a" else s1b
                return build(folder, int(self.day), self.gpus, seed).scenario
            case "S2" | "S4" as name:
                of_day = scenarios.s2 if name == "S2" else scenarios.s4
                return of_day(folder, int(self.day), self.gpus, self.start_seconds)
            case "S3":
                return scenarios.s3(folder, self.gpus)
            case "S5" | "S6":
                day, _, zone = self.day.partition("-")
                nodes = elastic.s6(folder, int(day), zone, self.start_seconds, seed) if zone else None
                return nodes or elastic.s5(folder, int(day), self.start_seconds, seed)
            case "S7":
                surges = self.day == "generated"
                of = scenarios.s7(self.gpus, self.start_seconds, seed) if surges else None
                return of or scenarios.s7_code(folder, self.gpus, self.start_seconds)
            case family if family in FAMILIES:
                kind, _, number = self.day.partition("-")
                return families.world(family, TUNED_FROM + int(number) if kind == TUNED else seed, self.day)
        raise ValueError(f"no scenario {self.scenario}")


DEVELOPMENT_DAY = {
    "S1a": "8",
    "S1b": "8",
    "S2": "0",
    "S3": "0",
    "S4": "8",
    "S5": "0",
    "S6": "0-us-east-2b",  # of the zones the one in the middle: 6.2 of 8 machines are there on average
    "S7": "generated",
}
DEVELOPMENT_DAY |= dict.fromkeys(FAMILIES, f"{TUNED}-0")
# Of Faro's 1-8; all eight would take 2.7 times as long.
MORE_DAYS: dict[str, tuple[str, ...]] = {"S1a": ("2", "5"), "S1b": ("2", "5")}
MORE_DAYS |= dict.fromkeys(FAMILIES, tuple(f"{TUNED}-{number}" for number in range(1, TUNED_WORLDS)))
SPOT_ZONES = ("us-west-2a", "us-west-2c", "us-east-2b", "bamboo")
S2_GPUS = (28, 32, 36, 40, 48)
AMPLE = 48  # of S2's GPUs: from here on a start of 180 s differs from one of 60 s by less than chance


def cases() -> tuple[SuiteCase, ...]:
    """The scenarios with exact figures; the reported day first, the day that peers were tuned on beside it.

    Left out is what taught nothing when it was played: S1a's day 8, beside S1b's of the same jobs; S2 with 48 GPUs and
    180 s; S3 with 96 GPUs, which stands as 64 do; S4 with 30 s, where the order is that of 60 s; S6's day 0 in zones
    that nobody was tuned on; and more than one draw of S7 with 180 s, where a start takes a third of a surge.
    """
    return (
        *(
            SuiteCase(name, day, gpus, FARO_START_SECONDS, FARO_SEEDS)
            for name, days in (("S1a", ("11",)), ("S1b", ("11", "8")))
            for day in days
            for gpus in FARO_GPUS
        ),
        *(
            SuiteCase("S2", day, gpus, start)
            for day in "10"
            for gpus in S2_GPUS
            for start in ((60, 180) if gpus < AMPLE else (60,))
        ),
        SuiteCase("S3", "0", 64, 0),
        *(SuiteCase("S4", day, gpus, 60) for day in "98" for gpus in (24, 48)),
        *(
            SuiteCase("S5", day, elastic.RESERVED_GPUS, start, SURGE_SEEDS if day == "1" else (0,))
            for day in "10"
            for start in (60, 180)
        ),
        *(SuiteCase("S6", f"1-{zone}", 32, start) for zone in SPOT_ZONES for start in (60, 180)),
        *(SuiteCase("S6", DEVELOPMENT_DAY["S6"], 32, start) for start in (60, 180)),
        *(SuiteCase("S6", f"1-{elastic.CALM}", 32, start, SURGE_SEEDS) for start in (60, 180)),
        *(
            SuiteCase("S7", day, gpus, start, SURGE_SEEDS if (day, start) == ("generated", 60) else (0,))
            for day in ("azure-code", "generated")
            for gpus in (16, 24)
            for start in (60, 180)
        ),
    )


def given_cases() -> tuple[SuiteCase, ...]:
    """The scenarios that are also played with figures and metrics as users have them, on their reported days."""
    exact = (
        SuiteCase("S1b", "11", 32, FARO_START_SECONDS),
        *(SuiteCase("S2", "1", gpus, 60) for gpus in (28, 32, 40)),
        SuiteCase("S4", "9", 24, 60),
        *(SuiteCase("S7", "generated", gpus, 60, SURGE_SEEDS) for gpus in (16, 24)),
    )
    return tuple(replace(case, given=given) for case in exact for given in GIVEN.values() if given != EXACT)


def family_cases() -> tuple[SuiteCase, ...]:
    """The families of shapes, 50 worlds each."""
    seeds = tuple(range(WORLDS_OF_A_FAMILY))
    return tuple(SuiteCase(name, JUDGED, families.GPUS, families.START_SECONDS, seeds) for name in FAMILIES)


def every_case() -> tuple[SuiteCase, ...]:
    """The whole suite."""
    return *cases(), *given_cases(), *family_cases()


QUICK = {Budget("S1b", 32, FARO_START_SECONDS), Budget("S2", 32, 60), Budget("S7", 16, 60), Budget("S7", 24, 60)}
QUICK_GIVEN = "x0.5", "absent", "lag60", "gaps"  # on S7
QUICK_GIVEN_FAMILY = "swaps"  # with all other figures and metrics: two of its worlds cost half of what S7 does
QUICK_WORLDS = 2  # of a family


def quick_cases() -> tuple[SuiteCase, ...]:
    """A few of each kind: they say within minutes whether the suite still runs, and roughly where things stand."""
    plain = (case for case in cases() if case.budget in QUICK and case.day != "azure-code")
    of_families = [replace(case, seeds=case.seeds[:QUICK_WORLDS]) for case in family_cases()]
    rest = [given for name, given in GIVEN.items() if name not in {EXACT.name, *QUICK_GIVEN}]
    return (
        *(replace(case, seeds=case.seeds[:1]) for case in plain),
        *(SuiteCase("S7", "generated", 24, 60, given=GIVEN[name]) for name in QUICK_GIVEN),
        *of_families,
        *(replace(case, given=given) for case in of_families if case.scenario == QUICK_GIVEN_FAMILY for given in rest),
    )


def development(budget: Budget) -> SuiteCase:
    """The case that is told beside the reported one: the last that peers are tuned on."""
    given = EXACT if budget.figures else GIVEN["absent"]
    return SuiteCase(budget.scenario, DEVELOPMENT_DAY[budget.scenario], budget.gpus, budget.start_seconds, given=given)


def development_days(budget: Budget) -> tuple[SuiteCase, ...]:
    """The cases that peers are tuned on, by the mean over them."""
    last = development(budget)
    return *(replace(last, day=day) for day in MORE_DAYS.get(budget.scenario, ())), last


def budgets(of: Iterable[SuiteCase]) -> tuple[Budget, ...]:
    """The distinct budgets, in order."""
    return tuple(dict.fromkeys(case.budget for case in of))


def data_digest(scenario: Scenario) -> str:
    """A hash of what arrives, and of machines that come and go: results from other data are stale."""
    digest = sha256()
    if scenario.has_elastic:
        names = ("nodes", "elastic", "changes", "launches", "usd_per_gpu_hour", "elastic_usd_per_gpu_hour")
        digest.update(repr([getattr(scenario, name) for name in names]).encode())
    for model in scenario.models:
        digest.update(np.ascontiguousarray(model.work).tobytes())
        digest.update(np.ascontiguousarray(model.requests).tobytes())
        digest.update(repr([value for name, value in _fields(model)]).encode())
    return digest.hexdigest()[:DIGEST_LETTERS]


def _fields(model: ScenarioModel) -> list[tuple[str, object]]:
    names = [each.name for each in fields(model) if each.name not in {"work", "requests"}]
    return [(name, getattr(model, name)) for name in names]
