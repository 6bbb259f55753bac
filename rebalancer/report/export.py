"""The accounts by the hour as a table for others: CSV, and Parquet where pyarrow is installed.

Columns carry OpenCost's names where it has one for the same thing (docs/report.md has the list), so that both join.
"""

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

from rebalancer.domain.policy import Policy
from rebalancer.ledger.books import HOUR, MICRO, Books
from rebalancer.report.bill import MICRO_HOUR, cost_center
from rebalancer.report.prices import Prices

COLUMNS = (
    *("start", "end", "cluster", "pool", "instance_type", "namespace", "model", "team", "cost_center", "state"),
    *("gpu_microseconds", "gpuHours", "gpuCost", "capacity_type"),
)


def hourly(books: Books, policy: Policy, of: Prices, cluster: str) -> Iterator[tuple[str | int | float | None, ...]]:
    """One row per hour, shelf, model and state, in this order; the values of `COLUMNS`."""
    entries = {model.id: model for model in policy.models}
    for (piece, shelf, model, state), exact in sorted(books.charged.items()):
        entry, price = entries.get(model), of.of(shelf, piece)
        yield (
            _iso(piece * HOUR),
            _iso((piece + 1) * HOUR),
            cluster,
            shelf.pool,
            shelf.instance_type,
            entry.namespace if entry else "",
            model,
            entry.team if entry else "",
            cost_center(entry),
            state,
            exact,
            exact / MICRO_HOUR,
            None if price is None else price * exact / MICRO_HOUR,
            shelf.capacity_type,
        )


def as_csv(books: Books, policy: Policy, of: Prices, cluster: str) -> str:
    """With a header line; an unknown cost is empty."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(hourly(books, policy, of, cluster))
    return text.getvalue()


def write_parquet(path: Path, books: Books, policy: Policy, of: Prices, cluster: str) -> None:
    """The same as a Parquet file. Raises ModuleNotFoundError without pyarrow, OSError."""
    import pyarrow as pa  # noqa: PLC0415  # an extra, half a second
    from pyarrow import parquet  # noqa: PLC0415  # the same

    columns = list(zip(*hourly(books, policy, of, cluster), strict=True)) or [() for _ in COLUMNS]
    kinds = [*[pa.string()] * (len(COLUMNS) - 4), pa.int64(), pa.float64(), pa.float64(), pa.string()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    parquet.write_table(pa.table(dict(zip(COLUMNS, arrays, strict=True))), path)


def _iso(at: int) -> str:
    return f"{datetime.fromtimestamp(at // MICRO, UTC):%Y-%m-%dT%H:%M:%SZ}"
