"""Controllers by the names that a command line gives them: `keda`, `keda@0.8` with a target, `keda@best` tuned here.

A target is the share of a full replica that is to be used. `@best` plays every target of `TARGETS` and keeps the one
with the fewest violations: hindsight, which is in the peer's favour.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rebalancer.sim.controller import Controller, Seen
from rebalancer.sim.fast import play
from rebalancer.sim.limits.foresight import Foresight
from rebalancer.sim.peers.hpa import Hpa, Metric
from rebalancer.sim.peers.keda import Keda
from rebalancer.sim.peers.kpa import Kpa
from rebalancer.sim.peers.ray_serve import Config, RayServe
from rebalancer.sim.peers.signals import SLOTS, Utilisation, WorkRate
from rebalancer.sim.peers.static import Static
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.score import score

OURS = "ours"
BEST = "best"
DEFAULT_TARGET = 0.7  # what a full replica is used to before another is asked for, the custom of HPA and Knative
TARGETS = tuple(round(float(each), 3) for each in np.arange(0.5, 1.0, 0.025))


@dataclass(frozen=True, slots=True)
class Contender:
    """A peer: how one is made for a target, and what it is. `tuned`: it has a target."""

    about: str
    make: Callable[[float], Controller]
    tuned: bool = True


PEERS: Mapping[str, Contender] = {
    "static": Contender("nothing moves", lambda _: Static(), tuned=False),
    "hpa": Contender("an HPA per model on utilisation", lambda target: Hpa([Metric(Utilisation(), target)])),
    "keda": Contender("a ScaledObject per model on arriving work", lambda target: Keda([Metric(WorkRate(), target)])),
    "kpa": Contender("a Knative revision per model on concurrency", Kpa),
    "ray-serve": Contender(
        "a Ray Serve deployment per model on ongoing requests", lambda target: RayServe(Config(target * SLOTS))
    ),
    "foresight": Contender("the look-ahead rule given the true future: a limit", lambda _: Foresight(), tuned=False),
}


class UnknownController(ValueError):
    """No such controller, or no such target; the text says what there is."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a name asks for: `target` None is hindsight's best."""

    name: str
    contender: Contender
    target: float | None


def entry(name: str) -> Entry:
    """A peer by its name. Raises UnknownController."""
    kind, _, target = name.partition("@")
    contender = PEERS.get(kind)
    if contender is None:
        raise UnknownController(f"no controller {kind}; there are {', '.join([OURS, *PEERS])}")
    if not target:
        return Entry(f"{kind}@{DEFAULT_TARGET}" if contender.tuned else kind, contender, DEFAULT_TARGET)
    if not contender.tuned:
        raise UnknownController(f"{kind} has no target: write {kind}")
    if target == BEST:
        return Entry(name, contender, None)
    try:
        share = float(target)
    except ValueError:
        share = 0.0
    if not 0.0 < share <= 2.0:  # noqa: PLR2004  twice what a replica can do is as wrong as a target gets
        raise UnknownController(f"{name}: a target is a number above 0 up to 2, or {BEST}")
    return Entry(f"{kind}@{share:g}", contender, share)


class _Told:
    """A controller that says how far it is."""

    def __init__(self, inner: Controller, tell: Callable[[float], None]) -> None:
        self.every_seconds = inner.every_seconds
        self._inner, self._tell = inner, tell

    def decide(self, seen: Seen) -> "list[int]":
        self._tell(seen.now / seen.scenario.seconds)
        return list(self._inner.decide(seen))


def play_entry(asked: Entry, scenario: Scenario, delay_seconds: int, tell: Callable[[float], None]) -> Record:
    """The run of a peer on the fast path; `tell` hears the share that is done."""
    targets = TARGETS if asked.target is None else (asked.target,)
    best: tuple[float, Record] | None = None
    for at, target in enumerate(targets):
        done = at / len(targets)

        def part(share: float, done: float = done) -> None:
            tell(done + share / len(targets))

        name = f"{asked.name.partition('@')[0]}@{target:g}, tuned" if asked.target is None else asked.name
        record = play(scenario, _Told(asked.contender.make(target), part), name, delay_seconds)
        violation = score(record).violation
        if best is None or violation < best[0]:
            best = violation, record
    if best is None:
        raise ValueError("no target to play")
    tell(1.0)
    return best[1]
