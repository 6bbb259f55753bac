"""The leader dies before or after one of its side effects, and the standby takes over, in virtual time.

`python -m tests.schedules.killed --seeds 20` prints the page of all effects that pass in these worlds. The standby dies
there, too, once it comes to it; then a process that has begun meanwhile goes on for a while.
"""

import argparse
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, get_args

from rebalancer.obs.effects import When
from tests.machine.killed import Death, Row, row_of, tell
from tests.machine.quiet import be_quiet
from tests.schedules.__main__ import collect_seldom
from tests.schedules.faults import OF_THE_WORLD
from tests.schedules.play import Length, Played, Schedule, a_schedule, play
from tests.schedules.stage import Stage
from tests.schedules.virtual import Host

LENGTH: Final = Length((160.0,), (4.0, 8.0), settled_seconds=60.0, rest_seconds=60.0)
AGAIN_SECONDS: Final = 40.0  # by then one of those that have begun after a death leads
ONCE: Final = frozenset({"kube/create/leases", "kafka/decisions/policy", "kafka/state/policy"})
"""At most once while somebody leads."""
TRIED: Final = 3
"""Schedules that are tried for each one that comes to an effect."""


def a_disturbed_world(seed: int) -> Schedule:
    """What befalls the cluster in the schedule of that seed; replicas and their links are left alone."""
    drawn = a_schedule(seed, LENGTH)
    faults = tuple(fault for fault in drawn.faults if fault.name in OF_THE_WORLD)
    return Schedule(drawn.spec, faults, drawn.seconds, LENGTH)


def passing(seeds: int) -> tuple[str, ...]:
    """The effects that are come to in so many of these worlds, with nobody dying."""
    names: set[str] = set()

    def watches(name: str, _when: When) -> bool:
        names.add(name)
        return False

    def begun(stage: Stage) -> None:
        for host in hosts(stage):
            host.dies = watches

    for seed in range(1, seeds + 1):
        play(a_disturbed_world(seed), begun)
    return tuple(sorted(names))


def hosts(stage: Stage) -> list[Host]:
    """The processes that run now."""
    return [seat.host for seat in stage.seats if seat.host is not None]


@dataclass
class Mortal:
    """Each process dies at the nth time of an effect since it was armed: two at the begin, and who runs at times.

    death: where.
    until: second from which on nobody is armed any more.
    deaths: how often somebody died there.
    _armed: processes that were.
    """

    death: Death
    until: float
    deaths: int = 0
    _armed: set[str] = field(default_factory=set)

    def arms(self, stage: Stage) -> None:
        """Now, and again every `AGAIN_SECONDS`: those that are not armed yet."""
        for host in hosts(stage):
            if host.name not in self._armed:
                self._armed.add(host.name)
                host.dies = self._mortal()
        if stage.loop.time() + AGAIN_SECONDS < self.until:
            stage.loop.elsewhere(AGAIN_SECONDS, lambda: self.arms(stage))

    def _mortal(self) -> Callable[[str, When], bool]:
        left = self.death.nth

        def dies(name: str, when: When) -> bool:
            nonlocal left
            left -= (name, when) == (self.death.effect, self.death.when)
            self.deaths += left == 0
            return left == 0

        return dies


def play_killed(schedule: Schedule, death: Death) -> tuple[Played, int]:
    """Live through it; how often somebody died there. From when all is healed on nobody does."""
    mortal = Mortal(death, schedule.seconds)
    return play(schedule, mortal.arms), mortal.deaths


def tried(effect: str, when: When, seeds: int) -> Row:
    """Die there in `seeds` schedules that come to it."""
    deaths = (
        (seed, Death(effect, 1 if effect in ONCE else 1 + seed % 3, when)) for seed in range(1, TRIED * seeds + 1)
    )
    plays = ((seed, *play_killed(a_disturbed_world(seed), death)) for seed, death in deaths)
    return row_of(effect, when, seeds, ((seed, played.verdict, died) for seed, played, died in plays))


def main() -> None:
    """The page."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.killed", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="schedules for each effect")
    parser.add_argument("--only", default="", metavar="WORD", help="effects with this word")
    options = parser.parse_args()
    be_quiet()
    collect_seldom()
    names = (name for name in passing(options.seeds) if options.only in name)
    points = itertools.product(names, get_args(When))
    tell("tests.schedules.killed", (tried(*point, options.seeds) for point in points))


if __name__ == "__main__":
    main()
