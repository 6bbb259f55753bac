"""Spoiled records by the thousand into each decoder: `python -m tests.fuzz --cases 200000 --seed 7`."""

import gc
import random
import time
from dataclasses import dataclass, field

from tests.fuzz.decoder import Decoder
from tests.fuzz.mutants import spoiled
from tests.fuzz.seeds import corpus


@dataclass
class Played:
    """What became of so many cases. Invariant I14: none holds the event loop for longer than 200 ms.

    broke: the record and what it raised.
    slow: the record and its seconds of CPU.
    """

    cases: int = 0
    broke: list[tuple[bytes, str]] = field(default_factory=list)
    slow: list[tuple[bytes, float]] = field(default_factory=list)

    def add(self, decoder: Decoder, record: bytes) -> None:
        """One more."""
        began = time.thread_time()
        try:
            decoder.read(record)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
            self.broke.append((record, f"{type(error).__name__}: {str(error)[:200]}"))
        seconds = time.thread_time() - began
        if seconds > decoder.longest_seconds:
            self.slow.append((record, seconds))
        self.cases += 1


def play(decoder: Decoder, cases: int, seed: int) -> Played:
    """The corpus as it is, then so many cases made of it and of real records. One seed always makes the same."""
    rng, played = random.Random(f"{decoder.name}/{seed}"), Played()
    of_corpus, real = corpus(decoder.name), list(decoder.seeds())
    for record in real:
        decoder.read(record)  # the first one of a kind builds decoders: not the record's time
    gc.freeze()  # a full collection amid 9,000 tests takes 0.6 s: not the record's time either
    try:
        for record in of_corpus:
            played.add(decoder, record)
        for _ in range(cases):
            played.add(decoder, spoiled(rng.choice(real + of_corpus), rng))
    finally:
        gc.unfreeze()
    return played
