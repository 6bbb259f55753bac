"""Spoiled records by the thousand into each decoder: `python -m tests.fuzz --cases 200000 --seed 7`."""

import gc
import random
import time
from dataclasses import dataclass, field

from tests.fuzz.decoder import Decoder
from tests.fuzz.mutants import spoiled


@dataclass
class Played:
    """What became of so many cases. Invariant I14: none holds the event loop for longer than 200 ms.

    broke: the record and what it raised.
    slow: the record and its seconds of CPU.
    """

    cases: int = 0
    broke: list[tuple[bytes, str]] = field(default_factory=list)
    slow: list[tuple[bytes, float]] = field(default_factory=list)


def play(decoder: Decoder, cases: int, seed: int) -> Played:
    """One seed always makes the same cases."""
    rng, played = random.Random(f"{decoder.name}/{seed}"), Played()
    seeds = list(decoder.seeds())
    for record in seeds:
        decoder.read(record)  # the first one of a kind builds decoders: not the record's time
    gc.freeze()  # a full collection amid 9,000 tests takes 0.6 s: not the record's time either
    try:
        for _ in range(cases):
            record = spoiled(rng.choice(seeds), rng)
            began = time.thread_time()
            try:
                decoder.read(record)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
                played.broke.append((record, f"{type(error).__name__}: {str(error)[:200]}"))
            seconds = time.thread_time() - began
            if seconds > decoder.longest_seconds:
                played.slow.append((record, seconds))
            played.cases += 1
    finally:
        gc.unfreeze()
    return played
