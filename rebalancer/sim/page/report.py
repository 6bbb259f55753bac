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

from rebalancer.sim.page.cases import SHOWN, Against, CasePage, cases_of, read_played
from rebalancer.sim.page.cells import difference, headline_cell, markdown, number, peer_cell
from rebalancer.sim.page.robust import robust
from rebalancer.sim.suite.names import called
from rebalancer.sim.suite.peers import TOLD_THE_FUTURE
from rebalancer.sim.suite.row import COST_AT, OURS, Played, Row, gap_closure

ROWS, PAGE = Path("build/bench/decisions.json"), Path("docs/benchmarks.md")
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"
LIMITS = ("foresight", "bound")
WORLDS = {"fluid": "", "requests": ", request by request", "batching": ", continuous batching"}


def tables(rows: Sequence[Row], commit: str, date: str, played: Iterable[Played] = ()) -> str:
    """Markdown: what figures and metrics of users make of it, shapes that nobody knows, and then what exact ones do.

    Of these where the service loses, and two tables per scenario and world. `played`: as `cases_of` has it.
    """
    played = list(played)
    untold = cases_of([row for row in rows if row.controller not in TOLD_THE_FUTURE], played)
    parts = [f"Measured {date} at commit `{commit}`, {len(rows)} runs.\n", *robust(untold)]
    cases = _plain(cases_of(rows, played))
    parts += ["### Where we lose with exact figures\n", *_losses(cases)]
    if any(row.controller in TOLD_THE_FUTURE for row in rows):
        parts += ["### Where we lose to peers that are not told the future, as Faro is\n", *_losses(_plain(untold))]
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


def _plain(cases: Sequence[CasePage]) -> list[CasePage]:
    return [case for case in cases if case.name.is_plain]


def _losses(cases: Sequence[CasePage]) -> Iterator[str]:
    """Where ours is above the best peer for certain, the worst first; how the others stand in a sentence or two."""
    compared = [(case, case.against) for case in cases if case.against is not None]
    if not compared:
        yield "Nothing was compared: ours or every peer is missing.\n"
        return
    yield from _late(cases=[pair for pair in compared if pair[0].allowed is None])
    yield from _dear(cases=[pair for pair in compared if pair[0].allowed is not None])


def _late(cases: Sequence[tuple[CasePage, Against]]) -> Iterator[str]:
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
            [_whole_name(case), headline_cell(each.ours, case), peer_cell(each, case), difference(each, case)]
            for case, each in worst
        ]
        yield markdown(lines)


def _dear(cases: Sequence[tuple[CasePage, Against]]) -> Iterator[str]:
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
            ours, peer = (number(row.cost_usd) for row in (each.ours, each.peer))
            lines.append([_whole_name(case), headline_cell(each.ours, case), ours, peer_cell(each, case), peer])
        yield markdown(lines)


def _whole_name(case: CasePage) -> str:
    return f"{case.name}{WORLDS.get(case.name.world, '')}"


def _everybody(cases: Sequence[CasePage]) -> str:
    """A row per case, a column per controller; `bound` bounds the share of late work, not of late requests."""
    present = {column for case in cases for column in case.means}
    peers = sorted(column for column in present if not column.startswith(OURS) and column not in LIMITS)
    columns = [*peers, *sorted(column for column in present if column.startswith(OURS))]
    columns += [each for each in LIMITS if each in present]
    lines = [["day", "GPUs", "start s", *columns]]
    lines += [[*_place(case), *(_cell(case.means.get(column), case) for column in columns)] for case in cases]
    return markdown(lines)


def _place(case: CasePage) -> list[str]:
    return [case.name.day, str(case.name.gpus), str(case.name.start_seconds or "-")]


def _cell(row: Row | None, case: CasePage) -> str:
    if row is None:
        return "-"
    if row.controller == "bound":
        return "-" if row.late_work_share is None else f"{100 * row.late_work_share:.2f}"
    cell = headline_cell(row, case)
    return f"**{cell}**" if case.best is not None and case.best.controller == row.controller else cell


def _pairs(cases: Sequence[CasePage]) -> str:
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
                difference(case.against, case),
                "-" if closed is None else f"{closed:.2f}",
                *(" / ".join(number(getattr(row, name)) for row in (peer, ours)) for name in SHOWN),
            ]
        )
    return markdown(lines)


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
