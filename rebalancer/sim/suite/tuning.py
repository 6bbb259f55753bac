"""Peers tuned on development data: targets of every signal on the fast path (`search`), the fewest violations win.

What was found is committed as `tuned.json`, keyed by budget and peer, with the digests of the peer's code, of its grid
and of the data: another one makes an entry stale, which the suite tells. Where the grid is the same and the setting
comes to the very same, nothing is searched: code or data were written anew and play as before (`renewed`).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path

import msgspec
from msgspec import Struct

from rebalancer.sim.fluid.fast import live, world_for
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.suite.cases import Budget, data_digest, development, development_days
from rebalancer.sim.suite.families import FAMILIES
from rebalancer.sim.suite.given import by_figure
from rebalancer.sim.suite.peers import BY_NAME, TOLD_THE_FUTURE, Peer
from rebalancer.sim.suite.row import Row, played, standing
from rebalancer.sim.suite.search import Search, SearchOutcome

PARTS = 8  # of a run, after each of which it may be given up
TUNED_FILE = Path(__file__).with_name("tuned.json")


class Tuned(Struct, frozen=True):
    """A peer's best setting for one budget, and what it came to in the mean over the development days.

    tuning: the setting, as "signal@target".
    violation: share of all requests that were late, 0 to 1.
    gpu_hours: GPU-hours held, those of starting and ending replicas included.
    code: digest of what the peer was when it was tuned (`Peer.digest`); with another one the entry is stale.
    grid: digest of the settings that its search could reach (`Peer.grid`); with another one the entry is stale.
    data: digest of the data of the last of the days (`data_digest`); with another one the entry is stale.
    lost_utility: jobs less the sum of their mean utilities over minutes, None in scenarios that are not Faro's.
    """

    tuning: str
    violation: float
    gpu_hours: float
    code: str
    grid: str
    data: str
    lost_utility: float | None = None


Found = Mapping[str, Tuned]  # by key()


def key(budget: Budget, peer: Peer) -> str:
    """How an entry is called."""
    return f"{budget}/{peer.name}"


def read_tuned(path: Path = TUNED_FILE) -> Found:
    """What is committed; nothing when there is no file yet."""
    if not path.exists():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Tuned])


def write_tuned(tuned: Found, path: Path = TUNED_FILE) -> None:
    """Ordered and indented, for people who compare."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(tuned.items()))), indent=1) + b"\n")


def entrants(budget: Budget, peers: Iterable[Peer]) -> Iterator[Peer]:
    """The peers that are made for it; where there are no figures, with the signals that need none.

    Who is told the future plays neither there nor in families: no user could install it.
    """
    for peer in peers:
        judged = budget.figures and budget.scenario not in FAMILIES
        if not peer.plays(budget.scenario) or (peer.name in TOLD_THE_FUTURE and not judged):
            continue
        signals = {name: make for name, make in peer.signals.items() if budget.figures or not by_figure(name)}
        if signals:
            few = tuple(name for name in peer.few if name in signals)
            yield peer if len(signals) == len(peer.signals) else replace(peer, signals=signals, few=few)


def tune(peer: Peer, scenarios: Sequence[Scenario], *, sketched: bool = True) -> Tuned:
    """The setting that stands best in the mean over the scenarios (`standing`).

    `sketched`: coarse steps see the last scenario alone, which is enough where it is a day. `violation`, `gpu_hours`
    and `lost_utility` are means too, `data` is of the last scenario.
    """
    code = peer.digest  # of the code that plays, not of what may be written meanwhile
    rows: dict[str, list[Row]] = {}

    def judge(tuning: str, limit: float) -> SearchOutcome | None:
        played_rows = play_all(peer, tuning, scenarios, limit)
        if played_rows is None:
            return None
        rows[tuning] = played_rows
        first, second = zip(*map(standing, played_rows), strict=True)
        return SearchOutcome(sum(first) / len(first), sum(second) / len(second))

    def sketch(tuning: str, limit: float) -> SearchOutcome | None:
        played_rows = play_all(peer, tuning, scenarios[-1:], limit)
        return None if played_rows is None else SearchOutcome(*standing(played_rows[0]))

    best = Search(peer, judge, sketch if sketched and len(scenarios) > 1 else None).best()
    return _tuned(peer, best, rows[best], scenarios, code)


