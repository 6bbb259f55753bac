"""What was played as a table for people, and as rows for scripts."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
from rich.table import Table

from rebalancer.sim.demand import F64
from rebalancer.sim.suite.intervals import paired_interval
from rebalancer.sim.suite.row import OURS, Played, Row, best_peer, gap_closure

INTERVAL_SEED = 1


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
    """Means over seeds; `against best peer`: ours less it, in points, with the 95 % interval of a paired bootstrap."""
    rows = finished(results)
    out = Table(title="Decisions: share of late requests, %")
    for name in ("scenario", "day", "GPUs", "start s", "controller", "tuning"):
        out.add_column(name)
    for name in (
        "late",
        "worst",
        "lost utility",
        "late work",
        "GPU-h",
        "moves",
        "breaches",
        "recover s",
        "gap closed",
        "against best peer",
    ):
        out.add_column(name, justify="right")
    pairs = sorted(zip(rows, results, strict=True), key=lambda pair: _order(pair[0]))
    for _, of_case in groupby(pairs, key=lambda pair: _case(pair[0])):
        for line in _lines(list(of_case)):
            out.add_row(*line)
        out.add_section()
    return out


def _lines(of_case: Sequence[tuple[Row, Played]]) -> Iterator[tuple[str, ...]]:
    peer = _peer(of_case)
    for (controller, actuation), same in groupby(of_case, key=lambda pair: (pair[0].controller, pair[0].actuation)):
        group = list(same)
        rows = [row for row, _ in group]
        first = rows[0]
        blocks = np.concatenate([played.block_array() for _, played in group])
        yield (
            first.scenario,
            first.day,
            str(first.gpus),
            str(first.start_seconds or "-"),
            controller if actuation is None else f"{controller} ({actuation})",
            first.tuning or "",
            _mean([row.violation for row in rows], 100, 2),
            _mean([row.worst_model_violation for row in rows], 100, 2),
            _mean([row.lost_utility for row in rows], 1, 3),
            _mean([row.late_work_share for row in rows], 100, 2),
            _mean([row.gpu_hours for row in rows], 1, 0),
            _mean([row.starts_and_stops for row in rows], 1, 0),
            _mean([row.floor_breaches for row in rows], 1, 0),
            _mean([row.recover_p95_seconds for row in rows], 1, 0),
            _mean([row.gap_closure for row in rows], 1, 2),
            _against(blocks, peer) if controller == OURS else "",
        )


def _peer(of_case: Sequence[tuple[Row, Played]]) -> F64 | None:
    """The blocks of the peer that is best over all seeds."""
    best = best_peer([_over_seeds(list(same)) for _, same in groupby(of_case, key=lambda pair: pair[0].controller)])
    if best is None:
        return None
    return np.concatenate([played.block_array() for row, played in of_case if row.controller == best.controller])


def _over_seeds(group: Sequence[tuple[Row, Played]]) -> Row:
    violation, lost = (
        None if None in values else float(np.mean(values))
        for values in zip(*((row.violation, row.lost_utility) for row, _ in group), strict=True)
    )
    return msgspec.structs.replace(group[0][0], violation=violation, lost_utility=lost)


def _against(blocks: F64, peer: F64 | None) -> str:
    if peer is None or peer.shape != blocks.shape:
        return ""
    difference, low, high = (100 * value for value in paired_interval(blocks, peer, INTERVAL_SEED))
    counts = "" if low <= 0.0 <= high else " *"
    return f"{difference:+.2f} ({low:+.2f} to {high:+.2f}){counts}"


def _mean(values: Sequence[float | None], times: float, digits: int) -> str:
    known = [value for value in values if value is not None]
    return f"{times * float(np.mean(known)):.{digits}f}" if known else ""


def _case(row: Row) -> tuple[object, ...]:
    return row.scenario, row.gpus, row.start_seconds or 0, row.day


def _with_seed(row: Row) -> tuple[object, ...]:
    return *_case(row), row.seed


def _order(row: Row) -> tuple[object, ...]:
    return *_case(row), row.controller == OURS, row.controller, row.actuation or "", row.seed
