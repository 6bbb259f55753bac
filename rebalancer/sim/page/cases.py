"""The suite's rows put together by case: each controller's means over seeds, and ours against the best tuned peer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from rebalancer.sim.demand import F64
from rebalancer.sim.suite.families import FAMILIES
from rebalancer.sim.suite.given import EXACT
from rebalancer.sim.suite.intervals import paired_interval
from rebalancer.sim.suite.names import kind
from rebalancer.sim.suite.row import COST_AT, OURS, Played, Row, best_peer, broken_floors, headline, standing
from rebalancer.sim.suite.table import INTERVAL_SEED

COMPARED = ("gpu_hours", "cost_usd", "starts_and_stops", "recover_p95_seconds")
AVERAGED = ("violation", "lost_utility", "late_work_share", *COMPARED)
SHOWN = *COMPARED, "floor_breaches"

Means = dict[str, Row]  # by column: the mean over seeds; of broken floors all that there were


class Name(NamedTuple):
    """What tells a case from others, in the order in which they are shown.

    scenario: name of the scenario or family.
    world: the world in which it is played: `fluid`, `requests` or `batching`.
    day: the day that is played, as `suite.cases` names days.
    gpus: GPUs of the case.
    start_seconds: seconds that a replica takes to start, 0 where models differ.
    given: name of the figures and metrics with which was decided (`given.GIVEN`).
    """

    scenario: str
    world: str
    day: str
    gpus: int
    start_seconds: int
    given: str = EXACT.name

    def __str__(self) -> str:
        started = f", {self.start_seconds} s to start" if self.start_seconds else ""
        return f"{self.scenario} day {self.day}, {self.gpus} GPUs{started}"

    @property
    def is_plain(self) -> bool:
        """Exact figures on one of the scenarios."""
        return self.given == EXACT.name and self.scenario not in FAMILIES


@dataclass(frozen=True, slots=True)
class Against:
    """Ours compared with the best tuned peer by the headline.

    The interval is that of a paired bootstrap over blocks of 10 minutes, in a family over its worlds, each of which
    counts alike.

    peer: means over seeds of the best tuned peer.
    ours: means over seeds of the service.
    difference: headline of ours less that of the peer; below 0 ours is better.
    low: low end of the difference's 95 % interval, None where the interval is not known.
    high: high end of the interval, None where the interval is not known.
    """

    peer: Row
    ours: Row
    difference: float
    low: float | None
    high: float | None

    @property
    def counts(self) -> bool:
        """The interval is known, and holds no 0."""
        return self.low is not None and self.high is not None and not self.low <= 0.0 <= self.high

    @property
    def stands_worse(self) -> bool:
        """In a scenario about cost: ours is later than is allowed, and than the peer, or as timely and dearer."""
        return standing(self.ours) > standing(self.peer)


@dataclass(frozen=True, slots=True)
class CasePage:
    """One case with all that played it.

    name: what tells it from others.
    means: means over seeds by who played, as `suite.names.kind` calls them.
    against: ours compared with the best tuned peer, None where ours or every peer is missing.
    beyond_static: headline of ours less that of static, for each seed that both played; empty where either is missing.
    runs: how many of ours were played.
    """

    name: Name
    means: Means
    against: Against | None
    beyond_static: tuple[float, ...] = ()
    runs: int = 0

    @property
    def best(self) -> Row | None:
        """The best tuned peer."""
        return best_peer(list(self.means.values()))

    @property
    def allowed(self) -> float | None:
        """In a scenario about cost: the violation up to which only cost counts."""
        return COST_AT.get(self.name.scenario)

    @property
    def by_utility(self) -> bool:
        """The headline is lost utility, else the share of late requests."""
        return any(row.lost_utility is not None for row in self.means.values())


def cases_of(rows: Sequence[Row], played: Iterable[Played]) -> list[CasePage]:
    """By scenario, world and budget. `played`: where blocks of 10 minutes are found; rows without any have no interval.

    What was played by other code or on other data differs from its row in some number, and is left out.
    """
    blocks = {_key(each.row): each.block_array() for each in played}
    ordered = sorted(rows, key=_name)
    return [_case(name, list(alike), blocks) for name, alike in groupby(ordered, key=_name)]


def read_played(folder: Path) -> list[Played]:
    """What the suite kept, in no order; nothing where there is no such folder."""
    return [msgspec.json.decode(path.read_bytes(), type=Played) for path in folder.glob("*.json")]


def _name(row: Row) -> Name:
    return Name(row.scenario, row.world, row.day, row.gpus, row.start_seconds or 0, row.given)


def _key(row: Row) -> bytes:
    """All of a row but what is only known when its case is whole."""
    return msgspec.json.encode(msgspec.structs.replace(row, gap_closure=None))


def _case(name: Name, rows: Sequence[Row], blocks: Mapping[bytes, F64]) -> CasePage:
    by_column: dict[str, list[Row]] = {}
    for row in rows:
        by_column.setdefault(kind(row), []).append(row)
    means = {name: _mean_row(same) for name, same in by_column.items()}
    beyond = _by_seed(by_column.get(OURS, [])), _by_seed(by_column.get("static", []))
    seeds = sorted(beyond[0].keys() & beyond[1].keys())
    beyond_static = tuple(beyond[0][seed] - beyond[1][seed] for seed in seeds)
    return CasePage(name, means, _against(by_column, means, blocks), beyond_static, len(by_column.get(OURS, [])))


def _by_seed(rows: Sequence[Row]) -> dict[int, float]:
    return {row.seed: value for row in rows if (value := headline(row)) is not None}


def _mean_row(same: Sequence[Row]) -> Row:
    means = {name: mean([getattr(row, name) for row in same]) for name in AVERAGED}
    return msgspec.structs.replace(same[0], floor_breaches=broken_floors(same), **means)


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _against(by_column: Mapping[str, Sequence[Row]], means: Means, blocks: Mapping[bytes, F64]) -> Against | None:
    peer, ours = best_peer(list(means.values())), means.get(OURS)
    theirs, mine = (None if row is None else headline(row) for row in (peer, ours))
    if peer is None or ours is None or theirs is None or mine is None:
        return None
    interval = _interval(by_column[OURS], by_column[kind(peer)], blocks)
    return Against(peer, ours, mine - theirs, *(interval or (None, None)))


def _interval(ours: Sequence[Row], peer: Sequence[Row], blocks: Mapping[bytes, F64]) -> tuple[float, float] | None:
    """Over the seeds that both played."""
    if ours[0].scenario in FAMILIES:
        return _over_worlds(_by_seed(ours), _by_seed(peer))
    mine, theirs = (
        {row.seed: by_block for row in rows if (by_block := blocks.get(_key(row))) is not None and len(by_block)}
        for rows in (ours, peer)
    )
    seeds = sorted(mine.keys() & theirs.keys())
    if not seeds:
        return None
    a, b = (np.stack([side[seed] for seed in seeds]) for side in (mine, theirs))
    return paired_interval(a, b, INTERVAL_SEED)[1:]


def _over_worlds(ours: Mapping[int, float], peer: Mapping[int, float]) -> tuple[float, float] | None:
    """Worlds are drawn as blocks are, and a crowded one counts no more than another; None of less than two."""
    seeds = sorted(ours.keys() & peer.keys())
    if len(seeds) < 2:  # noqa: PLR2004  # one world has nothing to be drawn against
        return None
    a, b = (np.array([[side[seed], 1.0] for seed in seeds]) for side in (ours, peer))
    return paired_interval(a, b, INTERVAL_SEED)[1:]
