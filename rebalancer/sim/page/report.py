"""`python -m rebalancer.sim.page.report --commit COMMIT`: puts the suite's rows into `docs/benchmarks.md` as tables.

What is between the page's two marks is replaced; the rest of the page is written by people.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np

from rebalancer.sim.suite.row import OURS, Row, best_peer, gap_closure, headline

ROWS, PAGE = Path("build/bench/decisions.json"), Path("docs/benchmarks.md")
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"
LIMITS = ("foresight", "bound")
SHARES = "violation, %"
COMPARED = ("gpu_hours", "starts_and_stops", "recover_p95_seconds", "floor_breaches")
AVERAGED = ("violation", "lost_utility", "late_work_share", *COMPARED)

Case = tuple[str, str, int, int]
Means = dict[str, Row]  # by column: the mean over seeds


def tables(rows: Sequence[Row], commit: str, date: str) -> str:
    """Markdown: where the service loses, then a table per scenario."""
    cases = {case: _means(list(alike)) for case, alike in groupby(sorted(rows, key=_case), key=_case)}
    parts = [f"Measured {date} at commit `{commit}`, {len(rows)} runs.\n", _losses(cases)]
    for scenario, of in groupby(cases, key=lambda case: case[0]):
        mine = {case: cases[case] for case in of}
        what = _what(next(iter(mine.values())))
        parts += [
            f"### {scenario}: {what}\n",
            _everybody(mine),
            f"### {scenario}: ours and the best peer\n",
            _pairs(mine),
        ]
    return "\n".join(parts)


def inserted(page: str, text: str) -> str:
    """The page with the text between its marks. Raises ValueError when it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN.strip()} ... {END.strip()} in the page")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def _case(row: Row) -> Case:
    return row.scenario, row.day, row.gpus, row.start_seconds or 0


def _means(rows: Sequence[Row]) -> Means:
    found: Means = {}
    for row in rows:
        found.setdefault(_column(row), row)
    for column, first in found.items():
        same = [row for row in rows if _column(row) == column]
        numbers = {name: _mean([getattr(row, name) for row in same]) for name in AVERAGED}
        found[column] = msgspec.structs.replace(first, **numbers)
    return found


def _column(row: Row) -> str:
    return row.controller if row.actuation in {None, "scale"} else f"{row.controller}, {row.actuation}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _what(of: Means) -> str:
    return "lost utility" if any(row.lost_utility is not None for row in of.values()) else SHARES


def _losses(cases: dict[Case, Means]) -> str:
    lost, compared = [], 0
    for (scenario, day, gpus, start), of in cases.items():
        peer, ours = best_peer(list(of.values())), of.get(OURS)
        if peer is None or ours is None:
            continue
        theirs, mine = headline(peer), headline(ours)
        if theirs is None or mine is None:
            continue
        compared += 1
        if mine > theirs:
            lost.append(
                f"- {scenario} day {day}, {gpus} GPUs{_started(start)}: {_number(ours, of)} against"
                f" {_number(peer, of)} of {peer.controller}"
            )
    said = f"Ours is worse than the best tuned peer in {len(lost)} of {compared} cases:\n"
    return "\n".join([said, *lost, ""]) if lost else "Ours is nowhere worse than the best tuned peer.\n"


def _started(start: int) -> str:
    return f", {start} s to start" if start else ""


def _number(row: Row, of: Means) -> str:
    value = headline(row)
    if value is None:
        return "?"
    return f"{100 * value:.2f} %" if _what(of) == SHARES else f"{value:.3f}"


def _everybody(cases: dict[Case, Means]) -> str:
    """A row per case, a column per controller; `bound` bounds the share of late work, not of late requests."""
    present = {column for of in cases.values() for column in of}
    peers = sorted(column for column in present if not column.startswith(OURS) and column not in LIMITS)
    columns = [*peers, *sorted(column for column in present if column.startswith(OURS))]
    columns += [each for each in LIMITS if each in present]
    lines = [["day", "GPUs", "start s", *columns]]
    for (_, day, gpus, start), of in cases.items():
        cells = [_cell(of.get(column), of) for column in columns]
        lines.append([day, str(gpus), str(start or "-"), *cells])
    return _markdown(lines, left=1)


def _cell(row: Row | None, of: Means) -> str:
    if row is None:
        return "-"
    if row.controller == "bound":
        return "-" if row.late_work_share is None else f"{100 * row.late_work_share:.2f}"
    value = headline(row)
    if value is None:
        return "-"
    told = f"{100 * value:.2f}" if _what(of) == SHARES else f"{value:.3f}"
    peer = best_peer(list(of.values()))
    return f"**{told}**" if peer is not None and peer.controller == row.controller else told


def _pairs(cases: dict[Case, Means]) -> str:
    """GPU-hours, starts + stops and recovery as peer / ours."""
    heads = "day,GPUs,start s,best peer,gap closed,GPU-hours,starts + stops,recover p95 s,floor breaches"
    lines = [heads.split(",")]
    for (_, day, gpus, start), of in cases.items():
        peer, ours = best_peer(list(of.values())), of.get(OURS)
        if peer is None or ours is None:
            continue
        closed = gap_closure(ours, list(of.values()))
        lines.append(
            [
                day,
                str(gpus),
                str(start or "-"),
                f"{peer.controller} {peer.tuning or ''}".strip(),
                "-" if closed is None else f"{closed:.2f}",
                *(" / ".join(_whole(getattr(row, name)) for row in (peer, ours)) for name in COMPARED),
            ]
        )
    return _markdown(lines, left=1)


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _markdown(lines: Sequence[Sequence[str]], left: int) -> str:
    return "\n".join(_rows(lines, left)) + "\n"


def _rows(lines: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    head, *rest = lines
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' if at < left else '---:' for at in range(len(head)))} |"
    for line in rest:
        yield f"| {' | '.join(line)} |"


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 2 when there is nothing to insert, or no place for it."""
    parser = argparse.ArgumentParser(prog="python -m rebalancer.sim.page.report", description=__doc__)
    parser.add_argument("--commit", required=True, help="what was measured: git rev-parse --short HEAD")
    parser.add_argument("--rows", type=Path, default=ROWS, help=f"default {ROWS}")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"default {PAGE}")
    chosen = parser.parse_args(arguments)
    try:
        rows = msgspec.json.decode(chosen.rows.read_bytes(), type=list[Row])
        date = datetime.fromtimestamp(chosen.rows.stat().st_mtime, UTC).date().isoformat()
        chosen.page.write_text(inserted(chosen.page.read_text(), tables(rows, chosen.commit, date)))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}; make bench-decisions writes the rows\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
