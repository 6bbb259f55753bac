"""What a GPU costs: by the policy, by what is given with the command, and by a table with dates, as spot prices are."""

import csv
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from rebalancer.domain.policy import Policy, Pool
from rebalancer.ledger.inventory import Shelf, usd_per_gpu_hour

HEAD = ("since", "instance_type", "capacity_type", "usd_per_gpu_hour")
HOUR_SECONDS = 3600
MOST_USD = 1000.0


class PriceUnknown(ValueError):
    """A price cannot be used: it is no price, or for a pool or instance type that is not there; the text says which."""


class DatedPrice(Struct, frozen=True):
    """A price from an instant on.

    since: in epoch seconds; an hour costs what holds at its begin.
    usd: for a GPU for an hour.
    """

    since: float
    usd: float


class Prices(Struct, frozen=True):
    """USD for a GPU for an hour.

    pools: by name, with the prices of the policy.
    given: by pool, instance type, or `TYPE/CAPACITY`, as `--price` says; they go before all others.
    dated: by `TYPE/CAPACITY`, or by type, in small letters and in time; they go before the policy's.
    """

    pools: Mapping[str, Pool]
    given: Mapping[str, float] = {}
    dated: Mapping[str, tuple[DatedPrice, ...]] = {}

    def of(self, shelf: Shelf, hour: int) -> float | None:
        """What a GPU there costs in that hour since the epoch; None where nobody says."""
        for name in (shelf.kind, shelf.instance_type, shelf.pool):
            if name in self.given:
                return self.given[name]
        for _, usd in self._of_table(shelf, hour):
            return usd
        pool = self.pools.get(shelf.pool)
        return None if pool is None else usd_per_gpu_hour(pool, shelf)

    def unused(self, there: Iterable[tuple[int, Shelf]]) -> list[str]:
        """Names in the table whose prices were used for none of the GPUs that were `there`, pairs of hour and shelf."""
        used = set()
        for hour, shelf in there:
            if not self.given.keys() & {shelf.kind, shelf.instance_type, shelf.pool}:
                used.update([name for name, _ in self._of_table(shelf, hour)][:1])
        return sorted(self.dated.keys() - used)

    def _of_table(self, shelf: Shelf, hour: int) -> Iterator[tuple[str, float]]:
        """Names under which the table has the shelf, each with its USD per GPU-hour then, the more exact name first."""
        for name in (shelf.kind.lower(), shelf.instance_type.lower()):
            row = self.dated.get(name, ())
            place = bisect_right(row, float(hour * HOUR_SECONDS), key=lambda each: each.since)
            if place:
                yield name, row[place - 1].usd


def prices(
    policy: Policy,
    given: Mapping[str, float],
    shelves: set[Shelf],
    dated: Mapping[str, tuple[DatedPrice, ...]] = {},
) -> Prices:
    """The policy's prices, those `given` by pool or instance type, and a table's. Raises PriceUnknown."""
    pools = {pool.name: pool for pool in policy.pools}
    kinds = {name for shelf in shelves for name in (shelf.instance_type, shelf.kind)} - {""}
    strange = sorted(given.keys() - pools.keys() - kinds)
    if strange:
        raise PriceUnknown(
            f"no pool or instance type {', '.join(strange)}; there are {', '.join([*pools, *sorted(kinds)])}"
        )
    return Prices(pools, given, dated)


def dated_prices(lines: Iterable[str], name: str) -> dict[str, tuple[DatedPrice, ...]]:
    """A CSV table with the columns of `HEAD`; an empty capacity type is any, an empty since is ever since.

    Capitals, and blanks around a cell, make no difference. Raises PriceUnknown, which says in which line of `name`.
    """
    rows = csv.DictReader(lines)
    rows.fieldnames = [column.strip().lower() for column in rows.fieldnames or ()]
    if not set(HEAD) <= set(rows.fieldnames):
        raise PriceUnknown(f"{name}: its first line must name {', '.join(HEAD)}")
    table: dict[str, list[DatedPrice]] = {}
    for row in rows:
        try:
            kind, price = _dated(row)
        except ValueError as error:
            raise PriceUnknown(f"{name}, line {rows.line_num}: {error}") from error
        table.setdefault(kind, []).append(price)
    return {kind: tuple(sorted(each, key=lambda price: price.since)) for kind, each in table.items()}


def _dated(row: Mapping[str, str | None]) -> tuple[str, DatedPrice]:
    """Raises ValueError."""
    cells = [cell.strip() for cell in map(row.get, HEAD) if cell is not None]
    if len(cells) < len(HEAD):
        raise ValueError("it has fewer columns than the first")
    since, instance_type, capacity, usd = cells
    return "/".join(filter(None, (instance_type.lower(), capacity.lower()))), DatedPrice(_instant(since), _usd(usd))


def _instant(text: str) -> float:
    if not text:
        return 0.0
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _usd(text: str) -> float:
    usd = float(text)
    if not 0.0 <= usd <= MOST_USD:
        raise ValueError(f"{text} USD for a GPU for an hour is not between 0 and {MOST_USD:g}")
    return usd
