"""`python -m tests.bench.guards [CASE ...]`: what each guard costs, by cases of the suite with it on and without it.

CASE is SCENARIO/GPUS/START/DAY, as `S2/32/60/0`. Traces are read from REBALANCER_TRACES. A guard that has no effect
where nothing is wrong costs nothing here: what it is worth when something is, its tests and mutants say.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context

from rich.console import Console
from rich.table import Table

from rebalancer.domain.part import Part
from rebalancer.domain.policy import (
    AgreeRule,
    BlindRule,
    PlausibleRule,
    Policy,
    RateLimit,
    StartRule,
    SuddenRule,
)
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.score import score
from rebalancer.sim.suite.cases import SuiteCase, cases
from rebalancer.sim.suite.tuning import read_tuned
from rebalancer.sim.traces.folder import traces_folder

DEFAULT = ("S2/32/60/0", "S2/40/60/0", "S7/24/60/generated", "S7/16/60/generated", "S1b/32/35/8")
NO_LIMIT = RateLimit(share=1.0, window_seconds=1.0)
WEEK_SECONDS = 604_800.0
ALL, NONE = "all on", "all off"
WITHOUT: dict[str, Part] = {
    "step": NO_LIMIT,
    "fleet": NO_LIMIT,
    "shift": NO_LIMIT,
    "blind": BlindRule(stale_seconds=WEEK_SECONDS, min_coverage=0.0),
    "agree": AgreeRule(votes=1),
    "plausible": PlausibleRule(times=10_000.0),
    "sudden": SuddenRule(drop=0.999_999, models=0.999_999),
    "start": StartRule(metric_intervals=1),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One case under one set of guards: `guard` off, `ALL` on or `NONE`."""

    case: SuiteCase
    guard: str

    def policy(self, policy: Policy) -> Policy:
        """`policy` with the guards of this run."""
        off = WITHOUT.items() if self.guard == NONE else [(self.guard, WITHOUT.get(self.guard))]
        update = {name: rule for name, rule in off if rule is not None}
        return policy.model_copy(update={"guards": policy.guards.model_copy(update=update)})


def violation(run: Run) -> float:
    """Share of late requests."""
    scenario = run.case.build(traces_folder(None, os.environ))
    return score(play_product(scenario, run.policy(default_policy(scenario)))).violation


def played(runs: Sequence[Run], processes: int) -> Iterator[tuple[Run, float]]:
    """In order, as they end."""
    with get_context("spawn").Pool(processes) as pool:
        yield from zip(runs, pool.imap(violation, runs), strict=True)


def best_peer(case: SuiteCase) -> float | None:
    """Of the tuned ones that know no future, on the days they were tuned on."""
    found = [
        tuned.violation
        for name, tuned in read_tuned().items()
        if name.startswith(f"{case.budget}/") and not name.endswith("/faro")
    ]
    return min(found, default=None)


def table(cases_played: Sequence[SuiteCase], found: dict[Run, float]) -> Table:
    """A column per case: late requests in percent with all guards, and how many points fewer without one."""
    out = Table("guard off", *(f"{case.budget}/{case.day}" for case in cases_played), title="late, % (points less)")
    for guard in (ALL, *WITHOUT, NONE):
        row = []
        for case in cases_played:
            late, with_all = found[Run(case, guard)], found[Run(case, ALL)]
            row.append(f"{100 * late:.3f}" if guard == ALL else f"{100 * late:.3f} ({100 * (with_all - late):+.3f})")
        out.add_row(guard, *row)
    row = []
    for case in cases_played:
        peer, without = best_peer(case), found[Run(case, NONE)]
        gain = None if peer is None else peer - without
        costs = found[Run(case, ALL)] - without
        row.append("-" if not gain or gain <= 0.0 else f"{costs / gain:.0%} of {100 * gain:.2f}")
    out.add_row("cost of all, of the gain over the best peer", *row)
    return out


def main(arguments: Sequence[str]) -> int:
    """Plays ten runs a case: half a minute of processor time each for a day of three models."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.guards", description=__doc__)
    parser.add_argument("cases", nargs="*", default=DEFAULT)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(arguments)
    known = {f"{case.budget}/{case.day}": case for case in cases()}
    mine = [known[name] for name in chosen.cases]
    runs = [Run(case, guard) for case in mine for guard in (ALL, *WITHOUT, NONE)]
    found: dict[Run, float] = {}
    for run, late in played(runs, chosen.processes):
        found[run] = late
        sys.stdout.write(f"{len(found)}/{len(runs)} {run.case.budget}/{run.case.day} {run.guard}: {100 * late:.3f} %\n")
        sys.stdout.flush()
    Console(width=200).print(table(mine, found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
