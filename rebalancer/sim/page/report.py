"""`python -m rebalancer.sim.page.report --commit COMMIT`: puts the suite's rows into `docs/benchmarks.md` as tables.

What is between the page's two marks is replaced; the rest of the page is written by people.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import msgspec

from rebalancer.sim.page.cases import COMPARED, Against, Case, cases_of, read_played
from rebalancer.sim.suite.names import called
from rebalancer.sim.suite.row import COST_AT, OURS, Played, Row, gap_closure, headline

ROWS, PAGE = Path("build/bench/decisions.json"), Path("docs/benchmarks.md")
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"
LIMITS = ("foresight", "bound")
TOLD_THE_FUTURE = frozenset({"faro"})  # peers whose forecasts are perfect
WORLDS = {"fluid": "", "requests": ", request by request", "batching": ", continuous batching"}


def tables(rows: Sequence[Row], commit: str, date: str, played: Iterable[Played] = ()) -> str:
    """Markdown: where the service loses, then two tables per scenario and world. `played`: as `cases_of` has it."""
    played = list(played)
    cases = cases_of(rows, played)
    parts = [f"Measured {date} at commit `{commit}`, {len(rows)} runs.\n", "### Where we lose\n", *_losses(cases)]
    if any(row.controller in TOLD_THE_FUTURE for row in rows):
        nobody = [row for row in rows if row.controller not in TOLD_THE_FUTURE]
        parts += ["### Where we lose to peers that are not told the future, as Faro is\n"]
        parts += _losses(cases_of(nobody, played))
    for (scenario, world), of in groupby(cases, key=lambda case: case.name[:2]):
        mine = list(of)
        where = f"{scenario}{WORLDS.get(world, f', {world}')}"
        what = "lost utility" if mine[0].by_utility else "violation, %"
        parts += [f"### {where}: {what}\n", _everybody(mine)]
        if any(case.against for case in mine):
            parts += [f"### {where}: ours and the best peer\n", _pairs(mine)]
    return "\n".join(parts)


def inserted(page: str, text: str) -> str:
    """The page with the text between its marks. Raises ValueError when it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN.strip()} ... {END.strip()} in the page")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def _losses(cases: Sequence[Case]) -> Iterator[str]:
    """Where ours is above the best peer for certain, the worst first; how the others stand in a sentence or two."""
    compared = [(case, case.against) for case in cases if case.against is not None]
    if not compared:
        yield "Nothing was compared: ours or every peer is missing.\n"
        return
    yield from _late(cases=[pair for pair in compared if pair[0].allowed is None])
    yield from _dear(cases=[pair for pair in compared if pair[0].allowed is not None])


def _late(cases: Sequence[tuple[Case, Against]]) -> Iterator[str]:
    lost = [(case, each) for case, each in cases if each.counts and each.difference > 0]
    won = sum(each.counts and each.difference < 0 for _, each in cases)
    unknown = sum(each.low is None for _, each in cases)
    chance = len(cases) - len(lost) - won - unknown
    not_known = f", in {unknown} its interval is not known" if unknown else ""
    yield (
        f"Against the best tuned peer of each of {len(cases)} cases ours is worse in {len(lost)}, better in {won};"
        f" in {chance} the difference may be chance{not_known}.\n"
    )
    if lost:
        worst = sorted(lost, key=lambda pair: (pair[0].by_utility, -pair[1].difference))
        lines = [["case", "ours", "best peer", "ours - peer (95 %)"]]
        lines += [
            [_whole_name(case), _told(each.ours, case), _told_peer(each, case), _difference(each, case)]
            for case, each in worst
        ]
        yield _markdown(lines)


def _dear(cases: Sequence[tuple[Case, Against]]) -> Iterator[str]:
    """Cases about cost, which has no interval."""
    if not cases:
        return
    lost = [(case, each) for case, each in cases if each.stands_worse]
    scenarios = ", ".join(f"{name} at {100 * share:g} % late" for name, share in COST_AT.items())
    yield (
        f"In cases about cost ({scenarios}: below it only cost counts) ours stands worse than the best peer in"
        f" {len(lost)} of {len(cases)}.\n"
    )
    if lost:
        lines = [["case", "ours, %", "USD", "best peer, %", "USD"]]
        for case, each in lost:
            ours, peer = (_number(row.cost_usd) for row in (each.ours, each.peer))
            lines.append([_whole_name(case), _told(each.ours, case), ours, _told_peer(each, case), peer])
        yield _markdown(lines)


