"""`python -m rebalancer.sim.suite`: play the suite, print its table, write its rows. `... tune` tunes the peers."""

import argparse
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rebalancer.loop.clock import RealClock
from rebalancer.sim.page.cases import cases_of
from rebalancer.sim.page.robust import robust
from rebalancer.sim.product.run import Actuation
from rebalancer.sim.suite.cases import SuiteCase, budgets, every_case, quick_cases
from rebalancer.sim.suite.gates import bound_kept
from rebalancer.sim.suite.given import EXACT, GIVEN
from rebalancer.sim.suite.names import UnknownController, called, kind
from rebalancer.sim.suite.names import chosen as named
from rebalancer.sim.suite.peers import BY_NAME, PEERS, Peer
from rebalancer.sim.suite.row import BOUND, OURS, Played
from rebalancer.sim.suite.run import Field, Planned, Task, plan_tasks, run_all, run_task
from rebalancer.sim.suite.table import finished, is_plain, table, write_rows
from rebalancer.sim.suite.tuning import TUNED_FILE, read_tuned, tune_all, write_tuned
from rebalancer.sim.suite.worlds import WORLDS
from rebalancer.sim.traces.folder import MissingTrace, traces_folder

QUICK_PEERS = ("static", "hpa", "keda", "foresight")
OUT = Path("build/bench/decisions.json")
WIDTH = 240  # of a table that no terminal shows
NO_TRACES = Path("no-traces")
ACTUATIONS: tuple[Actuation, ...] = ("scale", "bounds")


