"""What the same traffic came to on all sides, in a terminal 80 wide: a picture over time, then the numbers."""

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rebalancer.sandbox.demo_peers import OURS, Stretch
from rebalancer.sandbox.oracle import Marks

COLUMNS = 50  # of the picture: with names and numbers it is 79 wide
NAME, NUMBER = 16, 12
BARS = " ▁▂▃▄▅▆▇█"
GOOD, QUIET = "green", "dim"
NOTE = (
    "rebalancer: measured here. KEDA: played, the same requests in the same simulated cluster with KEDA and Karpenter "
    "alone; own GPUs: each model up to its entitlement, shared: up to the policy's maxReplicas. A request is late when "
    "its first token takes longer than the SLO; of image, which has none, when its client gave up: it loses its only "
    "spot node here, under KEDA one of two that are rented all along. Until the override, which is a person's doing."
)


def picture(stretch: Stretch, marks: Marks) -> RenderableType:
    """Late and waiting requests over time, a line for each side, and under them the sums by model."""
    begin, end = stretch.looks[0].at, stretch.looks[-1].at
    width = (end - begin) / COLUMNS
    late = {side: stretch.late_by(side, COLUMNS) for side in stretch.sides}
    waiting = {side: stretch.waiting_by(side, COLUMNS) for side in stretch.sides}
    return Group(
        Text(f"\nLATE REQUESTS, each column {width:.1f} s of the demo's clock", style="bold"),
        *_rows(late, [f"{sum(values):,.0f}" for values in late.values()]),
        _axis(begin, end, marks),
        Text("\nREQUESTS THAT WAIT", style="bold"),
        *_rows(waiting, [f"at most {max(values):,.0f}" for values in waiting.values()]),
        Text(),
        _table(stretch),
        Text(f"\n{verdict(stretch)}\n", style="bold"),
        Text(NOTE, style=QUIET),
    )


def sums(stretch: Stretch) -> str:
    """Late requests of all sides in one line."""
    totals = ((side, sum(stretch.late(side, model) for model in _models(stretch))) for side in stretch.sides)
    return "late: " + "   ".join(f"{side} {total:,.0f}" for side, total in totals)


def worst_off(stretch: Stretch) -> list[str]:
    """The model with the highest share of late requests on each side, and that share: `code: 99%`."""
    shares = ({model: _share(stretch, side, model) for model in _models(stretch)} for side in stretch.sides)
    worst = ((max(each, key=each.__getitem__), max(each.values())) for each in shares)
    return [f"{model}: {share:.0%}" for model, share in worst]


def verdict(stretch: Stretch) -> str:
    """`1,116 late of 5,903` on a line, `61 % fewer than with KEDA, own GPUs` and the like on the next ones."""
    every = list(_models(stretch))
    late = {side: sum(stretch.late(side, model) for model in every) for side in stretch.sides}
    came = sum(stretch.arrived(OURS, model) for model in every)
    beside = (f"{_compared(late[OURS], theirs)} than with {side}" for side, theirs in late.items() if side != OURS)
    return "\n".join([f"{late[OURS]:,.0f} late of {came:,.0f}", *beside])


def _compared(ours: float, theirs: float) -> str:
    if ours <= theirs:
        return f"{(theirs - ours) / theirs:.0%} fewer".replace("%", " %") if theirs else "no fewer"
    return f"{ours - theirs:,.0f} more"


def _models(stretch: Stretch) -> Iterable[str]:
    return stretch.looks[-1].counts[OURS]


def _rows(values: dict[str, list[float]], numbers: Sequence[str]) -> Iterable[Text]:
    """One line per side, all by one measure."""
    most = max((value for each in values.values() for value in each), default=0.0)
    for (side, each), number in zip(values.items(), numbers, strict=True):
        bars = "".join(_bar(value, most) for value in each)
        row = Text(f"{side:<{NAME}}", style=GOOD if side == OURS else "")
        yield row.append(bars, style=GOOD if side == OURS else "red").append(f" {number:>{NUMBER}}", style="bold")


def _bar(value: float, most: float) -> str:
    """Nothing for nothing; whatever is there shows."""
    if most <= 0.0 or value < 0.5:  # noqa: PLR2004  less than half a request: a fluid flows away slowly
        return BARS[0]
    return BARS[max(1, round(value / most * (len(BARS) - 1)))]


def _axis(begin: float, end: float, marks: Marks) -> Text:
    """What the story did, under the column in which it did it."""
    line = [" "] * COLUMNS
    for at, word in (
        (marks.surge_at, "^surge"),
        (marks.notice_at, "^notice"),
        (marks.back_at, "^code is back"),
    ):
        if begin <= at < end:
            column = min(int((at - begin) / (end - begin) * COLUMNS), COLUMNS - len(word))
            line[column : column + len(word)] = word
    return Text(" " * NAME + "".join(line), style=QUIET)


def _table(stretch: Stretch) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("LATE, OF ALL THAT CAME")
    for side in stretch.sides:
        how = "measured" if side == OURS else "played"
        table.add_column(f"{side}\n{how}", justify="right", style=GOOD if side == OURS else "")
    for model in _models(stretch):
        table.add_row(
            f"{model}, of {stretch.arrived(OURS, model):,.0f}",
            *(f"{stretch.late(side, model):,.0f}" for side in stretch.sides),
        )
    every = list(_models(stretch))
    came = sum(stretch.arrived(OURS, model) for model in every)
    for what, count in ((f"all, of {came:,.0f}", stretch.late), ("of these gave up", stretch.gave_up)):
        totals = (sum(count(side, model) for model in every) for side in stretch.sides)
        table.add_row(what, *(f"{total:,.0f}" for total in totals), style="bold" if count == stretch.late else "")
    table.add_row("worst off", *worst_off(stretch))
    table.add_row("spot GPUs rented", *(f"{stretch.rented(side):.1f}" for side in stretch.sides))
    return table


def _share(stretch: Stretch, side: str, model: str) -> float:
    came = stretch.arrived(side, model)
    return stretch.late(side, model) / came if came else 0.0
