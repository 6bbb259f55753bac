"""Names of the contenders, as every table, page and `--compare` prints them and every command takes them.

`ours`; `ours@bounds` by bounds; `keda`; `keda@0.8` with a target; `keda:gpu-util@0.8` on another signal; `keda@best`
tuned on what is played. A target is the share of a full replica that is to be used, Faro's a percentile of latency.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rebalancer.sim.suite.peers import BY_NAME, PEERS, Peer
from rebalancer.sim.suite.row import BOUND, OURS, Row

BEST = "best"


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
        """The contender's name on the command line."""
        return OURS if self.actuation == "scale" else f"{OURS}@{self.actuation}"


def called(row: Row) -> str:
    """The name of who played a row, with the setting that it was tuned to."""
    return kind(row) if row.tuning is None else f"{row.controller}:{row.tuning}"


def kind(row: Row) -> str:
    """The same without the setting, which differs from case to case."""
    return row.controller if row.actuation in {None, "scale"} else f"{row.controller}@{row.actuation}"


def contender(name: str) -> Ours | Entry:
    """Ours or a peer, by its name. Raises UnknownController."""
    match name.split("@"):
        case ["ours"] | ["ours", "scale"]:
            return Ours("scale")
        case ["ours", "bounds"]:
            return Ours("bounds")
        case ["ours", *_]:
            raise UnknownController(f"{name}: ours acts by scale or by bounds: ours, ours@bounds")
        case ["bound"]:
            raise UnknownController(f"{BOUND} decides nothing: it is what nobody passes, a row of the benchmarks")
        case _:
            return _entry(name)


def chosen(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Controllers and ways of ours that the suite is to play, and the settings of those that are not as tuned.

    A bare `keda` or `keda@best` is played as it was tuned, a bare `ours` in both ways. Raises UnknownController.
    """
    kinds: list[str] = []
    settings: dict[str, str] = {}
    for name in names:
        if name in {OURS, BOUND, *BY_NAME}:
            kinds.append(name)
            continue
        match contender(name):
            case Ours(actuation):
                kinds.append(f"{OURS}@{actuation}")
            case Entry(_, peer, tuning):
                if settings.get(peer.name, tuning) != tuning:
                    raise UnknownController(f"{name}: {peer.name} is played with one setting at a time")
                kinds.append(peer.name)
                if tuning is not None and tuning != BEST:
                    settings[peer.name] = tuning
    return kinds, settings


def _entry(name: str) -> Entry:
    head, _, target = name.partition("@")
    who, colon, signal = head.partition(":")
    peer = BY_NAME.get(who)
    if peer is None:
        unknown = f"no controller {who}" if who else f"{name} names no controller"
        raise UnknownController(f"{unknown}; there are {_all()}")
    if head != name and not target:
        raise UnknownController(f"{name}: after @ comes a number, or {BEST}")
    if colon and not signal:
        raise UnknownController(f"{name}: after : comes a signal: {', '.join(peer.begins)}")
    if not peer.targets:
        if head != who or target:
            raise UnknownController(f"{who} has nothing to tune: write {who}")
        return Entry(name, peer, None)
    if signal and signal not in peer.signals:
        more = f", and what knobs add to them, as {list(peer.signals)[-1]}" if peer.knobs else ""
        raise UnknownController(f"{who} has no signal {signal}; it has {', '.join(peer.begins)}{more}")
    if target == BEST:
        searched = replace(peer, signals={signal: peer.signals[signal]}, few=(), knobs=()) if signal else peer
        return Entry(name, searched, BEST)
    share = _target(target, name, peer.most) if target else peer.default
    return Entry(f"{head}@{share:g}", peer, f"{signal or peer.begins[0]}@{share:g}")


def _all() -> str:
    """Who there is, with the scenarios of those that are made for a few."""
    only = {peer.name: f" (of {', '.join(sorted(peer.scenarios))} only)" for peer in PEERS if peer.scenarios}
    return ", ".join(f"{name}{only.get(name, '')}" for name in [OURS, *BY_NAME])


def _target(word: str, name: str, most: float) -> float:
    try:
        share = float(word)
    except ValueError:
        share = 0.0
    if not 0.0 < share <= most:
        raise UnknownController(f"{name}: a target is a number above 0 up to {most:g}, or {BEST}")
    return share
