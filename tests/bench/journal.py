"""When the service saw an event and decided on it, by its own journal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from rebalancer.obs.journal_files import PATTERN


class Told(NamedTuple):
    """An event about a model: when it was sent, and when the API had answered the write it caused (epoch seconds).

    `called` None: there was no such write while somebody waited for it.
    """

    model: str
    sent: float
    called: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The steps between: `looked` is the start of the cycle that decided, `intended` the end of its plan."""

    sent: float
    looked: float
    intended: float
    called: float

    @property
    def seconds(self) -> float:
        """From event to call."""
        return self.called - self.sent


class _Delta(Struct):
    cycle: int
    at: float


class _Intent(Struct):
    cycle: int
    at: float
    subject: str


class _Line(Struct):
    line: str
    delta: _Delta | None = None
    intent: _Intent | None = None


_decode = msgspec.json.Decoder(_Line).decode


def answers(folder: Path, told: Sequence[Told]) -> tuple[Answer, ...]:
    """The told events that were answered, with the steps that the journal in `folder` knows."""
    cycles: dict[int, float] = {}
    intents: dict[str, list[_Intent]] = {}
    for line in _lines(folder):
        if line.line == "cycle" and line.delta is not None:
            cycles[line.delta.cycle] = line.delta.at
        elif line.line == "intent" and line.intent is not None:
            intents.setdefault(line.intent.subject, []).append(line.intent)
    return tuple(_answer(model, sent, called, cycles, intents) for model, sent, called in told if called is not None)


def _answer(
    model: str, sent: float, called: float, cycles: Mapping[int, float], intents: Mapping[str, Sequence[_Intent]]
) -> Answer:
    intent = next(each for each in intents[model] if sent <= each.at <= called)
    return Answer(sent, cycles[intent.cycle], intent.at, called)


def _lines(folder: Path) -> Iterator[_Line]:
    for file in sorted(folder.glob(PATTERN)):
        with file.open("rb") as lines:
            yield from (_decode(line) for line in lines)
