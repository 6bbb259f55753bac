"""The ledger as GPU-hours and money: by model, team, cost center, pool and instance type. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct

from rebalancer.domain.policy import Model, Policy
from rebalancer.ledger.books import Books
from rebalancer.ledger.inventory import Shelf, charged_to
from rebalancer.ledger.states import BORROWED, OWNED_BUSY, OWNED_IDLE, STATES
from rebalancer.report.prices import Prices

MICRO_HOUR = 3_600_000_000  # GPU-microseconds of a GPU-hour
NOBODY = ""  # as model, team or cost center: foreign pods, free GPUs, and time of which nothing is known


class BillRow(Struct, frozen=True):
    """What one of its kind comes to.

    name: id of the model, or name of the team or cost center; "" is nobody.
    team: the model's team, of other rows "".
    cost_center: whom the model is charged to; of other rows "".
    gpu_seconds: exactly, by the words of the ledger.
    gpu_hours: all of these together.
    lent_gpu_hours: GPU-hours of its own that others borrowed; they are in the borrowers' rows.
    usd: its price; None where some of it has none.
    """

    name: str
    gpu_seconds: Mapping[str, float]
    gpu_hours: float
    usd: float | None
    team: str = ""
    cost_center: str = ""
    lent_gpu_hours: float = 0.0

    def hours(self, *states: str) -> float:
        """GPU-hours in these states."""
        return sum(self.gpu_seconds.get(state, 0.0) for state in states) / 3600

    @property
    def busy_share(self) -> float | None:
        """Share of its own GPU-seconds that work kept busy; None where it had none whose use is known."""
        own = self.hours(OWNED_BUSY, OWNED_IDLE)
        return self.hours(OWNED_BUSY) / own if own else None

    @property
    def served_hours(self) -> float:
        """GPU-hours of Ready replicas whose use is known."""
        return self.hours(OWNED_BUSY, OWNED_IDLE, BORROWED)


class ShelfRow(Struct, frozen=True):
    """One pool's GPUs of one instance type.

    pool: name of the pool.
    instance_type: the nodes' label, "" where they have none.
    gpu_seconds: by the words of the ledger.
    capacity_gpu_seconds: counted from the nodes, not from who held them.
    usd_per_gpu_hour: mean over the time; None where nobody says.
    usd: its price.
    capacity_type: `spot`, `on-demand` or `reserved`, "" where nodes do not say.
    """

    pool: str
    instance_type: str
    gpu_seconds: Mapping[str, float]
    capacity_gpu_seconds: float
    usd_per_gpu_hour: float | None
    usd: float | None
    capacity_type: str = ""


class Bill(Struct, frozen=True):
    """Everything that was there, by who had it; each of the four lists adds up to the same.

    models: a row for each model that had GPUs, and one, named "", for what no model had.
    teams: the same by team.
    cost_centers: the same by the cost center that is charged.
    shelves: a row for each shelf.
    capacity_gpu_hours: GPU-hours that were there.
    usd: their price in USD, None where the price of one shelf is not known, or nothing was there.
    residual_gpu_microseconds: what was there less what was charged, over every hour and shelf. It is 0.
    """

    models: tuple[BillRow, ...]
    teams: tuple[BillRow, ...]
    cost_centers: tuple[BillRow, ...]
    shelves: tuple[ShelfRow, ...]
    capacity_gpu_hours: float
    usd: float | None
    residual_gpu_microseconds: int


def bill(books: Books, policy: Policy, of: Prices) -> Bill:
    """`books` as money. Models are charged to the team and cost center that `policy` names."""
    entries = {model.id: model for model in policy.models}
    lent: Counter[str] = Counter()
    for (_, _, owner), amount in books.lent.items():
        lent[owner] += amount
    models = _rows(books, of, lambda model: model, lent, entries)
    teams = _rows(books, of, lambda model: entries[model].team if model in entries else NOBODY)
    centers = _rows(books, of, lambda model: cost_center(entries.get(model)))
    shelves = _shelves(books, of)
    prices_known = [row.usd for row in shelves]
    return Bill(
        models,
        teams,
        centers,
        shelves,
        sum(books.capacity.values()) / MICRO_HOUR,
        None if None in prices_known or not prices_known else sum(each or 0.0 for each in prices_known),
        sum(abs(amount) for amount in books.residual().values()),
    )


def cost_center(entry: Model | None) -> str:
    """The cost center or team that a model is charged to; NOBODY where there is no model."""
    return NOBODY if entry is None else charged_to(entry)


def _rows(
    books: Books,
    of: Prices,
    name_of: Callable[[str], str],
    lent: Mapping[str, int] | None = None,
    entries: Mapping[str, Model] | None = None,
) -> tuple[BillRow, ...]:
    amounts: dict[str, Counter[str]] = {}
    usd: dict[str, float | None] = {}
    for (piece, shelf, model, state), amount in books.charged.items():
        name, price = name_of(model) if model else NOBODY, of.of(shelf, piece)
        amounts.setdefault(name, Counter())[state] += amount
        known = usd.get(name, 0.0)
        usd[name] = None if price is None or known is None else known + price * amount / MICRO_HOUR
    rows = []
    for name in sorted(amounts, key=lambda name: (not name, -sum(amounts[name].values()), name)):
        entry = (entries or {}).get(name)
        rows.append(
            BillRow(
                name,
                _seconds(amounts[name]),
                sum(amounts[name].values()) / MICRO_HOUR,
                usd[name],
                entry.team if entry else "",
                cost_center(entry),
                (lent or {}).get(name, 0) / MICRO_HOUR,
            )
        )
    return tuple(rows)


def _shelves(books: Books, of: Prices) -> tuple[ShelfRow, ...]:
    amounts: dict[Shelf, Counter[str]] = {}
    for (_, shelf, _, state), amount in books.charged.items():
        amounts.setdefault(shelf, Counter())[state] += amount
    there: Counter[Shelf] = Counter()
    paid: dict[Shelf, float | None] = {}
    for (piece, shelf), amount in books.capacity.items():
        there[shelf] += amount
        price, known = of.of(shelf, piece), paid.get(shelf, 0.0)
        paid[shelf] = None if price is None or known is None else known + price * amount / MICRO_HOUR
    rows = []
    for shelf in sorted(there):
        usd, hours = paid[shelf], there[shelf] / MICRO_HOUR
        price = usd / hours if usd is not None and hours else None
        seconds = _seconds(amounts.get(shelf, Counter()))
        rows.append(
            ShelfRow(
                shelf.pool, shelf.instance_type, seconds, there[shelf] / 1_000_000, price, usd, shelf.capacity_type
            )
        )
    return tuple(rows)


def _seconds(amounts: Mapping[str, int]) -> dict[str, float]:
    return {state: amounts[state] / 1_000_000 for state in STATES if amounts.get(state)}
