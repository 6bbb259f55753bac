"""What spoiled records did to each decoder, and what the API answered to requests drawn from its OpenAPI document.

The exit code is the number of records and requests that broke something.
"""

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import NamedTuple

from tests.api.living import living_service
from tests.fuzz.api import CASES, SPEED, Answers, Asker
from tests.fuzz.decoders import DECODERS
from tests.fuzz.plays import play
from tests.machine.page import commit_now
from tests.machine.quiet import be_quiet

RESULTS = Path(__file__).parent / "results"
API = "api"
DECODERS_ALONE = "decoders"
_LONGEST = 2000


class Row(NamedTuple):
    """A line of a table, how many cases it stands for, and each way in which some of them broke something."""

    line: str
    cases: int
    breaks: list[str]


def records(cases: int, seed: int, only: str) -> Iterator[Row]:
    """Of each decoder."""
    for decoder in DECODERS:
        if only in {"", DECODERS_ALONE, decoder.name}:
            played = play(decoder, cases, seed)
            line = f"| {decoder.name} | {played.cases:,} | {len(played.broke)} | {len(played.slow)} |"
            kinds = {why: record for record, why in played.broke}
            slow = [f"{seconds:.2f} s: {record[:_LONGEST]!r}" for record, seconds in played.slow]
            yield Row(line, played.cases, [*(f"{why}: {record[:_LONGEST]!r}" for why, record in kinds.items()), *slow])


def requests(cases: int, seed: int, processes: int) -> Iterator[Row]:
    """Of each operation of the API. Each process has a service of its own, and the next seed."""
    jobs = [(cases // processes + (number < cases % processes), seed + number) for number in range(processes)]
    with ProcessPoolExecutor(processes) as pool:
        for parts in zip(*pool.map(_asked, jobs), strict=True):
            answers = reduce(add, parts)
            codes = ", ".join(f"{code}: {count:,}" for code, count in sorted(answers.codes.items()))
            line = f"| {answers.operation} | {answers.cases:,} | {len(answers.broke)} | {codes} |"
            yield Row(line, answers.cases, [f"{request}\n    {why}" for request, why in answers.broke])


def _asked(job: tuple[int, int]) -> list[Answers]:
    cases, seed = job
    be_quiet()
    warnings.filterwarnings("ignore", "Do not use the `random` module")  # schemathesis draws from it in its strategies
    with tempfile.TemporaryDirectory() as folder, living_service(Path(folder), SPEED) as url:
        return list(Asker(url, seed).ask_all(cases))


def played(rows: Iterator[Row]) -> tuple[list[Row], float]:
    """Print each row as it comes; all of them, and the seconds they took."""
    began, all_rows = time.perf_counter(), list[Row]()
    for row in rows:
        sys.stdout.write("\n    ".join([row.line, *row.breaks]) + "\n")
        sys.stdout.flush()
        all_rows.append(row)
    return all_rows, time.perf_counter() - began


def page(title: str, heads: tuple[str, ...], rows: list[Row], seconds: float, origin: str) -> str:
    """All rows of one kind, and where they come from."""
    broken = sum(len(row.breaks) for row in rows) or "none"
    sentence = f"{sum(row.cases for row in rows):,} in {seconds:.0f} s; {broken} broke anything."
    rule = f"|---|{'---:|' * (len(heads) - 2)}---|"
    lines = [f"# {title}", "", origin, "", sentence, "", f"| {' | '.join(heads)} |", rule, *(row.line for row in rows)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Play what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="for each decoder (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=CASES, help="to the API in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="that send requests (default: %(default)s)")
    parser.add_argument("--only", default="", help=f"{DECODERS_ALONE}, the decoder of that name, or {API}")
    parser.add_argument("--page", action="store_true", help="write the pages in results/ beside this module")
    args = parser.parse_args()
    be_quiet()
    command = f"`python -m tests.fuzz {' '.join(sys.argv[1:])}`"
    origin = f"{command}, commit {commit_now()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."  # noqa: TID251  # when it was
    broken = 0
    unlike = ("operation", "requests", "not as the document says", "answered")
    spoiled = ("decoder", "records", "broke it", "slow")
    of_records = partial(records, args.cases, args.seed, args.only)
    of_requests = partial(requests, args.requests, args.seed, args.processes)
    for name, title, heads, rows in (
        ("records", "Spoiled records", spoiled, of_records),
        ("requests", "Requests by the OpenAPI document", unlike, of_requests),
    ):
        if (args.only == API) != (name == "requests") and args.only:
            continue
        all_rows, seconds = played(rows())
        broken += sum(len(row.breaks) for row in all_rows)
        if args.page:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{name}.md").write_text(page(title, heads, all_rows, seconds, origin))
    return broken


if __name__ == "__main__":
    sys.exit(min(main(), 100))
