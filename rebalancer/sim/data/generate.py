"""`python -m rebalancer.sim.data.generate [--check]`: writes the shipped traces from their recipes and a seed.

With `--check` nothing is written, and the exit code is 1 when a file does not hold what would be written.
"""

import argparse
import gzip
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from rebalancer.sim.data import TRACES
from rebalancer.world.traffic import TRACE_COLUMNS

HERE = Path(__file__).parent
SEED = 11
CLIENT_BURST = 2.0  # requests that come together, mean of a geometric number: bursty as public traces are at 1 s
SLOW_SECONDS = 600.0  # how long a level that noise lifted stays
SLOW_NOISE = 0.18  # its standard deviation, in the logarithm of the rate
TOKEN_SPREAD = 0.7  # standard deviation of the logarithm of one request's tokens


@dataclass(frozen=True)
class Recipe:
    """One model's traffic: mean requests per second at a second, mean tokens of a request."""

    rate: Callable[[int], float]
    prompt_tokens: float
    generated_tokens: float


def _surges(level: float, factor: float, begin: int, seconds: int) -> Callable[[int], float]:
    """A level that rises to `factor` times itself within a minute at `begin`, is back a minute after `seconds`.

    Again every 40 minutes.
    """

    def rate(second: int) -> float:
        since = (second - begin) % 2400
        inside = min(1.0, since / 60) if since < seconds else max(0.0, 1.0 - (since - seconds) / 60)
        return level * (1.0 + (factor - 1.0) * inside)

    return rate


def _tide(mean: float, swing: float, begin: float) -> Callable[[int], float]:
    """A wave of 90 minutes around a mean; `begin` in radians."""
    return lambda second: mean * (1.0 + swing * math.sin(begin + 2 * math.pi * second / 5400))


RECIPES = {
    "surge": (
        7200,
        {
            "chat": Recipe(_surges(7.5, 2.5, 900, 720), 600, 250),
            "code": Recipe(_surges(4.0, 2.2, 2100, 480), 2400, 120),
            "summary": Recipe(lambda _: 2.2, 6000, 90),
        },
    ),
    "tides": (
        10_800,
        {
            "assistant": Recipe(_tide(5.0, 0.6, -math.pi / 2), 2500, 600),
            "search": Recipe(_tide(7.5, 0.6, math.pi / 2), 4000, 40),
        },
    ),
}


def text(name: str, seed: int = SEED) -> str:
    """The CSV of one trace; `SEED` draws the shipped one."""
    seconds, models = RECIPES[name]
    lines = [",".join(TRACE_COLUMNS)]
    streams = [(model, _rows(recipe, Random(f"{seed}/{name}/{model}"), seconds)) for model, recipe in models.items()]
    for second in range(seconds):
        for model, rows in streams:
            count, prompt, generated = next(rows)
            if count:
                lines.append(f"{second},{model},{count},{prompt},{generated}")
    return "\n".join(lines) + "\n"


def _rows(recipe: Recipe, chance: Random, seconds: int) -> Iterator[tuple[int, int, int]]:
    """(requests, prompt tokens, generated tokens) of each second."""
    slow, keep = 0.0, math.exp(-1 / SLOW_SECONDS)
    for second in range(seconds):
        slow = slow * keep + chance.gauss(0.0, SLOW_NOISE) * math.sqrt(1 - keep * keep)
        bursts = _poisson(recipe.rate(second) * math.exp(slow) / CLIENT_BURST, chance)
        count = sum(_geometric(CLIENT_BURST, chance) for _ in range(bursts))
        prompt, generated = (
            sum(_tokens(mean, chance) for _ in range(count)) for mean in (recipe.prompt_tokens, recipe.generated_tokens)
        )
        yield count, prompt, generated


def _poisson(mean: float, chance: Random) -> int:
    """By products of uniform numbers (Knuth); means are small here."""
    count, product, floor = 0, chance.random(), math.exp(-mean)
    while product > floor:
        count += 1
        product *= chance.random()
    return count


def _geometric(mean: float, chance: Random) -> int:
    """From 1 on."""
    return 1 + int(math.log(1.0 - chance.random()) / math.log(1.0 - 1.0 / mean))


def _tokens(mean: float, chance: Random) -> int:
    """In tens, which makes the files a seventh smaller."""
    return 10 * max(1, round(mean * math.exp(chance.gauss(-(TOKEN_SPREAD**2) / 2, TOKEN_SPREAD)) / 10))


def main(arguments: list[str]) -> int:
    """Write or check the files; the exit code."""
    parser = argparse.ArgumentParser(description="Writes the shipped traces.")
    parser.add_argument("--check", action="store_true", help="only say whether the files are up to date")
    check = parser.parse_args(arguments).check
    stale = []
    for name in TRACES:
        file = HERE / f"{name}.csv.gz"
        made = text(name, SEED).encode()
        if not check:
            file.write_bytes(gzip.compress(made, mtime=0))
        elif not file.exists() or gzip.decompress(file.read_bytes()) != made:
            stale.append(str(file))
    for each in stale:
        sys.stderr.write(f"error: {each} is out of date; run: python -m rebalancer.sim.data.generate\n")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
