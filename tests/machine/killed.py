"""The service dies before or after one of its side effects, in virtual time; the next process begins with what is kept.

`python -m tests.machine.killed --seeds 20` prints the page of all of them. A process that is dead does nothing more:
whatever of it still runs, side by side with what ended, meets the same end.
"""

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple, get_args

from rebalancer.obs.effects import WATCH, When
from rebalancer.sim.product.clock import still
from tests.machine.__main__ import history_of
from tests.machine.deeds import DEEDS
from tests.machine.histories import QUIET_STEP_SECONDS, QUIET_STEPS, REST_SECONDS, History, Played
from tests.machine.page import commit_now
from tests.machine.quiet import be_quiet
from tests.machine.stage import STEP_SECONDS, Stage

OF_TARGETS = ("kube/update/scale", "kube/patch/scaledobjects", "kube/patch/horizontalpodautoscalers")
EFFECTS = (
    *OF_TARGETS,
    "kube/patch/nodepools",
    "kube/patch/pods",
    "kafka/decisions/intent",
    "kafka/decisions/outcome",
    "kafka/decisions/cycle",
    "kafka/state/memory",
)
TRIED = 60
"""Histories that are tried for one that comes to an effect: not each world has a NodePool."""


class Killed(BaseException):
    """The process has ended."""


@dataclass
class Life:
    """Watches one process: it ends at the `nth` time of an effect, and whatever it does after that ends, too."""

    effect: str
    nth: int
    when: When
    over: bool = False
    times: Counter[tuple[str, When]] = field(default_factory=Counter)

    def __call__(self, name: str, _key: str, when: When) -> None:
        self.times[name, when] += 1
        if self.over or (name == self.effect and when == self.when and self.times[name, when] == self.nth):
            self.over = True
            raise Killed


class Death(NamedTuple):
    """Where a process ends."""

    effect: str
    nth: int
    when: When


@contextmanager
def watched(life: Life) -> Iterator[None]:
    """Everything that begins inside is that process's."""
    token = WATCH.set(life)
    try:
        yield
    finally:
        WATCH.reset(token)


def play_killed(history: History, death: Death) -> tuple[Played, int]:
    """Live through it, with a death wherever that effect comes for the nth time in a life; how many there were."""
    with still() as runner:
        return runner.run(_play(history, death))


async def _play(history: History, death: Death) -> tuple[Played, int]:
    mortal = Mortal(Stage(history.spec), death)
    stage = mortal.stage
    for step in range(history.steps):
        for deed in (deed for deed in history.deeds if deed.step == step):
            touched = DEEDS[deed.name](stage, deed.x, deed.y)
            if touched is not None:
                stage.oracle.touched(touched)
                stage.calm.disturbed()
        await mortal.step(STEP_SECONDS)
    stage.heal()
    stage.oracle.touched(stage.everything)
    mortal.life = Life("", 1, "after")
    for _ in range(2):  # as every history ends
        for _ in range(QUIET_STEPS):
            await mortal.step(QUIET_STEP_SECONDS)
        if stage.oracle.quiet_seconds >= REST_SECONDS:
            break
    stage.oracle.judge_rest(REST_SECONDS)
    verdict = next(iter(stage.oracle.verdicts), None)
    return Played(steps=stage.steps, counts=stage.oracle.counts, verdict=verdict), mortal.deaths


@dataclass
class Mortal:
    """A stage whose service dies wherever an effect comes for the nth time in a life; `deaths`: how often it has."""

    stage: Stage
    death: Death
    deaths: int = 0
    life: Life = field(init=False)

    def __post_init__(self) -> None:
        self.life = Life(*self.death)

    async def step(self, seconds: float) -> None:
        """One step, to its end or to the death in it; then the next process has started from what is kept.

        After a verdict nothing happens any more.
        """
        stage = self.stage
        if stage.oracle.verdicts:
            return
        with _suppressed(), watched(self.life):
            await stage.live(seconds)
        if not self.life.over:
            return
        stage.oracle.handing_back = False
        stage.oracle.touched(stage.everything)
        stage.calm.disturbed()
        stage.restart(0, disk_lost=self.death.nth % 2 == 0, large=False)
        stage.world.advance(stage.world.now)
        stage.steps += 1
        self.deaths += 1
        self.life = Life(*self.death)


@contextmanager
def _suppressed() -> Iterator[None]:
    """Alone, or in the group that a TaskGroup makes of it."""
    try:
        yield
    except* Killed:
        pass


class Row(NamedTuple):
    """What became of one effect: histories, deaths in them, and what was broken, by seed."""

    effect: str
    when: When
    histories: int
    deaths: int
    broken: tuple[str, ...]


def tried(effect: str, when: When, seeds: int) -> Row:
    """Die there in `seeds` histories that come to it."""
    numbers = range(1, TRIED * max(1, seeds // 20) + 1)
    plays = ((seed, *play_killed(history_of(seed), Death(effect, 1 + seed % 3, when))) for seed in numbers)
    return row_of(effect, when, seeds, ((seed, played.verdict, died) for seed, played, died in plays))


def row_of(effect: str, when: When, seeds: int, plays: Iterable[tuple[int, object, int]]) -> Row:
    """The row of plays, each its seed, what was broken (None: nothing) and how often somebody died there."""
    histories, deaths, broken = 0, 0, list[str]()
    for seed, verdict, died in plays:
        histories, deaths = histories + (died > 0), deaths + died
        if died and verdict is not None:
            broken.append(f"seed {seed}: {verdict}")
        if histories == seeds:
            break
    return Row(effect, when, histories, deaths, tuple(broken))


def main() -> None:
    """The page."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine.killed", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="histories for each effect")
    parser.add_argument("--only", default="", metavar="WORD", help="effects with this word")
    options = parser.parse_args()
    be_quiet()
    points = itertools.product((each for each in EFFECTS if options.only in each), get_args(When))
    tell("tests.machine.killed", (tried(*point, options.seeds) for point in points))


def tell(module: str, rows: Iterable[Row]) -> None:
    """The page of these, row by row as they come."""
    began, commit = time.perf_counter(), commit_now()
    lines = [
        f"python -m {' '.join([module, *sys.argv[1:]])}",
        f"commit {commit}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",  # noqa: TID251  # when it was
        "",
        "| effect | killed | histories | deaths | broken |",
        "| --- | --- | --- | --- | --- |",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    for row in rows:
        broken = "; ".join(row.broken) or "nothing"
        sys.stdout.write(f"| `{row.effect}` | {row.when} | {row.histories} | {row.deaths} | {broken} |\n")
        sys.stdout.flush()
    sys.stdout.write(f"\n{time.perf_counter() - began:.0f} s\n")


if __name__ == "__main__":
    main()
