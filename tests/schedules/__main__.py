"""Random schedules of faults: `python -m tests.schedules --schedules 1000 --seed 1`, or one of them told."""

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from itertools import islice
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from tests.machine.page import commit_now
from tests.machine.quiet import be_quiet
from tests.machine.shrink import fewest
from tests.machine.verdicts import Verdict
from tests.schedules.faults import KINDS, OF_WIDE, Fault
from tests.schedules.play import BRIEF, LONG, WIDE, Length, Played, Schedule, a_schedule, play

MOST_TRIES = 60


class Broken(NamedTuple):
    """A schedule that broke a rule, and what of it does so."""

    seed: int
    verdict: Verdict
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}: {self.verdict}", *(f"    {told(fault)}" for fault in self.faults)])


def told(fault: Fault) -> str:
    """One line, from which it can be made again."""
    return f"Fault({fault.at}, {fault.name!r}, {fault.whom!r}, {fault.x!r}, {fault.y!r})"


def shortened(schedule: Schedule, rule: str) -> Schedule:
    """Fewer faults that break the same rule."""

    def breaks(faults: tuple[Fault, ...]) -> bool:
        verdict = play(replace(schedule, faults=faults)).verdict
        return verdict is not None and verdict.rule == rule

    return replace(schedule, faults=fewest(schedule.faults, breaks, MOST_TRIES))


def one(job: tuple[int, Length, bool]) -> tuple[Played, Broken | None]:
    """Play one seed, and shorten what is broken if that is asked for."""
    seed, length, shorten = job
    be_quiet()
    schedule = a_schedule(seed, length)
    played = play(schedule)
    if played.verdict is None:
        return replace(played, trace=()), None
    short = shortened(schedule, played.verdict.rule) if shorten else schedule
    verdict = (play(short).verdict if shorten else None) or played.verdict
    return replace(played, trace=()), Broken(seed, verdict, short.faults if shorten else ())


def length_of(options: argparse.Namespace) -> Length:
    """Of each schedule."""
    return WIDE if options.wide else BRIEF if options.brief else LONG


def collect_seldom() -> None:
    """A tenth of the time goes into looking for cycles in what was imported; what a schedule leaves is little."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def results(options: argparse.Namespace) -> Iterator[tuple[Played, Broken | None]]:
    """Seed after seed, as they come."""
    seeds = range(options.seed, options.seed + options.schedules)
    jobs = ((seed, length_of(options), options.shrink) for seed in seeds)
    if options.processes == 1:
        yield from map(one, jobs)
        return
    with ProcessPoolExecutor(options.processes, initializer=collect_seldom) as pool:
        while some := list(islice(jobs, 64)):
            yield from pool.map(one, some)


def run(options: argparse.Namespace) -> int:
    """Play so many, or for so long; print a page. The number of broken ones."""
    began, commit = time.perf_counter(), commit_now()
    number, virtual, met, hit, counts = 0, 0.0, Counter[str](), Counter[str](), Counter[str]()
    broken: list[Broken] = []
    for played, verdict in results(options):
        number, virtual = number + 1, virtual + played.seconds
        met, hit, counts = met + played.met, hit + Counter(played.met.keys()), counts + played.counts
        if verdict is not None:
            broken.append(verdict)
            say(str(verdict))
        if time.perf_counter() - began > options.seconds:
            break
    seconds = time.perf_counter() - began
    rules = Counter(each.verdict.rule for each in broken)
    say(f"python -m {' '.join(['tests.schedules', *sys.argv[1:]])}")
    say(f"commit {commit}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")  # noqa: TID251  # when it was
    say(f"{number} schedules, {virtual / 3600:.1f} h of virtual time, {seconds:.0f} s")
    say("\nfaults that met something, in so much of the schedules, and how often:")
    for name in (*KINDS, *OF_WIDE) if options.wide else KINDS:
        say(f"  {100 * hit[name] / number:5.1f} %  {met[name]:7d}  {name}")
    say("\nwhat the service did: " + ", ".join(f"{amount} {name}" for name, amount in sorted(counts.items())))
    say("broken: " + (", ".join(f"({rule}) {amount}" for rule, amount in sorted(rules.items())) or "nothing"))
    return len(broken)


def say(text: str) -> None:
    """To whoever waits at the terminal."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules", description=__doc__)
    parser.add_argument("--schedules", type=int, default=200, help="so many")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="few faults in little time: three of them for one")
    parser.add_argument("--wide", action="store_true", help="brief ones in which people act and journals are kept, too")
    parser.add_argument("--seconds", type=float, default=inf, help="no more of them after so long")
    parser.add_argument("--shrink", action="store_true", help="shorten every schedule that breaks a rule")
    parser.add_argument(
        "--tell", action="store_true", help="tell the schedule of --seed, shortened if it breaks a rule"
    )
    options = parser.parse_args()
    be_quiet()
    if not options.tell:
        sys.exit(1 if run(options) else 0)
    schedule = a_schedule(options.seed, length_of(options))
    verdict = play(schedule).verdict
    if verdict is not None:
        schedule = shortened(schedule, verdict.rule)
    say(f"{schedule.spec}")
    say("\n".join([*map(told, schedule.faults), *play(schedule).trace]))


if __name__ == "__main__":
    main()
