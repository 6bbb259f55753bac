"""The best setting of a peer among many: coarse steps over every signal, then fine ones about each one's best.

Where a peer has knobs, one is turned after the other from the best so far: all their combinations would be hundreds.

A setting is given up as soon as it has lost more than the best so far loses in all, which is where most of the time
goes otherwise: with HPA at 32 GPUs the wrong signal loses five times as much as the right one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalancer.sim.suite.peers import Knob, Peer

COARSE = 4  # fine steps in a coarse one
NEIGHBOURS = tuple(step for step in range(1 - COARSE, COARSE) if step)
# How much worse than the best coarse setting a signal's best may be for fine ones about it to be tried: at S2's 32 GPUs
# and 60 s HPA's best, work@0.775, lies beside one that loses 17 % more than the best coarse one, of another signal.
NEAR = 1.25


class SearchOutcome(NamedTuple):
    """What a setting came to; the less the better, first by `headline`, then by what it took (GPU-hours or cost)."""

    headline: float
    took: float


Judge = Callable[[str, float], SearchOutcome | None]
"""Of a setting ("signal@target"), and None when its headline is above the limit."""


@dataclass(slots=True)
class Search:
    """The search for one peer's best setting.

    peer: the peer that is tuned.
    judge: what a setting comes to; it decides.
    sketch: a cheaper judge of the same kind for the coarse steps, None where `judge` judges these too.
    tried: outcome of every setting that was judged, None for one that was given up.
    sketched: the same of the settings that were sketched; empty without `sketch`.
    _idle: signals that a knob made and that came to the same as the one that it was turned from.
    """

    peer: Peer
    judge: Judge
    sketch: Judge | None = None
    tried: dict[str, SearchOutcome | None] = field(default_factory=dict)
    sketched: dict[str, SearchOutcome | None] = field(default_factory=dict)
    _idle: set[str] = field(default_factory=set)  # signals that a knob made no different

    def best(self) -> str:
        """The best setting; `tried` says what it came to."""
        for signal in self.peer.begins:
            self._coarse(signal)
        for knob in self.peer.knobs:
            self._turn(knob)
        near = self._near()
        if self.sketch is not None:
            self._judge(near)
        for tuning in near:
            self._fine(tuning)
        return _ordered(self.tried)[0]

    def _turn(self, knob: Knob) -> None:
        """Coarse steps over what the knob makes of the best signal so far, unless it makes no difference.

        It makes none when it does not at the best target, nor at the least one, where everybody asks for the most.
        """
        signal, _, target = _ordered(self._known())[0].partition("@")
        tried = float(target), self.peer.targets[0]
        for other in knob(signal):
            for each in tried:
                self._try(other, each, NEAR, coarse=True)
            if all(self._same(signal, other, each) for each in tried):
                self._idle.add(other)
            else:
                self._coarse(other)

    def _same(self, signal: str, other: str, target: float) -> bool:
        """Whether both came to the same at that target; of what was given up nobody knows."""
        known = self._known()
        outcome = known.get(_setting(signal, target))
        return outcome is not None and outcome == known[_setting(other, target)]

    def _near(self) -> list[str]:
        """The best coarse setting of every signal that may still turn out the best, the best first."""
        coarse = self._known()
        ordered = _ordered(coarse)
        least = _headline(coarse, ordered[0])
        firsts = {_signal(tuning): tuning for tuning in reversed(ordered)}
        near = [each for each in ordered if firsts[_signal(each)] == each and _signal(each) not in self._idle]
        return [each for each in near if _headline(coarse, each) <= NEAR * least]

    def _known(self) -> dict[str, SearchOutcome | None]:
        return self.tried if self.sketch is None else self.sketched

    def _judge(self, settings: list[str]) -> None:
        for tuning in settings:
            signal, _, target = tuning.partition("@")
            self._try(signal, float(target), NEAR)

    def _coarse(self, signal: str) -> None:
        """The signal's targets in coarse steps, and beyond their ends as long as the best is there."""
        targets = list(self.peer.targets[::COARSE])
        for target in targets:
            self._try(signal, target, NEAR, coarse=True)
        if len(targets) == 1:
            return
        step = targets[1] - targets[0]
        least, most = self.peer.reach_of(signal)
        for end, by in ((0, -step), (-1, step)):
            while self._best_of(signal) == _setting(signal, targets[end]):
                further = round(targets[end] + by, 3)
                if not least <= further <= most:
                    break
                targets.insert(0 if end == 0 else len(targets), further)
                self._try(signal, further, NEAR, coarse=True)

    def _fine(self, tuning: str) -> None:
        """The neighbours of a setting up to the next coarse ones."""
        targets = self.peer.targets
        if len(targets) == 1:
            return
        signal, _, target = tuning.partition("@")
        least, most = self.peer.reach_of(signal)
        for step in NEIGHBOURS:
            near = round(float(target) + step * (targets[1] - targets[0]), 3)
            if least <= near <= most:
                self._try(signal, near, 1.0)

    def _try(self, signal: str, target: float, slack: float, *, coarse: bool = False) -> None:
        tuning = _setting(signal, target)
        sketch = self.sketch if coarse else None
        judge, results = (self.judge, self.tried) if sketch is None else (sketch, self.sketched)
        if tuning not in results:
            known = [outcome.headline for outcome in results.values() if outcome]
            results[tuning] = judge(tuning, slack * min(known, default=float("inf")))

    def _best_of(self, signal: str) -> str | None:
        return next((each for each in _ordered(self._known()) if _signal(each) == signal), None)


def _headline(results: Mapping[str, SearchOutcome | None], tuning: str) -> float:
    outcome = results[tuning]
    return float("inf") if outcome is None else outcome.headline


def _ordered(results: Mapping[str, SearchOutcome | None]) -> list[str]:
    """Settings that were not given up, the best first; of equal ones the one that was tried first."""
    known = [(outcome, tuning) for tuning, outcome in results.items() if outcome]
    return [tuning for _, tuning in sorted(known, key=lambda each: each[0])]


def _signal(tuning: str) -> str:
    return tuning.partition("@")[0]


def _setting(signal: str, target: float) -> str:
    return f"{signal}@{target:g}"
