"""Controllers by the names that a command line gives them.

`keda`; `keda@0.8` with a target; `keda:gpu-util@0.8` on another signal; `keda@best` tuned here. A target is the share
of a full replica that is to be used. `@best` searches signals and targets as the suite tunes, on this very traffic, and
keeps the setting with the fewest violations: hindsight, which is in the peer's favour.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rebalancer.sim.controller import Controller, Seen
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.score import score
from rebalancer.sim.suite.peers import BY_NAME, Peer
from rebalancer.sim.suite.search import COARSE, Outcome, Search

OURS = "ours"
BEST = "best"
MORE_RUNS = 15  # of a search, about, after its coarse steps
MOST_TARGET = 2.0  # twice what a replica can do is as wrong as a target gets


class UnknownController(ValueError):
    """No such controller, signal or target; the text says what there is."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a name asks for. `tuning`: as the suite writes it, or `BEST`; None for what is not tuned."""

    name: str
    peer: Peer
    tuning: str | None


@dataclass(frozen=True, slots=True)
class Ours:
    """The service itself. `actuation`: it sets scales, or the bounds of the HPAs that own the targets."""

    actuation: Literal["scale", "bounds"] = "scale"

    @property
    def name(self) -> str:
        """As it is asked for."""
        return OURS if self.actuation == "scale" else f"{OURS}@{self.actuation}"


def contender(name: str) -> Ours | Entry:
    """Ours or a peer, by its name. Raises UnknownController."""
    match name.split("@"):
        case ["ours"] | ["ours", "scale"]:
            return Ours("scale")
        case ["ours", "bounds"]:
            return Ours("bounds")
        case ["ours", *_]:
            raise UnknownController(f"{name}: ours acts by scale or by bounds: ours, ours@bounds")
        case _:
            return _entry(name)


def _entry(name: str) -> Entry:
    head, _, target = name.partition("@")
    kind, _, signal = head.partition(":")
    peer = BY_NAME.get(kind)
    if peer is None:
        raise UnknownController(f"no controller {kind}; there are {', '.join([OURS, *BY_NAME])}")
    if not peer.targets:
        if head != kind or target:
            raise UnknownController(f"{kind} has nothing to tune: write {kind}")
        return Entry(name, peer, None)
    if signal and signal not in peer.signals:
        raise UnknownController(f"{kind} has no signal {signal}; it has {', '.join(peer.signals)}")
    if target == BEST:
        searched = replace(peer, signals={signal: peer.signals[signal]}) if signal else peer
        return Entry(name, searched, BEST)
    share = _target(target, name) if target else peer.default
    return Entry(f"{head}@{share:g}", peer, f"{signal or next(iter(peer.signals))}@{share:g}")


def _target(word: str, name: str) -> float:
    try:
        share = float(word)
    except ValueError:
        share = 0.0
    if not 0.0 < share <= MOST_TARGET:
        raise UnknownController(f"{name}: a target is a number above 0 up to {MOST_TARGET:g}, or {BEST}")
    return share


class _Told:
    """A controller that says how far it is."""

    def __init__(self, inner: Controller, tell: Callable[[float], None]) -> None:
        self.every_seconds = inner.every_seconds
        self._inner, self._tell = inner, tell

    def decide(self, seen: Seen) -> Sequence[int]:
        self._tell(seen.now / seen.scenario.seconds)
        return self._inner.decide(seen)


def play_entry(asked: Entry, scenario: Scenario, delay_seconds: int, tell: Callable[[float], None]) -> Record:
    """The run of a peer on the fast path; `tell` hears the share that is done, which is a guess while one is tuned.

    Raises UnknownController for a peer that is made for other scenarios.
    """
    if not asked.peer.plays(scenario.name):
        raise UnknownController(f"{asked.peer.name} plays {', '.join(sorted(asked.peer.scenarios))} only")
    if asked.tuning != BEST:
        controller = _Told(asked.peer.make(asked.tuning), tell)
        record = play(scenario, controller, asked.name, delay_seconds)
        tell(1.0)
        return record
    runs: dict[str, Record] = {}
    many = MORE_RUNS + len(asked.peer.signals) * len(asked.peer.targets[::COARSE])

    def judge(tuning: str, limit: float) -> Outcome | None:
        done = len(runs)
        controller = _Told(asked.peer.make(tuning), lambda share: tell(min(0.99, (done + share) / many)))
        runs[tuning] = play(scenario, controller, f"{asked.peer.name}:{tuning}", delay_seconds)
        found = score(runs[tuning])
        return Outcome(found.violation, found.gpu_hours) if found.violation <= limit else None

    best = Search(asked.peer, judge).best()
    tell(1.0)
    return runs[best]
