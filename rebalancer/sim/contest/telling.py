"""A result in words and numbers: the rows that the command prints and the page shows."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from rebalancer.sim.contest.outcome import ModelOutcome, Outcome

UNKNOWN = "?"
PART = "  "  # begins the name of a row that belongs to the row above


class Difference(Struct, frozen=True):
    """What the second run violates more than the first, as a share of all requests, with its 95 % interval.

    `counts`: the interval holds no 0. None where the trace is too short to draw from.
    """

    first: str
    second: str
    violation: float
    low: float | None
    high: float | None
    counts: bool | None

    @property
    def said(self) -> str:
        """In plain words."""
        points = 100 * self.violation
        if self.low is None or self.high is None:
            return (
                f"{self.second} violates {points:+.2f} points against {self.first}; the trace is too short to say"
                " whether that counts: it takes two pieces of 10 minutes"
            )
        between = f"95 % interval {100 * self.low:+.2f} to {100 * self.high:+.2f}"
        if self.counts:
            more = "more" if points > 0 else "less"
            return f"{self.second} violates {abs(points):.2f} points {more} than {self.first} ({between}): this counts"
        return (
            f"{self.second} violates {points:+.2f} points against {self.first} ({between}):"
            " this does not count, it may be chance"
        )


def rows(outcomes: Sequence[Outcome], *, wide: bool = False) -> list[list[str]]:
    """A table, heads first: a column per run, and their difference where there are two. `wide`: all by model."""
    table = [["", *(each.name for each in outcomes), *(["change"] if len(outcomes) == 2 else [])]]  # noqa: PLR2004  two have a difference
    table.append(_row("violation", [each.violation for each in outcomes], _percent, _points))
    table += _parts(outcomes, lambda each: each.violation, _percent, _points)
    table.append(_row("late minutes", [each.late_minutes for each in outcomes], _percent, _points))
    if wide:
        table += _parts(outcomes, lambda each: each.late_minutes, _percent, _points)
    table.append(["worst model", *(each.worst_model or UNKNOWN for each in outcomes)])
    table.append(_row(f"{PART}its violation", [each.worst_model_violation for each in outcomes], _percent, _points))
    table.append(_row("GPU-hours", [each.gpu_hours for each in outcomes], _hours, _more_hours))
    if wide:
        table += _parts(outcomes, lambda each: each.gpu_hours, _hours, _more_hours)
    table.append(_row("lent GPU-hours", [each.lent_gpu_hours for each in outcomes], _hours, _more_hours))
    if wide:
        table += _parts(outcomes, lambda each: each.lent_gpu_hours, _hours, _more_hours)
    table.append(_row("cost, USD", [each.cost_usd for each in outcomes], _usd, "{:+,.2f}".format))
    table.append(_row("starts + stops", [each.starts_and_stops for each in outcomes], _whole, "{:+,.0f}".format))
    table.append(_row("floor breaches", [each.floor_breaches for each in outcomes], _whole, "{:+,.0f}".format))
    if wide:
        table.append(_row("requests", [each.requests for each in outcomes], _whole, "{:+,.0f}".format))
        table += _parts(outcomes, lambda each: each.requests, _whole, "{:+,.0f}".format)
        table.append(
            _row("never served", [sum(m.lost for m in each.models) for each in outcomes], _whole, "{:+,.0f}".format)
        )
        table += _parts(outcomes, lambda each: each.lost, _whole, "{:+,.0f}".format)
    return [[*row, *[""] * (len(table[0]) - len(row))] for row in table]


Said = Callable[[float], str]


def _row(name: str, values: Sequence[float | None], said: Said, change: Said) -> list[str]:
    cells = [UNKNOWN if value is None else said(value) for value in values]
    match values:
        case [float() | int() as before, float() | int() as after]:
            cells.append(change(after - before) if said(after) != said(before) else "0")
        case [_, _]:
            cells.append(UNKNOWN)
        case _:
            pass
    return [name, *cells]


def _parts(
    outcomes: Sequence[Outcome], of: Callable[[ModelOutcome], float | None], said: Said, change: Said
) -> list[list[str]]:
    names = [each.model for each in outcomes[0].models]
    others = [{each.model: each for each in outcome.models} for outcome in outcomes]
    return [
        _row(PART + name, [of(models[name]) if name in models else None for models in others], said, change)
        for name in names
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _points(share: float) -> str:
    return f"{100 * share:+.2f}"


def _hours(value: float) -> str:
    return f"{value:,.1f}"


def _more_hours(value: float) -> str:
    return f"{value:+,.1f}"


def _usd(value: float) -> str:
    return f"{value:,.2f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"