class NothingToPlay(ValueError):
    """A name that nothing has, or names that no run has together; the text says what there is."""


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 2 for an unknown name, where no run is left, or without the traces.

    The quick suite leaves out what needs traces.
    """
    chosen = _parser().parse_args(arguments)
    console = Console(width=WIDTH) if not sys.stdout.isatty() else Console()
    try:
        folder = _folder(chosen)
        if chosen.command == "tune":
            _tune(chosen, folder, console)
        else:
            _play(chosen, folder, console)
    except (MissingTrace, NothingToPlay, UnknownController) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def _folder(chosen: argparse.Namespace) -> Path:
    try:
        return traces_folder(chosen.traces, os.environ)
    except MissingTrace:
        if not chosen.quick:
            raise
        return NO_TRACES


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rebalancer.sim.suite", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("play", "tune"), default="play")
    parser.add_argument("--traces", type=Path, help="folder of traces; default: REBALANCER_TRACES")
    parser.add_argument("--quick", action="store_true", help="a few cases, the fluid world, KEDA and HPA, one seed")
    parser.add_argument("--scenarios", help="only these scenarios and families, such as S2,S7,swaps")
    parser.add_argument("--given", help=f"only with these figures and metrics, of {','.join(GIVEN)}")
    parser.add_argument("--controllers", help="only these, such as ours@bounds,keda,hpa:work@0.8,foresight")
    parser.add_argument("--worlds", help=f"only these of {','.join(WORLDS)}")
    parser.add_argument("--estimate", action="store_true", help="play nothing: print about what it would take")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one per core")
    parser.add_argument("--out", type=Path, default=OUT, help=f"default {OUT}; what was played is kept beside it")
    return parser


def _cases(chosen: argparse.Namespace) -> list[SuiteCase]:
    """Raises NothingToPlay for a scenario or a `given` that there is not."""
    every = quick_cases() if chosen.quick else every_case()
    scenarios = _chosen(chosen.scenarios, "scenario", dict.fromkeys(case.scenario for case in every))
    given = _chosen(chosen.given, "given", dict.fromkeys(case.given.name for case in every))
    return [case for case in every if case.scenario in scenarios and case.given.name in given]


def _chosen(names: str | None, what: str, there: Iterable[str]) -> list[str]:
    """The names between commas, all that there are where none was asked for. Raises NothingToPlay."""
    if names is None:
        return list(there)
    wanted = names.split(",")
    unknown = [name for name in wanted if name not in there]
    if unknown:
        raise NothingToPlay(f"no {what} {', '.join(map(repr, unknown))}; there are {', '.join(there)}")
    return wanted


def _names(chosen: argparse.Namespace) -> list[str]:
    if chosen.controllers:
        return list(chosen.controllers.split(","))
    return [OURS, *(QUICK_PEERS if chosen.quick else (*BY_NAME, BOUND))]


def _peers(kinds: Sequence[str]) -> tuple[Peer, ...]:
    return tuple(peer for peer in PEERS if peer.name in kinds)


def _play(chosen: argparse.Namespace, folder: Path, console: Console) -> None:
    clock = RealClock()
    started = clock.monotonic()
    planned = _plan(chosen, folder)
    if chosen.estimate:
        _estimate(planned, chosen.processes, console)
        return
    play = partial(run_task, folder=folder, results=chosen.out.with_suffix(".d"))
    results: dict[Task, Played] = {}
    for task, result in run_all(play, planned.tasks, chosen.processes):
        results[task] = result
        row = result.row
        where = f"{row.scenario} {row.day} {row.gpus} {row.start_seconds or '-'} {row.world}"
        where += "" if row.given == EXACT.name else f" {row.given}"
        console.print(f"{len(results)}/{len(planned.tasks)} {where} {called(row)} seed {row.seed}", highlight=False)
    in_order = [results[task] for task in planned.tasks]
    rows = finished(in_order)
    write_rows(rows, chosen.out)
    if any(is_plain(row) for row in rows):
        console.print(table(in_order))
    for text in robust(cases_of(rows, in_order)):
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    for holds, numbers in bound_kept(rows):
        if not holds:
            console.print(f"below the bound, so either of them is wrong: {numbers}", highlight=False)
    for line in planned.warnings:
        console.print(line, highlight=False)
    console.print(f"{chosen.out}: {len(rows)} rows, {clock.monotonic() - started:.0f} s", highlight=False)


def _plan(chosen: argparse.Namespace, folder: Path) -> Planned:
    """Raises NothingToPlay where no run is left; a name that others leave without a run is warned of."""
    kinds, settings = named(_names(chosen))
    actuations = tuple(each for each in ACTUATIONS if OURS in kinds or f"{OURS}@{each}" in kinds)
    wanted = _chosen("fluid" if chosen.quick and chosen.worlds is None else chosen.worlds, "world", WORLDS)
    worlds = tuple(world for world in WORLDS if world in wanted)
    field = Field(_peers(kinds), actuations, BOUND in kinds, worlds, settings)
    planned = plan_tasks(_cases(chosen), field, read_tuned(), folder, without_missing=chosen.quick)
    warnings = (*planned.warnings, *_without_run(chosen, kinds, planned.tasks))
    if not planned.tasks:
        raise NothingToPlay("\n".join(["nothing to play", *warnings]))
    return Planned(planned.tasks, warnings)


def _without_run(chosen: argparse.Namespace, kinds: Sequence[str], tasks: Sequence[Task]) -> Iterator[str]:
    """What was asked for by name and is in no run."""
    played = {
        name
        for task in tasks
        for name in (task.case.scenario, task.case.given.name, task.world, task.controller, kind(task.row))
    }
    lists = [names.split(",") for names in (chosen.scenarios, chosen.given, chosen.worlds) if names is not None]
    for name in dict.fromkeys([*itertools.chain(*lists), *(kinds if chosen.controllers else ())]):
        if name.removesuffix("@scale") not in played:
            yield f"{name}: in no run of what was asked for"


def _estimate(planned: Planned, processes: int, console: Console) -> None:
    """CPU seconds by scenario, world and controller."""
    out = Table("scenario", "world", "controller", "runs", "CPU s each", "CPU s", title="About what a run takes")
    by_kind: dict[tuple[str, str, str], list[float]] = {}
    for task in planned.tasks:
        by_kind.setdefault((task.case.scenario, task.world, kind(task.row)), []).append(task.cpu_seconds)
    for alike, seconds in by_kind.items():
        each = f"{min(seconds):.0f}" if max(seconds) - min(seconds) < 1 else f"{min(seconds):.0f}-{max(seconds):.0f}"
        out.add_row(*alike, str(len(seconds)), each, f"{sum(seconds):.0f}")
    console.print(out)
    whole = sum(task.cpu_seconds for task in planned.tasks)
    runs = len(planned.tasks)
    console.print(
        f"{runs} runs, {whole:.0f} CPU s: {whole / 3600 / processes:.1f} h on {processes} cores", highlight=False
    )
    for line in planned.warnings:
        console.print(line, highlight=False)


def _tune(chosen: argparse.Namespace, folder: Path, console: Console) -> None:
    clock = RealClock()
    started = last = clock.monotonic()
    wanted = budgets(_cases(chosen)), _peers(named(_names(chosen))[0]), read_tuned()
    for name, tuned in tune_all(folder, *wanted, chosen.processes):
        write_tuned({**read_tuned(), name: tuned})  # read again: another budget may be tuned beside this one
        took, last = clock.monotonic() - last, clock.monotonic()
        console.print(f"{name}: {tuned.tuning}, {100 * tuned.violation:.2f} % late, {took:.0f} s", highlight=False)
    console.print(f"{TUNED_FILE}: {clock.monotonic() - started:.0f} s", highlight=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
