"""The report in words and columns: what the command prints at 80 columns, and the rows that the page shows too."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from rebalancer.domain.words import counted
from rebalancer.ledger.states import BORROWED, OWNED_BUSY, OWNED_IDLE, STATES
from rebalancer.report.advice import patch
from rebalancer.report.bill import BillRow
from rebalancer.report.free_hours import FreeHour
from rebalancer.report.predictions_telling import causes_said, courses_said, prediction_rows, predictions_said
from rebalancer.report.recorded import LEDGER
from rebalancer.report.report import DASH, ModelService, Report, amount, headline, money, unknown_share, worth

NOBODY = "(nobody)"
# At 80 columns; below the tables, as the column `late` reads like what was measured.
REPLAYED = "late, alone and before are the recorded work played again, not measured requests"
LATE_AS_WORK = "where nobody counts requests, late is in seconds of one replica's work"
NONE = "(none)"  # of a team or a cost center: models without one, and what nobody held
WIDE = 80
MODELS = ("model", "GPU-h", "busy", "idle", "borr.", "lent", "other", "USD", "late", "alone")
MOST_PREDICTIONS = 40  # lines of it, the last; the page and JSON have all
MOST_ADVICE = 12  # lines of it; the page and JSON have all


def instant(at: float) -> str:
    """`2027-01-15 08:00 UTC`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def lasted(seconds: float) -> str:
    """`30.0 days`, `5.2 h`, `3 min`."""
    if seconds >= 172_800:  # noqa: PLR2004  # two days
        return f"{seconds / 86_400:.1f} days"
    if seconds < 120:  # noqa: PLR2004  # two minutes
        return f"{seconds:.0f} s"
    return f"{seconds / 3600:.1f} h" if seconds >= 7200 else f"{seconds / 60:.0f} min"  # noqa: PLR2004  # two hours


def title(of: Report) -> str:
    """What it is a report of."""
    return f"{instant(of.since)} to {instant(of.until)}, {lasted(of.until - of.since)}, {counted(of.cycles, 'cycle')}"


def words(of: Report) -> list[str]:
    """The headline, what lending was worth, what is not known."""
    lines = [f"{headline(of)}.", *courses_said(of.predictions), *worth(of)]
    if of.unknown_seconds >= 1.0:
        first = of.gaps[0]
        lines.append(f"Nobody looked for {lasted(of.unknown_seconds)}, first from {instant(first.since)}: {first.why}.")
    if unknown_share(of.bill):
        lines.append(
            f"{100 * unknown_share(of.bill):.1f} % of the GPU-seconds are unknown: nobody looked, or no work was told."
        )
    if any(each.name == LEDGER for each in of.sources):
        lines.append(f"{sources_said(of)}.")
    lines += [f"Damaged: {each}." for each in of.damaged[:3]]
    return [*lines, *of.notes]


def sources_said(of: Report) -> str:
    """From when to when each came, in time."""
    spans = [f"from the {each.name} {instant(each.since)} to {instant(each.until)}" for each in of.sources]
    sentence = "; ".join(spans)
    return f"{sentence[:1].upper()}{sentence[1:]}"


def model_rows(of: Report) -> list[list[str]]:
    """GPU-hours by model and what its users got, heads first; the last row is what nobody held."""
    services = {each.model: each for each in of.services}
    return [list(MODELS), *(_model_row(row, services.get(row.name)) for row in of.bill.models), _sum_row(of)]


def _model_row(row: BillRow, service: ModelService | None) -> list[str]:
    late = alone = DASH
    if service is not None and service.requests:
        late = f"{100 * service.late / service.requests:.1f}%"
        if service.late_alone is not None:
            alone = f"{100 * service.late_alone / service.requests:.1f}%"
    return [row.name or NOBODY, *_hours(row), money(row.usd), late, alone]


def _sum_row(of: Report) -> list[str]:
    rows = of.bill.models
    seconds = {state: sum(row.gpu_seconds.get(state, 0.0) for row in rows) for row in rows for state in row.gpu_seconds}
    lent = sum(row.lent_gpu_hours for row in rows)
    whole = BillRow("all", seconds, of.bill.capacity_gpu_hours, of.bill.usd, lent_gpu_hours=lent)
    lending = of.lending
    late = alone = DASH
    if lending.requests:
        late, alone = (f"{100 * each / lending.requests:.1f}%" for each in (lending.late, lending.late_alone))
    return ["all", *_hours(whole), money(of.bill.usd), late, alone]


def _hours(row: BillRow) -> list[str]:
    named = (OWNED_BUSY, OWNED_IDLE, BORROWED)
    other = row.gpu_hours - row.hours(*named)
    parts = [row.gpu_hours, *(row.hours(state) for state in named), row.lent_gpu_hours, max(0.0, other)]
    return [amount(each) for each in parts]


def group_rows(kind: str, rows: Sequence[BillRow], of: Report) -> list[list[str]]:
    """GPU-hours and money by team or cost center, heads first."""
    whole = of.bill.capacity_gpu_hours or 1.0
    body = [
        [row.name or NONE, amount(row.gpu_hours), f"{100 * row.gpu_hours / whole:.1f}%", money(row.usd)] for row in rows
    ]
    return [[kind, "GPU-h", "share", "USD"], *body]


