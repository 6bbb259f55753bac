"""What users ask for: requests over an interval, from a dial that a story turns or from a recorded trace."""

import csv
import random
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rebalancer.world.serving import Requests

TRACE_COLUMNS = ("t_seconds", "model", "requests", "input_tokens", "output_tokens")


class Traffic(Protocol):
    """Anything that says what arrives."""

    def arrivals(self, since: float, until: float) -> Requests:
        """Requests that come in [since, until). Asked once for each interval, in order."""
        ...


@dataclass(slots=True)
class Dial:
    """A rate that somebody turns: it moves to the new rate in a straight line.

    request: one request with its tokens.
    rate_per_second: requests per second to which it was turned last, or with which it began.
    seed: seed of the noise in what arrives, which is that of a Poisson process; None where arrivals have no noise.
    _from: UTC epoch seconds at which it was turned last, and the requests per second that it had then; both 0 where
        nobody has turned it.
    _until: UTC epoch seconds from which on it is at `rate_per_second`, 0 where nobody has turned it.
    _random: the random numbers of the noise.
    """

    request: Requests
    rate_per_second: float
    seed: str | None = None
    _from: tuple[float, float] = (0.0, 0.0)  # when and from which rate it moves
    _until: float = 0.0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def turn(self, rate_per_second: float, now: float, over_seconds: float = 0.0) -> None:
        """Go to `rate_per_second`, there after `over_seconds`."""
        self._from = (now, self.rate(now))
        self._until = now + over_seconds
        self.rate_per_second = rate_per_second

    def rate(self, at: float) -> float:
        """Requests per second at an instant."""
        started, before = self._from
        if at >= self._until:
            return self.rate_per_second
        if at <= started:
            return before  # also where it turns at once: no time lies between
        share = (at - started) / (self._until - started)
        return before + (self.rate_per_second - before) * share

    def arrivals(self, since: float, until: float) -> Requests:
        """Requests that come in [since, until)."""
        mean = self.rate((since + until) / 2) * (until - since)
        noise = 0.0 if self.seed is None else self._random.gauss(0.0, mean**0.5)
        return self.request.times(max(0.0, mean + noise))


class BadTrace(ValueError):
    """A trace that cannot be used; the text names the line and what it should hold."""


Rows = list[tuple[float, Requests]]


class Trace:
    """One model's recorded arrivals. A row's requests come evenly in the second that begins at its time."""

    def __init__(self, started_at: float, rows: Iterable[tuple[float, Requests]]) -> None:
        ordered = sorted(rows, key=lambda row: row[0])
        self._started_at = started_at
        self._times = [time for time, _ in ordered]
        self._amounts = [amount for _, amount in ordered]

    def arrivals(self, since: float, until: float) -> Requests:
        """Requests that come in [since, until)."""
        since, until = since - self._started_at, until - self._started_at
        total = Requests()
        for index in range(bisect_left(self._times, since - 1.0), bisect_left(self._times, until)):
            begins = self._times[index]
            inside = min(until, begins + 1.0) - max(since, begins)
            if inside > 0:
                total += self._amounts[index].times(inside)
        return total


def read_trace(lines: Iterable[str]) -> Mapping[str, Rows]:
    """Rows per model of a CSV with the columns `TRACE_COLUMNS`. Raises BadTrace."""
    reader = csv.DictReader(lines)
    header = list(reader.fieldnames or ())
    missing = [name for name in TRACE_COLUMNS if name not in header]
    if missing:
        raise BadTrace(f"line 1: no column {', '.join(missing)}; the header is {','.join(TRACE_COLUMNS)}")
    check_once(header)
    rows: dict[str, Rows] = {}
    for row in reader:
        if None in row:
            raise BadTrace(f"line {reader.line_num}: it has more cells than the header, which has {len(header)}")
        at, count, prompt, generated = (
            _number(row, name, reader.line_num) for name in TRACE_COLUMNS if name != "model"
        )
        rows.setdefault(row["model"], []).append((at, Requests(count, prompt, generated)))
    if not rows:
        raise BadTrace("line 2: no rows; each says how many requests came in one second")
    return rows


def check_once(header: Sequence[str]) -> None:
    """Raises BadTrace where a column is there twice: nobody knows which of them counts."""
    twice = [name for name in TRACE_COLUMNS if header.count(name) > 1]
    if twice:
        raise BadTrace(f"line 1: more than one column {', '.join(twice)}")


def _number(row: Mapping[str, str | None], name: str, line: int) -> float:
    try:
        value = -1.0 if "_" in (row[name] or "") else float(row[name] or "")  # 1_000 is a number to Python alone
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise BadTrace(f"line {line}: {name} is {row[name]!r}, not a number from 0 on")
    return value
