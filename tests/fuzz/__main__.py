"""What spoiled records did to each decoder, and what the API answered to requests drawn from its OpenAPI document.

The exit code is the number of records and requests that broke something.
"""

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.api.living import living_service
from tests.fuzz.api import CASES, SPEED, Asker
from tests.fuzz.decoders import DECODERS
from tests.fuzz.plays import play
from tests.machine.page import commit_now
from tests.machine.quiet import be_quiet

PAGE = Path(__file__).parent / "results" / "fuzz.md"
API = "api"
_LONGEST = 2000


class Row(NamedTuple):
    """A line of a table, how many cases it stands for, and each way in which some of them broke something."""

    line: str
    cases: int
    breaks: list[str]


def records(cases: int, seed: int, only: str) -> Iterator[Row]:
    """Of each decoder."""
    for decoder in DECODERS:
        if only in {"", decoder.name}:
            played = play(decoder, cases, seed)
            line = f"| {decoder.name} | {played.cases:,} | {len(played.broke)} | {len(played.slow)} |"
            kinds = {why: record for record, why in played.broke}
            slow = [f"{seconds:.2f} s: {record[:_LONGEST]!r}" for record, seconds in played.slow]
            yield Row(line, played.cases, [*(f"{why}: {record[:_LONGEST]!r}" for why, record in kinds.items()), *slow])


def requests(cases: int, seed: int) -> Iterator[Row]:
    """Of each operation of the API."""
    with tempfile.TemporaryDirectory() as folder, living_service(Path(folder), SPEED) as url:
        for answers in Asker(url, seed).ask_all(cases):
            codes = ", ".join(f"{code}: {count:,}" for code, count in sorted(answers.codes.items()))
            line = f"| {answers.operation} | {answers.cases:,} | {len(answers.broke)} | {codes} |"
            yield Row(line, answers.cases, [f"{request}\n    {why}" for request, why in answers.broke])


def played(rows: Iterator[Row]) -> tuple[list[Row], float]:
    """Print each row as it comes; all of them, and the seconds they took."""
    began, all_rows = time.perf_counter(), list[Row]()
    for row in rows:
        sys.stdout.write("\n    ".join([row.line, *row.breaks]) + "\n")
        sys.stdout.flush()
        all_rows.append(row)
    return all_rows, time.perf_counter() - began


def table(title: str, heads: tuple[str, ...], rows: list[Row], seconds: float) -> list[str]:
    """A part of the page."""
    broken = sum(len(row.breaks) for row in rows) or "none"
    sentence = f"{sum(row.cases for row in rows):,} in {seconds:.0f} s; {broken} broke anything."
    rule = f"|---|{'---:|' * (len(heads) - 2)}---|"
    return ["", f"## {title}", "", sentence, "", f"| {' | '.join(heads)} |", rule, *(row.line for row in rows)]


def main() -> int:
    """Play what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="for each decoder (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=CASES, help="to the API in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help=f"the decoder of that name, or {API}")
    parser.add_argument("--page", action="store_true", help="write results/fuzz.md beside this module")
    args = parser.parse_args()
    be_quiet()
    warnings.filterwarnings("ignore", "Do not use the `random` module")  # schemathesis draws from it in its strategies
    began = f"commit {commit_now()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"  # noqa: TID251  # when it was
    by_decoder = played(records(args.cases, args.seed, args.only))
    by_operation = played(requests(args.requests, args.seed) if args.only in {"", API} else iter(()))
    if args.page:
        head = ["# Fuzzing", "", f"`python -m tests.fuzz {' '.join(sys.argv[1:])}`, {began}."]
        spoiled = table("Spoiled records", ("decoder", "records", "broke it", "slow"), *by_decoder)
        unlike = "not as the document says"
        drawn = table("Requests by the OpenAPI document", ("operation", "requests", unlike, "answered"), *by_operation)
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text("\n".join([*head, *spoiled, *drawn]) + "\n")
    return sum(len(row.breaks) for rows, _ in (by_decoder, by_operation) for row in rows)


if __name__ == "__main__":
    sys.exit(min(main(), 100))