def pool_rows(of: Report) -> list[list[str]]:
    """Every pool's GPU-hours by state, heads first."""
    heads = [
        "pool",
        "type",
        "GPU-h",
        "busy",
        "idle",
        "borr.",
        "loading",
        "ending",
        "doomed",
        "foreign",
        "free",
        "warm",
        "?",
    ]
    body = [
        [
            row.pool,
            "/".join(filter(None, (row.instance_type, row.capacity_type))) or DASH,
            amount(row.capacity_gpu_seconds / 3600),
            *(amount(row.gpu_seconds.get(state, 0.0) / 3600) for state in STATES),
        ]
        for row in of.bill.shelves
    ]
    return [heads, *body]


def request_rows(of: Report) -> list[list[str]]:
    """What users got, by model, heads first."""
    heads = ["model", "requests", "late", "alone", "before", "USD/1,000", "USD/M tokens"]
    body = [
        [
            each.model,
            DASH if each.requests is None else f"{each.requests:,.0f}",
            f"{each.late:,.0f}",
            *(DASH if value is None else f"{value:,.0f}" for value in (each.late_alone, each.late_by_autoscaler)),
            *(
                DASH if usd is None else f"{usd:.3f}"
                for usd in (each.usd_per_1000_requests, each.usd_per_million_tokens)
            ),
        ]
        for each in of.services
    ]
    return [heads, *body]


def free_rows(free: Sequence[FreeHour]) -> list[list[str]]:
    """GPUs that nine of ten such hours had free, a row per pool, in pieces of three hours of the day, heads first."""
    begins = range(0, 24, 3)
    pools = sorted({each.pool for each in free})
    rows = []
    for pool in pools:
        mine = {each.hour: each.likely for each in free if each.pool == pool}
        cells = [[mine[hour] for hour in range(begin, begin + 3) if hour in mine] for begin in begins]
        rows.append([pool, *(str(min(cell)) if cell else DASH for cell in cells)])
    return [["UTC", *(f"{begin:02}-{begin + 3:02}" for begin in begins)], *rows]


def lines(of: Report) -> Iterator[str]:
    """What the command prints."""
    yield title(of)
    yield from words(of)
    yield ""
    yield from columns(model_rows(of))
    for kind, rows in (("team", of.bill.teams), ("cost center", of.bill.cost_centers)):
        if any(row.name for row in rows):
            yield ""
            yield from columns(group_rows(kind, rows, of))
    if of.services:
        yield ""
        yield from columns(request_rows(of))
        yield from requests_said(of)
    if of.predictions:
        yield ""
        yield predictions_said(of.predictions)
        yield from columns(prediction_rows(of.predictions[-MOST_PREDICTIONS:]))
        yield from causes_said(of.predictions[-MOST_PREDICTIONS:])
    if of.idle:
        yield ""
        yield from (idle_said(of))
    if of.free:
        yield ""
        yield f"GPUs free in nine of ten such hours ({counted(max(each.days for each in of.free), 'day')} recorded):"
        yield from columns(free_rows(of.free))
    if of.advice:
        yield ""
        yield "The policy could say:"
        for each in of.advice[:MOST_ADVICE]:
            now = "none" if each.now is None else f"{each.now:g}"
            yield f"  {each.subject} {each.key} {now} -> {each.better:g}: {each.why}"
        if len(of.advice) > MOST_ADVICE:
            yield f"  and {len(of.advice) - MOST_ADVICE} more: -o json and --page have all"
        yield ""
        yield patch(of.advice)


def requests_said(of: Report) -> Iterator[str]:
    """What the numbers of the table of requests are."""
    yield REPLAYED
    if any(each.requests is None for each in of.services):
        yield LATE_AS_WORK


def idle_said(of: Report) -> Iterator[str]:
    """A sentence for each idle model."""
    for each in of.idle:
        cost = "" if each.usd is None else f", {money(each.usd)} USD idle"
        yield f"{each.model} is idle: {100 * each.busy_share:.1f} % of {amount(each.gpu_hours)} GPU-hours busy{cost}."


def folded(lines: Iterable[str]) -> Iterator[str]:
    """Sentences in lines of at most 80 columns; tables and patches are narrower already."""
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        narrow = len(line) <= WIDE or "\n" in line
        yield from [line] if narrow else textwrap.wrap(line, WIDE, subsequent_indent=f"{indent}  ")


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of one width, the first column to the left, the others to the right.

    A name that is too long for its column stands above its row: half of two names may be the same.
    """
    wide = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    wide[0] = min(wide[0], max(8, WIDE - sum(wide[1:]) - 2 * (len(wide) - 1)))
    for head, *cells in rows:
        right = "  ".join(cell.rjust(size) for cell, size in zip(cells, wide[1:], strict=True))
        if len(head) > wide[0]:
            yield head
        yield f"{head if len(head) <= wide[0] else '':{wide[0]}}  {right}".rstrip()
