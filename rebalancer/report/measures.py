"""What a change of policy is judged by: a number before and after, and the most that is allowed of it. Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

CHANGED, MOVES, LATE, LATE_PERCENT, GPU_HOURS, USD = NAMES = (
    "changed-decisions",
    "moves",
    "late-requests",
    "late-percent",
    "gpu-hours",
    "usd",
)
LIMIT = re.compile(r"(?P<more>\+?)(?P<number>\d+(\.\d+)?)(?P<percent>%?)")


class NoLimit(ValueError):
    """What was given is no limit; the text says what one looks like."""


class Measure(Struct, frozen=True):
    """One number of a comparison.

    name: one of `NAMES`.
    before: of what there is, None where it has none or nobody knows it.
    after: of what is proposed, None where nobody knows it.
    """

    name: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        """What the proposal adds."""
        return None if self.before is None or self.after is None else self.after - self.before


class Limit(Struct, frozen=True):
    """The most that is allowed of a measure.

    measure: its name.
    most: the number; of a percentage 0-100.
    of: `all`: the whole of it; `more`: what the proposal adds; `percent`: that as a percentage of what was before.
    """

    measure: str
    most: float
    of: str = "all"

    @property
    def text(self) -> str:
        """The limit as it was given: `+5%`."""
        return f"{'' if self.of == 'all' else '+'}{self.most:g}{'%' if self.of == 'percent' else ''}"


class Judged(Struct, frozen=True):
    """A limit and whether it holds.

    limit: as it was given, `late-requests=+100`.
    holds: None where one of its numbers is not known, which is no pass.
    said: the sentence for people.
    """

    limit: str
    holds: bool | None
    said: str


def limit_of(word: str) -> Limit:
    """The limit that `late-requests=+100` spells. Raises NoLimit."""
    name, _, value = word.partition("=")
    parts = LIMIT.fullmatch(value)
    if name not in NAMES:
        raise NoLimit(f"there is no {name or 'measure'}; there are {', '.join(NAMES)}")
    if parts is None or (parts["percent"] and not parts["more"]):
        raise NoLimit(f"write {name}=100 for the most there may be, {name}=+100 or {name}=+5% for the most more")
    of = "percent" if parts["percent"] else "more" if parts["more"] else "all"
    return Limit(name, float(parts["number"]), of)


def judged(limits: Sequence[Limit], measures: Sequence[Measure]) -> tuple[Judged, ...]:
    """Every limit, in the order in which they were given."""
    by_name = {each.name: each for each in measures}
    return tuple(_judged(limit, by_name.get(limit.measure, Measure(limit.measure, None, None))) for limit in limits)


def _judged(limit: Limit, of: Measure) -> Judged:
    word = f"{limit.measure}={limit.text}"
    value = of.after if limit.of == "all" else of.change
    if value is None:
        return Judged(word, None, f"{limit.measure}: not known, so {limit.text} cannot be held against it")
    most = limit.most if limit.of != "percent" else limit.most / 100 * (of.before or 0.0)
    holds = value <= most + 1e-9 * abs(most)
    is_ = f"{number(limit.measure, value)}{'' if limit.of == 'all' else ' more'}"
    verdict = "within" if holds else "over"
    return Judged(word, holds, f"{limit.measure}: {is_}, {verdict} the limit of {limit.text}")


def number(name: str, value: float | None, *, signed: bool = False) -> str:
    """A measure's number for people, `-` where it is not known."""
    if value is None:
        return "-"
    digits = {GPU_HOURS: 1, USD: 2, LATE_PERCENT: 2}.get(name, 0)
    return f"{value:{'+' if signed else ''},.{digits}f}"
