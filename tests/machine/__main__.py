"""Random histories against the oracle: `python -m tests.machine --steps 1000000 --seed 1`, or one of them told."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from math import inf

from msgspec.structs import replace

from tests.machine.deeds import APART, DEEDS
from tests.machine.histories import History, Played, Watch, a_history, nobody, play, play_apart, play_restarted
from tests.machine.page import Found, commit_now, page
from tests.machine.quiet import be_quiet
from tests.machine.recipes import RECIPES, turns
from tests.machine.shrink import shrunk, told

COOKED_EVERY = 3
APART_EVERY = 5  # histories: of so many one is played in two worlds, and another with a restart in one of two


def history_of(seed: int, without: tuple[str, ...] = ()) -> History:
    """The history of that seed; every fifth is of two pools that share nothing, of the others every third a recipe."""
    apart = seed % APART_EVERY == 0
    names = [name for name in (APART if apart else DEEDS) if not any(word in name for word in without)]
    cooked = [] if apart or seed % COOKED_EVERY else [name for name in RECIPES if _made_of(name, names)]
    if seed % APART_EVERY == 1:
        cooked = [name for name in cooked if "service restarts" in turns(name)]
    history = a_history(seed, apart=apart, names=names, cooked=cooked)
    return replace(history, deeds=tuple(deed for deed in history.deeds if deed.name in names))


def _made_of(recipe: str, names: list[str]) -> bool:
    return turns(recipe) <= {*names}


def played(history: History, watch: Watch = nobody) -> Played:
    """By its kind."""
    kind = history.spec.seed % APART_EVERY
    playing = play_apart if kind == 0 else play_restarted if kind == 1 else play
    return playing(history, watch)


def one(job: tuple[int, tuple[str, ...], bool]) -> tuple[Played, Found | None]:
    """Play one seed, and shorten what is broken."""
    seed, without, shorten = job
    be_quiet()
    history = history_of(seed, without)
    result = played(history)
    if result.verdict is None:
        return result, None
    short = shrunk(history, result.verdict.rule, 60, played) if shorten else history
    verdict = played(short).verdict or result.verdict
    return result, Found(seed, verdict, [f"{deed.name}{', late' if deed.late else ''}" for deed in short.deeds])


def results(options: argparse.Namespace) -> Iterator[tuple[Played, Found | None]]:
    """Seed after seed, as they come."""
    jobs = ((seed, tuple(options.without), options.shrink) for seed in count(options.seed))
    if options.processes == 1:
        yield from map(one, jobs)
        return
    with ProcessPoolExecutor(options.processes) as pool:
        while True:
            yield from pool.map(one, islice(jobs, 64))


def run(options: argparse.Namespace) -> int:
    """Play until there were that many steps, or the minutes are over; print a page. The number of broken histories."""
    began, commit = time.perf_counter(), commit_now()
    steps, histories, seconds, found = 0, 0, 0.0, list[Found]()
    met, counts = Counter[str](), Counter[str]()
    for result, broken in results(options):
        steps, histories = steps + result.steps, histories + 1
        met, counts = met + result.met, counts + result.counts
        if broken is not None:
            found.append(broken)
            say(str(broken))
        seconds = time.perf_counter() - began
        if steps >= options.steps or seconds >= 60 * options.minutes or (options.first and found):
            break
    say(page(sys.argv[1:], commit, steps, histories, seconds, met, counts, found))
    return len(found)


def say(text: str) -> None:
    """To whoever waits at the terminal."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine", description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000, help="at least so many")
    parser.add_argument("--minutes", type=float, default=inf, help="at most so long")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--without", action="append", default=[], metavar="WORD", help="no deeds with this word")
    parser.add_argument("--shrink", action="store_true", help="shorten every history that breaks a rule")
    parser.add_argument("--first", action="store_true", help="end with the first that does")
    parser.add_argument("--tell", action="store_true", help="shorten the history of --seed, and tell it")
    options = parser.parse_args()
    be_quiet()
    if options.tell:
        history = history_of(options.seed, tuple(options.without))
        result = played(history)
        short = history if result.verdict is None else shrunk(history, result.verdict.rule, 80, played)
        say("\n".join(told(short, played)))
        return
    sys.exit(1 if run(options) else 0)


if __name__ == "__main__":
    main()
