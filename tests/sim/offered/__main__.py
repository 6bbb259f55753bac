"""`python -m tests.sim.offered [--traces FOLDER]`: how far each path to the offered work is off, as tables."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from math import isnan
from pathlib import Path

from rebalancer.sim.traces.folder import traces_folder
from tests.sim.offered.judge import BUSY, ENGINES, PATHS, Cell, Ratio
from tests.sim.offered.traffic import TRAFFIC


def lines(folder: Path) -> Iterator[str]:
    """A table for each engine; a row for each traffic and load. Raises MissingTrace."""
    for engine_name, engine in ENGINES.items():
        yield f"\n## {engine_name}\n"
        yield f"| traffic | replicas, busy | {' | '.join(PATHS)} |"
        yield "|---|---|" + "---:|" * len(PATHS)
        for name, make in TRAFFIC.items():
            coming = make(folder)
            for busy in BUSY.values():
                cell = Cell(engine, coming, busy)
                ratios = " | ".join(_spelled(cell.ratio(path)) for path in PATHS.values())
                yield f"| {name} | {cell.replicas}, {cell.mean / cell.replicas:.2f} | {ratios} |"


def _spelled(ratio: Ratio) -> str:
    return "unknown" if isnan(ratio.middle) else f"{ratio.middle:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def main(arguments: Sequence[str]) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.offered", description=__doc__)
    parser.add_argument("--traces", type=Path, help="the folder of public traces")
    for line in lines(traces_folder(parser.parse_args(arguments).traces, os.environ)):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
