"""What was played as a table for people, and as rows for scripts."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
from rich.table import Table

from rebalancer.sim.suite.families import FAMILIES
from rebalancer.sim.suite.given import EXACT
from rebalancer.sim.suite.intervals import paired_interval
from rebalancer.sim.suite.names import called, kind
from rebalancer.sim.suite.row import OURS, Played, Row, best_peer, broken_floors, gap_closure

INTERVAL_SEED = 1
LEGEND = (
    "Peers are tuned in the fluid world; a row of the worlds `requests` and `batching` scores their winners request by"
    " request, and compares with ours and foresight of the same world. Batching: S2 at 32 and 40 GPUs and 60 s, both"
    " days, and S7's recorded one; releases take 30 s there, in the fluid world none. Five seeds: S1 request by"
    " request at 28, 32 and 36 on the reported day, and generated surges; one elsewhere."
)


def finished(results: Sequence[Played]) -> list[Row]:
    """The rows in the order of results, gap closure filled in from the rows of the same case and seed."""
    rows = [result.row for result in results]
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(_with_seed(row), []).append(row)
    return [msgspec.structs.replace(row, gap_closure=gap_closure(row, alike[_with_seed(row)])) for row in rows]


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """All rows as one JSON list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(list(rows)), indent=1) + b"\n")


def table(results: Sequence[Played]) -> Table:
    """Means over seeds, of the scenarios with exact figures; `page.robust` has the others.

    `breaches`: broken floors of all seeds together.

    `slow`: requests whose time per token missed its objective; `in flight`: those lost there.

    `against best peer`: ours less it, in points of late requests or in lost utility, whichever the scenario is about,
    with the 95 % interval of a paired bootstrap; a star where 0 lies outside.
    """
    rows = finished(results)
    out = Table(title="Decisions: share of late requests, %", caption=LEGEND, caption_justify="left")
    for name in ("scenario", "day", "GPUs", "start s", "world", "controller"):
        out.add_column(name)
    for name in (
        "late",
        "worst",
        "lost utility",
        "late work",
        "slow",
        "GPU-h",
        "USD",
        "moves",
        "breaches",
        "in flight",
        "recover s",
        "plan ms",
        "gap closed",
        "against best peer",
    ):
        out.add_column(name, justify="right")
    plain = (pair for pair in zip(rows, results, strict=True) if is_plain(pair[0]))
    pairs = sorted(plain, key=lambda pair: _order(pair[0]))
    for _, of_case in groupby(pairs, key=lambda pair: _case(pair[0])):
        for line in _lines(list(of_case)):
            out.add_row(*line)
        out.add_section()
    return out


def _lines(of_case: Sequence[tuple[Row, Played]]) -> Iterator[tuple[str, ...]]:
    peer = _peer(of_case)
    for _, same in groupby(of_case, key=lambda pair: kind(pair[0])):
        group = list(same)
        rows = [row for row, _ in group]
        first = rows[0]
        yield (
            first.scenario,
            first.day,
            str(first.gpus),
            str(first.start_seconds or "-"),
            first.world,
            called(first),
            _mean([row.violation for row in rows], 100, 2),
            _mean([row.worst_model_violation for row in rows], 100, 2),
            _mean([row.lost_utility for row in rows], 1, 3),
            _mean([row.late_work_share for row in rows], 100, 2),
            _mean([played.slow for _, played in group], 100, 1),
            _mean([row.gpu_hours for row in rows], 1, 0),
            _mean([row.cost_usd for row in rows], 1, 0),
            _mean([row.starts_and_stops for row in rows], 1, 0),
            "" if (broken := broken_floors(rows)) is None else str(broken),
            _mean([row.lost_in_flight for row in rows], 1, 0),
            _mean([row.recover_p95_seconds for row in rows], 1, 0),
            _mean([row.plan_p99_ms for row in rows], 1, 1),
            _mean([row.gap_closure for row in rows], 1, 2),
            _against(group, peer) if first.controller == OURS else "",
        )


def _peer(of_case: Sequence[tuple[Row, Played]]) -> Sequence[tuple[Row, Played]]:
    """The runs of the peer that is best over all seeds; empty without one."""
    best = best_peer([_over_seeds(list(same)) for _, same in groupby(of_case, key=lambda pair: pair[0].controller)])
    return [pair for pair in of_case if best is not None and pair[0].controller == best.controller]


def _over_seeds(group: Sequence[tuple[Row, Played]]) -> Row:
    violation, lost = (
        None if None in values else float(np.mean(values))
        for values in zip(*((row.violation, row.lost_utility) for row, _ in group), strict=True)
    )
    return msgspec.structs.replace(group[0][0], violation=violation, lost_utility=lost)


def _against(ours: Sequence[tuple[Row, Played]], peer: Sequence[tuple[Row, Played]]) -> str:
    """Over the seeds that both played; empty where there are none."""
    a, b = ({row.seed: played.block_array() for row, played in runs} for runs in (ours, peer))
    seeds = sorted(a.keys() & b.keys())
    if not seeds:
        return ""
    times = 100 if ours[0][0].lost_utility is None else 1
    over = paired_interval(np.stack([a[seed] for seed in seeds]), np.stack([b[seed] for seed in seeds]), INTERVAL_SEED)
    difference, low, high = (times * value for value in over)
    counts = "" if low <= 0.0 <= high else " *"
    return f"{difference:+z.2f} ({low:+z.2f} to {high:+z.2f}){counts}"


def _mean(values: Sequence[float | None], times: float, digits: int) -> str:
    known = [value for value in values if value is not None]
    return f"{times * float(np.mean(known)):.{digits}f}" if known else ""


def is_plain(row: Row) -> bool:
    """Exact figures on one of the scenarios."""
    return row.given == EXACT.name and row.scenario not in FAMILIES


def _case(row: Row) -> tuple[object, ...]:
    return row.scenario, row.gpus, row.start_seconds or 0, row.day, row.world, row.given


def _with_seed(row: Row) -> tuple[object, ...]:
    return *_case(row), row.seed


def _order(row: Row) -> tuple[object, ...]:
    return *_case(row), row.controller == OURS, row.controller, row.actuation or "", row.seed
