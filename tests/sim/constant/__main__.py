"""`python -m tests.sim.constant [--worlds 10000] [--first 0] [--votes]`: how many windows of constant load hold."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from multiprocessing import get_context

from tests.sim.constant.worlds import Life, live


def told(lives: Iterable[Life]) -> str:
    """The result as a table, then the worlds with the most broken windows."""
    found = list(lives)
    windows, broken = sum(life.windows for life in found), sum(life.broken for life in found)
    rows = [
        ("worlds", f"{len(found)}"),
        ("windows", f"{windows}"),
        ("windows with more than one move", f"{broken} ({broken / max(1, windows):.3%})"),
        ("worlds without such a window", f"{sum(life.broken == 0 for life in found)}"),
        ("moves per world in 15 minutes", f"{sum(life.moves for life in found) / max(1, len(found)):.2f}"),
        ("most moves in a world", f"{max(life.moves for life in found)}"),
        ("late requests, mean of the worlds", f"{sum(life.late for life in found) / max(1, len(found)):.2%}"),
    ]
    worst = sorted(found, key=lambda life: (-life.broken, life.seed))[:10]
    lines = ["| what | of all |", "|---|---:|", *(f"| {name} | {value} |" for name, value in rows), ""]
    lines += ["| seed | GPUs | busy | own | moves | broken windows |", "|---:|---:|---|---|---|---:|"]
    return "\n".join([*lines, *(_row(life) for life in worst)])


def _row(life: Life) -> str:
    busy = ", ".join(f"{course.busy:.2f}" for course in life.courses)
    own = ", ".join(str(course.own) for course in life.courses)
    moves = ", ".join(str(len(course.moves)) for course in life.courses)
    return f"| {life.seed} | {life.gpus} | {busy} | {own} | {moves} | {life.broken} of {life.windows} |"


def main(arguments: Sequence[str]) -> int:
    """Plays the worlds; the exit code says whether 99 % of the windows hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.constant", description=__doc__)
    parser.add_argument("--worlds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first world")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--votes", action="store_true", help="the same worlds without look-ahead, decided by votes")
    chosen = parser.parse_args(arguments)
    lives: list[Life] = []
    lived, seeds = partial(live, look_ahead=not chosen.votes), range(chosen.first, chosen.first + chosen.worlds)
    with get_context("spawn").Pool(chosen.processes) as pool:
        for life in pool.imap(lived, seeds):
            lives.append(life)
            if len(lives) % 100 == 0:
                sys.stdout.write(f"{len(lives)} worlds, {sum(one.broken for one in lives)} broken windows\n")
                sys.stdout.flush()
    sys.stdout.write(told(lives) + "\n")
    return int(sum(life.broken for life in lives) > 0.01 * sum(life.windows for life in lives))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
