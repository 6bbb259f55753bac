"""A result in words and numbers: the rows that the command prints and the page shows."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from rebalancer.sim.contest.outcome import ModelOutcome, RunOutcome

UNKNOWN = "?"
PART = "  "  # begins the name of a row that belongs to the row above


class OutcomeDifference(Struct, frozen=True):
    """What the second run violates more than the first, as a share of all requests, with its 95 % interval.

    first: name of the first run.
    second: name of the second run.
    violation: the second run's share of late requests less the first run's; below 0 where the second run is better.
    low: lower end of the interval of `violation`, None where the trace is too short to draw from.
    high: upper end of that interval, None where the trace is too short to draw from.
    counts: whether the interval holds no 0, None where the trace is too short to draw from.
    """

    first: str
    second: str
    violation: float
    low: float | None
    high: float | None
    counts: bool | None

    @property
    def other_way(self) -> "OutcomeDifference":
        """What the first run violates more than the second."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return OutcomeDifference(self.second, self.first, -self.violation, low, high, self.counts)

    @property
    def sentence(self) -> str:
        """In plain words."""
        points = 100 * self.violation
        more = "less" if round(points, 2) < 0 else "more"
        late = f"is late with {abs(points):.2f} points {more} of the requests than {self.first}"
        if self.low is None or self.high is None:
            return (
                f"{self.second} {late}; the trace is too short to say whether that counts: it takes two pieces of"
                " 10 minutes"
            )
        between = f"95 % interval {100 * self.low:+z.2f} to {100 * self.high:+z.2f}"
        counts = "this counts" if self.counts else "this does not count, it may be chance"
        return f"{self.second} {late} ({between}): {counts}"


def headline(first: RunOutcome, second: RunOutcome, gpus: tuple[int, int]) -> str:
    """What the second run is worth beside the first, in one sentence; `gpus`: how many each had.

    `38 % fewer late requests than keda:work@0.775 on the same 16 GPUs: 12,420 instead of 20,210`.
    """
    where = f"on the same {gpus[1]} GPUs" if gpus[0] == gpus[1] else f"on {gpus[1]} GPUs instead of {gpus[0]}"
    before, after = round(first.late), round(second.late)
    if before == after:
        return f"As many late requests as under {first.name} {where}: {after:,}"
    if not before:
        return f"{after:,} late requests {where}, and none under {first.name}"
    share = (after - before) / before
    word = "fewer" if share < 0 else "more"
    much = f"{100 * abs(share):.0f} %" if round(100 * abs(share)) else "Less than 1 %"
    return f"{much} {word} late requests than under {first.name} {where}: {after:,} instead of {before:,}"


def verdicts(first: RunOutcome, second: RunOutcome) -> list[str]:
    """A line for each model with requests: how much of them is late under the second run, and under the first."""
    before = {each.model: each.violation for each in first.models}
    lines = []
    for each in second.models:
        then = before.get(each.model)
        if each.violation is None or then is None:
            continue
        now, was = _percent(each.violation), _percent(then)
        if now == was:
            lines.append(f"{each.model}: no difference, {now} late")
        else:
            word = "better" if each.violation < then else "worse"
            lines.append(f"{each.model}: {word}, {now} late instead of {was}")
    return lines


def rows(outcomes: Sequence[RunOutcome], *, wide: bool = False) -> list[list[str]]:
    """A table, heads first: a column per run, and what the second changes where there are two. `wide`: all by model.

    A change says whether it is better or worse; GPU-hours, loans and starts are neither by themselves.
    """
    table = [["", *(each.name for each in outcomes), *(["change"] if len(outcomes) == 2 else [])]]  # noqa: PLR2004  two have a difference
    points, count, more = _judged(_points), "{:+z,.0f}".format, _judged("{:+z,.0f}".format)
    table.append(_row("violation", [each.violation for each in outcomes], _percent, points))
    table += _parts(outcomes, lambda each: each.violation, _percent, points)
    table.append(_row("late minutes", [each.late_minutes for each in outcomes], _percent, points))
    if wide:
        table += _parts(outcomes, lambda each: each.late_minutes, _percent, points)
    table.append(["worst model", *(each.worst_model or UNKNOWN for each in outcomes)])
    table.append(_row(f"{PART}its violation", [each.worst_model_violation for each in outcomes], _percent, points))
    table.append(_row("GPU-hours", [each.gpu_hours for each in outcomes], _hours, _more_hours))
    if wide:
        table += _parts(outcomes, lambda each: each.gpu_hours, _hours, _more_hours)
    table.append(_row("lent GPU-hours", [each.lent_gpu_hours for each in outcomes], _hours, _more_hours))
    if wide:
        table += _parts(outcomes, lambda each: each.lent_gpu_hours, _hours, _more_hours)
    table += _costs(outcomes)
    table.append(_row("starts + stops", [each.starts_and_stops for each in outcomes], _whole, count))
    table.append(_row("floor breaches", [each.floor_breaches for each in outcomes], _whole, more))
    if wide:
        table.append(_row("requests", [each.requests for each in outcomes], _whole, count))
        table += _parts(outcomes, lambda each: each.requests, _whole, count)
        table.append(_row("never served", [sum(m.lost for m in each.models) for each in outcomes], _whole, more))
        table += _parts(outcomes, lambda each: each.lost, _whole, more)
    return [[*row, *[""] * (len(table[0]) - len(row))] for row in table]


Said = Callable[[float], str]


def _judged(form: Said) -> Said:
    """The same with a word: of what is told so less is better."""
    return lambda change: f"{form(change)} {'better' if change < 0 else 'worse'}"


def _costs(outcomes: Sequence[RunOutcome]) -> list[list[str]]:
    """Owned GPUs cost the same whoever uses them; rented ones, where there are any, while they are held."""
    form = _judged("{:+z,.2f}".format)
    if any(each.owned_usd is None or each.rented_usd is None for each in outcomes):
        return [_row("cost, USD", [each.cost_usd for each in outcomes], _usd, form)]
    table = [_row("owned GPUs, USD", [each.owned_usd for each in outcomes], _usd, form)]
    if any(each.rented_usd for each in outcomes):
        table.append(_row("rented GPUs, USD", [each.rented_usd for each in outcomes], _usd, form))
    return table


def _row(name: str, values: Sequence[float | None], form: Said, change: Said) -> list[str]:
    cells = [UNKNOWN if value is None else form(value) for value in values]
    match values:
        case [float() | int() as before, float() | int() as after]:
            cells.append(change(after - before) if form(after) != form(before) else "0")
        case [_, _]:
            cells.append(UNKNOWN)
        case _:
            pass
    return [name, *cells]


def _parts(
    outcomes: Sequence[RunOutcome], of: Callable[[ModelOutcome], float | None], form: Said, change: Said
) -> list[list[str]]:
    names = [each.model for each in outcomes[0].models]
    others = [{each.model: each for each in outcome.models} for outcome in outcomes]
    return [
        _row(PART + name, [of(models[name]) if name in models else None for models in others], form, change)
        for name in names
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _points(share: float) -> str:
    return f"{100 * share:+z.2f}"


def _hours(value: float) -> str:
    return f"{value:,.1f}"


def _more_hours(value: float) -> str:
    return f"{value:+z,.1f}"


def _usd(value: float) -> str:
    return f"{value:,.2f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"
