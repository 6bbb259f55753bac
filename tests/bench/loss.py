"""`python -m tests.bench.loss [CASE ...]`: what late requests are made of, by cases of the suite.

CASE is SCENARIO/GPUS/START/DAY, as `S2/32/60/0`. Traces are read from REBALANCER_TRACES. Foresight and the service play
the case as it is and with replicas that start and end at once: what foresight then still loses, too few GPUs lose.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import get_context
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from rebalancer.sim.fluid.fast import play
from rebalancer.sim.limits.foresight import PerfectForesight, Utility
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.scenario import BY_MINUTE, Scenario
from rebalancer.sim.score import score
from rebalancer.sim.suite.cases import SuiteCase, cases
from rebalancer.sim.traces.folder import traces_folder
from tests.bench.guards import ALL, DEFAULT, NONE, Run

FORESIGHT = "foresight"


class Loss(NamedTuple):
    """Shares of late requests, by foresight and by the service; at once: without guards."""

    foresight_at_once: float
    foresight: float
    ours_at_once: float
    ours_unguarded: float
    ours: float

    @property
    def parts(self) -> dict[str, float]:
        """What they say one after the other; together `ours`."""
        unknown = self.ours_at_once - self.foresight_at_once
        return {
            "too few GPUs": self.foresight_at_once,
            "starts, though all is known": self.foresight - self.foresight_at_once,
            "not knowing, though starts are instant": unknown,
            "not knowing a start ahead": self.ours_unguarded - self.foresight - unknown,
            "guards": self.ours - self.ours_unguarded,
        }


class Part(NamedTuple):
    """One run of a case: by `who` (foresight, or the service under ALL or NONE of its guards)."""

    case: SuiteCase
    who: str
    at_once: bool


def parts_of(case: SuiteCase) -> list[Part]:
    """The runs whose results make a `Loss`, in its order."""
    return [
        Part(case, FORESIGHT, at_once=True),
        Part(case, FORESIGHT, at_once=False),
        Part(case, NONE, at_once=True),
        Part(case, NONE, at_once=False),
        Part(case, ALL, at_once=False),
    ]


def at_once(scenario: Scenario) -> Scenario:
    """With replicas that start within a second, and end so."""
    models = [
        replace(model, start_seconds=1, release_seconds=min(model.release_seconds, 1)) for model in scenario.models
    ]
    return replace(scenario, models=tuple(models))


def late(part: Part) -> float:
    """Share of late requests."""
    scenario = part.case.build(traces_folder(None, os.environ))
    if part.at_once:
        scenario = at_once(scenario)
    if part.who == FORESIGHT:
        utility = Utility() if scenario.name in BY_MINUTE else None
        return score(play(scenario, PerfectForesight(utility), FORESIGHT)).violation
    return score(play_product(scenario, Run(part.case, part.who).policy(default_policy(scenario)))).violation


def table(found: dict[SuiteCase, Loss]) -> Table:
    """A row per case, in per cent of requests."""
    names = [*next(iter(found.values())).parts, "together"]
    out = Table("case", *names, title="late, %")
    for case, loss in found.items():
        shares = [*loss.parts.values(), loss.ours]
        out.add_row(f"{case.budget}/{case.day}", *(f"{100 * share:.2f}" for share in shares))
    return out


def main(arguments: Sequence[str]) -> int:
    """Plays three runs of the service a case: half a minute of processor time each for a day of three models."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.loss", description=__doc__)
    parser.add_argument("cases", nargs="*", default=DEFAULT)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(arguments)
    known = {f"{case.budget}/{case.day}": case for case in cases()}
    mine = [known[name] for name in chosen.cases]
    with get_context("spawn").Pool(chosen.processes) as pool:
        found = dict(zip(mine, [Loss(*pool.map(late, parts_of(case), chunksize=1)) for case in mine], strict=True))
    Console(width=200).print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