def renewed(entry: Tuned, peer: Peer, scenarios: Sequence[Scenario]) -> Tuned | None:
    """The entry with the digests of today's code and data; None where its setting no longer comes to the very same.

    None too where the peer can be given other settings than when it was tuned: the best may be among them.
    """
    if entry.grid != peer.grid:
        return None
    rows = play_all(peer, entry.tuning, scenarios, math.inf) or []
    fresh = _tuned(peer, entry.tuning, rows, scenarios, peer.digest)
    return fresh if msgspec.structs.replace(entry, code=fresh.code, data=fresh.data) == fresh else None


def _tuned(peer: Peer, tuning: str, rows: Sequence[Row], scenarios: Sequence[Scenario], code: str) -> Tuned:
    return Tuned(
        tuning,
        _mean([row.violation for row in rows]) or 0.0,
        _mean_gpu_hours(rows),
        code,
        peer.grid,
        data_digest(scenarios[-1]),
        _mean([row.lost_utility for row in rows]),
    )


def play_all(peer: Peer, tuning: str, scenarios: Sequence[Scenario], limit: float) -> list[Row] | None:
    """A row for each scenario; None as soon as their mean headline is sure to be above `limit`."""
    rows: list[Row] = []
    lost = 0.0
    for scenario in scenarios:
        row = _play(peer, tuning, scenario, limit * len(scenarios) - lost)
        if row is None:
            return None
        rows.append(row)
        lost += standing(row)[0]
    return rows


def _play(peer: Peer, tuning: str, scenario: Scenario, limit: float) -> Row | None:
    """One run; None as soon as its headline is above `limit`: what is lost so far is lost, all else may go well."""
    empty = Row(scenario.name, scenario.day, scenario.gpus, None, peer.name, None, tuning, 0)
    controller = peer.make(tuning)
    world = world_for(scenario, controller)
    row = empty
    for part in range(1, PARTS + 1):
        live(world, controller, scenario.seconds * part // PARTS)
        row = played(empty, world.record(peer.name)).row
        if standing(row)[0] > limit:
            return None
    return row


def _mean(values: Sequence[float | None]) -> float | None:
    """None when any is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _mean_gpu_hours(rows: Sequence[Row]) -> float:
    return _mean([row.gpu_hours for row in rows]) or 0.0


def tune_all(
    folder: Path, budgets: Iterable[Budget], peers: Iterable[Peer], known: Found, processes: int = 1
) -> Iterator[tuple[str, Tuned]]:
    """Tune what is not known with this code and data, in the order in which it ends. Raises MissingTrace.

    With more than one of `processes` peers are known to the others by their names: those of `PEERS`.
    """
    unknown = list(_unknown(folder, budgets, [peer for peer in peers if peer.targets], known))
    if processes == 1:
        for budget, peer in unknown:
            yield key(budget, peer), _tune_for(budget, peer, folder, known.get(key(budget, peer)))
        return
    with get_context("spawn").Pool(processes) as pool:
        named = [(budget, peer.name, known.get(key(budget, peer))) for budget, peer in unknown]
        yield from pool.imap_unordered(partial(_tune_named, folder), named)


def _unknown(
    folder: Path, budgets: Iterable[Budget], peers: Sequence[Peer], known: Found
) -> Iterator[tuple[Budget, Peer]]:
    for budget in budgets:
        data = data_digest(development(budget).build(folder))
        for peer in entrants(budget, peers):
            before = known.get(key(budget, peer))
            if before is None or stale(before, peer, data):
                yield budget, peer


def _tune_named(folder: Path, wanted: tuple[Budget, str, Tuned | None]) -> tuple[str, Tuned]:
    budget, name, before = wanted
    (peer,) = entrants(budget, [BY_NAME[name]])
    return key(budget, peer), _tune_for(budget, peer, folder, before)


def _tune_for(budget: Budget, peer: Peer, folder: Path, before: Tuned | None) -> Tuned:
    scenarios = _scenarios(folder, budget)
    as_before = renewed(before, peer, scenarios) if before is not None else None
    return as_before or tune(peer, scenarios, sketched=budget.scenario not in FAMILIES)


@lru_cache(maxsize=1)  # peers of one budget are tuned one after another
def _scenarios(folder: Path, budget: Budget) -> list[Scenario]:
    return [case.build(folder) for case in development_days(budget)]


def stale(entry: Tuned, peer: Peer, data: str) -> str | None:
    """Why an entry may no longer be the best setting; None when it holds."""
    if entry.code != peer.digest:
        return "the peer's code has changed"
    if entry.grid != peer.grid:
        return "the settings that the peer can be given have changed"
    if entry.data != data:
        return "the data it was tuned on have changed"
    return None
