"""`python -m tests.bench.day [CASE]`: processor seconds of the service's simulated day, and where they go.

CASE is one of the suite's, as `S2/32/60/1` (budget, GPUs, start, day). Its traces are read from REBALANCER_TRACES.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar
from unittest.mock import patch

from rebalancer.act.gate import Gate
from rebalancer.loop import cycle
from rebalancer.obs.recorder import Recorder
from rebalancer.planning import Unexplained
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.product.ears import Ears
from rebalancer.sim.product.run import Actuation
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.suite.cases import cases
from rebalancer.state import ClusterState
from tests.bench.timing import noise

P = ParamSpec("P")
R = TypeVar("R")

WARM_UP_SECONDS = 30  # of virtual time: kernels are read from their cache
PARTS = (
    ("snapshot", ClusterState, "snapshot"),
    ("plan", cycle, "decide_apart"),
    ("explanation", Unexplained, "explained"),
    ("journal", Recorder, "cycle"),
    ("events", Ears, "hear"),
)


@dataclass(slots=True)
class Spent:
    """Processor seconds and calls of one part."""

    seconds: float = 0.0
    calls: int = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """What happens within is this part's."""
        began = time.process_time()
        try:
            yield
        finally:
            self.seconds += time.process_time() - began
            self.calls += 1

    def of(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, its calls counted."""

        def counted(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.counting():
                return function(*args, **kwargs)

        return counted

    def of_awaited(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        """The same; in virtual time nothing else happens while it is awaited."""

        async def counted(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.counting():
                return await function(*args, **kwargs)

        return counted


def day(scenario: Scenario, actuation: Actuation, journal: Path | None) -> dict[str, Spent]:
    """Processor seconds of one run by part: `world` is what is left of `all`."""
    policy = default_policy(scenario, actuation)
    play_product(replace(scenario, seconds=WARM_UP_SECONDS), policy, actuation)
    spent = {name: Spent() for name, _, _ in PARTS} | {"gate": Spent()}
    whole = Spent()
    with ExitStack() as patched, whole.counting():
        for name, owner, function in PARTS:
            patched.enter_context(patch.object(owner, function, spent[name].of(getattr(owner, function))))
        patched.enter_context(patch.object(Gate, "apply", spent["gate"].of_awaited(Gate.apply)))
        play_product(scenario, policy, actuation, journal=journal)
    rest = whole.seconds - sum(part.seconds for part in spent.values())
    return spent | {"world": Spent(rest, scenario.seconds), "all": whole}


def main() -> None:
    """Measure and tell."""
    known = {f"{case.budget}/{case.day}": case for case in cases()}
    arguments = argparse.ArgumentParser(prog="python -m tests.bench.day", description=__doc__)
    arguments.add_argument("case", nargs="?", default="S2/32/60/1", choices=known, metavar="CASE")
    arguments.add_argument("--actuation", choices=("scale", "bounds"), default="scale")
    arguments.add_argument("--seconds", type=int, help="only the first of them")
    arguments.add_argument("--journal", action="store_true", help="write one, as the service does")
    given = arguments.parse_args()
    folder = os.environ.get("REBALANCER_TRACES")
    if folder is None:
        sys.exit("REBALANCER_TRACES names no folder of traces")
    scenario = known[given.case].build(Path(folder))
    scenario = replace(scenario, seconds=given.seconds or scenario.seconds)
    with tempfile.TemporaryDirectory() as kept:
        found = day(scenario, given.actuation, Path(kept) / "journal.jsonl" if given.journal else None)
    print(
        f"{given.case}, {len(scenario.models)} models, {scenario.seconds:,} s, actuation {given.actuation}; {noise()}"
    )
    for name, part in found.items():
        each = f"{part.seconds / part.calls * 1e6:9.0f} us x {part.calls:,}" if part.calls > 1 else ""
        print(f"{name:10} {part.seconds:6.1f} s {part.seconds / found['all'].seconds:5.0%} {each}")


if __name__ == "__main__":
    main()
