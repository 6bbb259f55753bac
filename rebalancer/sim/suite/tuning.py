"""Peers tuned on development data: every target of every signal on the fast path, the fewest violations win.

What was found is committed as `tuned.json`, keyed by budget and peer, with the digests of the peer's code and of the
data: other code or data make an entry stale, which the suite tells.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from rebalancer.sim.fast import play
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.suite.cases import Budget, data_digest, development
from rebalancer.sim.suite.peers import Peer
from rebalancer.sim.suite.row import Row, headline, played

TUNED_FILE = Path(__file__).with_name("tuned.json")


class Tuned(Struct, frozen=True):
    """A peer's best setting ("signal@target") for one budget, and its violation on the development data."""

    tuning: str
    violation: float
    gpu_hours: float
    code: str
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


def write_tuned(found: Found, path: Path = TUNED_FILE) -> None:
    """Ordered and indented, for people who compare."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(found.items()))), indent=1) + b"\n")


def tune(peer: Peer, scenario: Scenario) -> Tuned:
    """Play every setting; of equal headlines the one with fewer GPU-hours."""
    code = peer.digest  # of the code that plays, not of what may be written meanwhile
    rows = [_row(peer, tuning, scenario) for tuning in peer.tunings]
    best = min(rows, key=lambda row: (headline(row), row.gpu_hours))
    return Tuned(
        best.tuning or "",
        best.violation or 0.0,
        best.gpu_hours or 0.0,
        code,
        data_digest(scenario),
        best.lost_utility,
    )


def _row(peer: Peer, tuning: str, scenario: Scenario) -> Row:
    row = Row(scenario.name, scenario.day, scenario.gpus, None, peer.name, None, tuning, 0)
    return played(row, play(scenario, peer.make(tuning), peer.name)).row


def tune_all(
    folder: Path, budgets: Iterable[Budget], peers: Iterable[Peer], known: Found
) -> Iterator[tuple[str, Tuned]]:
    """Tune what is not known with this code and data, budget by budget. Raises MissingTrace."""
    peers = [peer for peer in peers if peer.targets]
    for budget in budgets:
        scenario = development(budget).build(folder)
        data = data_digest(scenario)
        for peer in peers:
            before = known.get(key(budget, peer))
            if before is None or stale(before, peer, data):
                yield key(budget, peer), tune(peer, scenario)


def stale(entry: Tuned, peer: Peer, data: str) -> str | None:
    """Why an entry may no longer be the best setting; None when it holds."""
    if entry.code != peer.digest:
        return "the peer's code or grid has changed"
    if entry.data != data:
        return "the data it was tuned on have changed"
    return None