def _whole_name(case: Case) -> str:
    return f"{case.name}{WORLDS.get(case.name.world, '')}"


def _told_peer(each: Against, case: Case) -> str:
    return f"{_told(each.peer, case)} {called(each.peer)}"


def _told(row: Row, case: Case) -> str:
    value = headline(row)
    if value is None:
        return "-"
    return f"{value:.3f}" if case.by_utility else f"{100 * value:.2f}"


def _difference(each: Against, case: Case) -> str:
    """In points of a violation, or of lost utility; a star where it counts."""
    times, form = (1, "{:+.3f}") if case.by_utility else (100, "{:+.2f}")
    said = form.format(times * each.difference)
    if each.low is None or each.high is None:
        return said
    between = " to ".join(form.format(times * end) for end in (each.low, each.high))
    return f"{said} ({between})" + " *" * each.counts


def _everybody(cases: Sequence[Case]) -> str:
    """A row per case, a column per controller; `bound` bounds the share of late work, not of late requests."""
    present = {column for case in cases for column in case.means}
    peers = sorted(column for column in present if not column.startswith(OURS) and column not in LIMITS)
    columns = [*peers, *sorted(column for column in present if column.startswith(OURS))]
    columns += [each for each in LIMITS if each in present]
    lines = [["day", "GPUs", "start s", *columns]]
    lines += [[*_place(case), *(_cell(case.means.get(column), case) for column in columns)] for case in cases]
    return _markdown(lines)


def _place(case: Case) -> list[str]:
    return [case.name.day, str(case.name.gpus), str(case.name.start_seconds or "-")]


def _cell(row: Row | None, case: Case) -> str:
    if row is None:
        return "-"
    if row.controller == "bound":
        return "-" if row.late_work_share is None else f"{100 * row.late_work_share:.2f}"
    told = _told(row, case)
    return f"**{told}**" if case.best is not None and case.best.controller == row.controller else told


def _pairs(cases: Sequence[Case]) -> str:
    """GPU-hours, cost, starts + stops and recovery as peer / ours."""
    heads = "day,GPUs,start s,best peer,ours - peer (95 %),gap closed,GPU-hours,USD,starts + stops,recover p95 s,"
    lines = [f"{heads}floor breaches".split(",")]
    for case in cases:
        if case.against is None:
            continue
        peer, ours = case.against.peer, case.against.ours
        closed = gap_closure(ours, list(case.means.values()))
        lines.append(
            [
                *_place(case),
                called(case.against.peer),
                _difference(case.against, case),
                "-" if closed is None else f"{closed:.2f}",
                *(" / ".join(_number(getattr(row, name)) for row in (peer, ours)) for name in COMPARED),
            ]
        )
    return _markdown(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table, heads first; the first column is text, the others are numbers."""
    head, *rest = lines
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rest)) + "\n"


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 2 when there is nothing to insert, or no place for it."""
    parser = argparse.ArgumentParser(prog="python -m rebalancer.sim.page.report", description=__doc__)
    parser.add_argument("--commit", required=True, help="what was measured: git rev-parse --short HEAD")
    parser.add_argument("--rows", type=Path, default=ROWS, help=f"default {ROWS}; intervals from the .d beside it")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"default {PAGE}")
    chosen = parser.parse_args(arguments)
    try:
        rows = msgspec.json.decode(chosen.rows.read_bytes(), type=list[Row])
        date = datetime.fromtimestamp(chosen.rows.stat().st_mtime, UTC).date().isoformat()
        text = tables(rows, chosen.commit, date, read_played(chosen.rows.with_suffix(".d")))
        chosen.page.write_text(inserted(chosen.page.read_text(), text))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}; make bench-decisions writes the rows\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
