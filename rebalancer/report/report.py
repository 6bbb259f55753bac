"""The report as one value: what a script gets as JSON, and what table and page are made of. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from rebalancer.domain.words import counted
from rebalancer.ledger.books import MICRO
from rebalancer.ledger.inventory import Shelf
from rebalancer.ledger.states import BORROWED, FREE, OWNED_BUSY, OWNED_IDLE, UNKNOWN
from rebalancer.obs.predictions import DayPrediction
from rebalancer.report.advice import Advice, IdleModel, advice, idle_models
from rebalancer.report.bill import Bill, BillRow, bill
from rebalancer.report.free_hours import FreeHour, free_hours
from rebalancer.report.gathering import Gathered, models_of
from rebalancer.report.lateness import ModelHour
from rebalancer.report.prices import DatedPrice, Prices, prices
from rebalancer.report.recorded import RecordedFrom

DASH = "-"  # what is unknown
GAPS_TOLD = 20
UNCOUNTED = "nobody counts its requests, or what one of them costs is not learnt yet"
COUNTED_SHARE = 0.9  # of the time, or of the work, whose tokens and requests must have been counted: all is paid for


class ModelService(Struct, frozen=True):
    """What one model's users got, played again.

    model: its id.
    requests: that came; None where nobody counts them.
    late: late ones as it was; where nobody counts requests, replica-seconds of work that was late.
    late_alone: with its entitlement only; None of a model that owns nothing.
    late_by_autoscaler: by its own autoscaler, or its replicas as they stood; None where nothing was written.
    usd_per_1000_requests: None without a price, or where requests of nine tenths of the work were not counted.
    tokens: read and written; None where they were not counted in nine tenths of the time in which it was there.
    usd_per_million_tokens: None without a price, or where `tokens` is.
    """

    model: str
    requests: float | None
    late: float
    late_alone: float | None
    late_by_autoscaler: float | None
    usd_per_1000_requests: float | None
    tokens: float | None = None
    usd_per_million_tokens: float | None = None


class Lending(Struct, frozen=True):
    """What lending moved, and what it was worth, over the models that own something and whose requests are counted.

    gpu_hours: borrowed.
    models: how many models are compared.
    requests: of these models.
    late: as it was.
    late_alone: with their entitlements only.
    late_by_autoscaler: by what scaled them before, as recorded; None where nothing was written, as what came is that.
    autoscaler: who that is: keda, hpa, or static where nobody scaled them.
    left_out: models that are not compared, each with the reason.
    """

    gpu_hours: float
    models: int
    requests: float
    late: float
    late_alone: float
    late_by_autoscaler: float | None
    autoscaler: str
    left_out: Mapping[str, str]

    @property
    def spared(self) -> float:
        """Requests that lending kept from being late; below 0: it made more late."""
        return self.late_alone - self.late


class GapTold(Struct, frozen=True):
    """From `since` to `until` (epoch seconds) nothing is known, and why."""

    since: float
    until: float
    why: str


class Report(Struct, frozen=True):
    """All of it. GPU-hours and money are in `bill`.

    since: begin, in epoch seconds.
    until: end: the last recorded cycle.
    cycles: recorded cycles that were read.
    writes: writes that were carried out, of those recorded.
    unknown_seconds: time of which nothing is known.
    gaps: the first stretches of it.
    damaged: sentences about what could not be read.
    bill: GPU-hours and money.
    lending: what lending was worth.
    services: what users got, by model.
    idle: models that hardly do anything.
    advice: what the policy should say.
    free: GPUs that are free when.
    notes: what this report cannot know, as sentences.
    predictions: what was predicted of each day, and what came, where that was asked for.
    sources: from when to when each came: from the ledger, from the journal.
    """

    since: float
    until: float
    cycles: int
    writes: int
    unknown_seconds: float
    gaps: tuple[GapTold, ...]
    damaged: tuple[str, ...]
    bill: Bill
    lending: Lending
    services: tuple[ModelService, ...]
    idle: tuple[IdleModel, ...]
    advice: tuple[Advice, ...]
    free: tuple[FreeHour, ...]
    notes: tuple[str, ...]
    predictions: tuple[DayPrediction, ...] = ()
    sources: tuple[RecordedFrom, ...] = ()


class _Sums(NamedTuple):
    counted: bool  # requests of nine tenths of its work
    requests: float | None
    late: float
    alone: float | None
    autoscaler: float | None


def report(
    seen: Gathered,
    given_prices: Mapping[str, float],
    predictions: Sequence[DayPrediction] = (),
    dated: Mapping[str, tuple[DatedPrice, ...]] = {},
) -> Report:
    """The report of what was gathered, and of what was predicted before. Raises PriceUnknown."""
    shelves = {shelf for _, shelf in seen.books.capacity}
    of = prices(seen.named, given_prices, shelves, dated)
    money = bill(seen.books, seen.named, of)
    rows = {row.name: row for row in money.models}
    sums = {name: _sums(hours, acted=seen.writes > 0) for name, hours in models_of(seen.hours).items()}
    services = tuple(_service(name, each, rows.get(name), _tokens(seen, name)) for name, each in sorted(sums.items()))
    return Report(
        since=seen.since,
        until=seen.until,
        cycles=seen.cycles,
        writes=seen.writes,
        unknown_seconds=seen.books.unknown_micro / MICRO,
        gaps=tuple(GapTold(*gap) for gap in seen.books.gaps[:GAPS_TOLD]),
        damaged=tuple(seen.tally.damaged[:GAPS_TOLD]),
        bill=money,
        lending=_lending(seen, money, sums),
        services=services,
        idle=idle_models(money.models),
        advice=advice(seen),
        free=free_hours(seen.least_free),
        notes=(*_notes(seen, money, shelves, sums), *_unused(of, seen)),
        predictions=tuple(predictions),
        sources=tuple(seen.sources),
    )


def _sums(hours: Sequence[ModelHour], *, acted: bool) -> _Sums:
    def total(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    counted = [hour for hour in hours if hour.requests is not None]
    same = counted or hours  # on days on which nobody counts requests what is late is work
    return _Sums(
        sum(hour.counted_work for hour in counted) >= COUNTED_SHARE * sum(hour.work for hour in hours),
        total([hour.requests for hour in counted]),
        sum(hour.late for hour in same),
        total([hour.late_alone for hour in same]),
        total([hour.late_by_autoscaler for hour in same]) if acted else None,
    )


def _service(name: str, sums: _Sums, row: BillRow | None, tokens: float | None) -> ModelService:
    usd = None if row is None else row.usd
    per = None if usd is None or not sums.requests or not sums.counted else 1000.0 * usd / sums.requests
    per_million = None if usd is None or not tokens else 1e6 * usd / tokens
    return ModelService(name, sums.requests, sums.late, sums.alone, sums.autoscaler, per, tokens, per_million)


def _tokens(seen: Gathered, model: str) -> float | None:
    """What a model read and wrote; None where they were counted in less of its time: all of it is paid for."""
    counted = seen.tokens.get(model)
    enough = counted is not None and 0.0 < counted.seconds >= COUNTED_SHARE * counted.there
    return counted.tokens if counted is not None and enough else None


def _lending(seen: Gathered, money: Bill, sums: Mapping[str, _Sums]) -> Lending:
    left_out = {
        name: UNCOUNTED if each.requests is None else "it owns nothing"
        for name, each in sorted(sums.items())
        if each.requests is None or each.alone is None
    }
    compared = [each for name, each in sums.items() if name not in left_out]
    by_autoscaler = [each.autoscaler for each in compared if each.autoscaler is not None]
    return Lending(
        sum(row.hours(BORROWED) for row in money.models),
        len(compared),
        sum(each.requests or 0.0 for each in compared),
        sum(each.late for each in compared),
        sum(each.alone or 0.0 for each in compared),
        sum(by_autoscaler) if by_autoscaler else None,
        seen.autoscaler,
        left_out,
    )


def _notes(seen: Gathered, money: Bill, shelves: set[Shelf], sums: Mapping[str, _Sums]) -> Iterator[str]:
    partly = sorted(name for name, each in sums.items() if each.requests and not each.counted)
    if partly:
        yield (
            f"Cost per 1,000 requests is unknown of {', '.join(partly)}: requests were counted of less than"
            f" {100 * COUNTED_SHARE:.0f} % of the work."
        )
    uncounted = sorted(model.id for model in seen.named.models if _tokens(seen, model.id) is None)
    if uncounted:
        whose = "every model" if len(uncounted) == len(seen.named.models) else ", ".join(uncounted)
        yield (
            f"Cost per million tokens is unknown of {whose}: tokens were counted in less than"
            f" {100 * COUNTED_SHARE:.0f} % of the time."
        )
    bare = sorted({row.pool for row in money.shelves if row.usd is None})
    if bare:
        yield (
            f"There is no price for {', '.join(bare)}: give pricePerGpuHour or instancePrices in the policy,"
            f" --price {bare[0]}=USD, or --prices FILE for prices with dates, as those of a spot market."
        )
    if not any(shelf.instance_type for shelf in shelves):
        yield "Nodes name no instance type (node.kubernetes.io/instance-type), so pools stand for them."
    if not seen.writes:
        yield "Nothing was written in this time: what came is what your own autoscalers did, and is compared as such."


def _unused(of: Prices, seen: Gathered) -> Iterator[str]:
    unused = of.unused(seen.books.capacity)
    if unused:
        there = sorted({shelf.kind or shelf.pool for _, shelf in seen.books.capacity})
        yield (
            f"--prices: {', '.join(name or 'a row without instance_type' for name in unused)} priced nothing of this"
            f" time; there are {', '.join(there)}."
        )


def amount(hours: float) -> str:
    """GPU-hours for people: `1,234`, `12.3`, `0.04`."""
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 10 else f"{hours:.2f}"  # noqa: PLR2004  # digits


def money(usd: float | None) -> str:
    """USD for people, `-` where it is unknown."""
    return DASH if usd is None else f"{usd:,.0f}" if usd >= 100 else f"{usd:.2f}"  # noqa: PLR2004  # digits


def headline(of: Report) -> str:
    """What it comes to, in one sentence."""
    bought = f"{amount(of.bill.capacity_gpu_hours)} GPU-hours"
    if of.bill.usd is not None:
        bought += f" for {money(of.bill.usd)} USD"
    parts = (("owned and busy", OWNED_BUSY), ("borrowed", BORROWED), ("owned and idle", OWNED_IDLE), ("free", FREE))
    return f"{bought}: {', '.join(f'{100 * share_of(of.bill, state):.0f} % {name}' for name, state in parts)}"


def worth(of: Report) -> Iterator[str]:
    """What lending was worth, in sentences."""
    lending = of.lending
    if not lending.models:
        yield "What lending was worth is unknown: no model owns replicas and has its requests counted."
        return
    share = 100 * lending.late / lending.requests if lending.requests else 0.0
    alone = 100 * lending.late_alone / lending.requests if lending.requests else 0.0
    does = "kept" if lending.spared >= 0 else "made"
    what = "from being late" if lending.spared >= 0 else "late that would not have been"
    of_models = counted(lending.models, "model")
    yield (
        f"Lending {amount(lending.gpu_hours)} GPU-hours {does} {abs(lending.spared):,.0f} of {lending.requests:,.0f}"
        f" requests {what}: {share:.2f} % late in place of {alone:.2f} % with each of {of_models} alone."
    )
    if lending.late_by_autoscaler is not None:
        who = {"keda": "KEDA", "hpa": "HPAs"}.get(lending.autoscaler)
        what = "the replicas as they stood at first" if who is None else f"{who} within their recorded bounds"
        late = 100 * lending.late_by_autoscaler / lending.requests if lending.requests else 0.0
        yield f"With {what} {late:.2f} % would have been late ({lending.late_by_autoscaler:,.0f})."
    for name, why in lending.left_out.items():
        yield f"{name} is not compared: {why}."


def share_of(money: Bill, *states: str) -> float:
    """Share of all GPU-seconds in these states, 0-1."""
    whole = money.capacity_gpu_hours
    return sum(row.hours(*states) for row in money.models) / whole if whole else 0.0


def unknown_share(money: Bill) -> float:
    """Share of all GPU-seconds of which nothing is known."""
    return share_of(money, UNKNOWN)
