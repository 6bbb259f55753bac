"""Traffic whose requests differ much in their work: recorded by Azure, and drawn with prompts of 12-15 k tokens."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from rebalancer.sim.batching.arrivals import BatchArrivals, ComingRequests
from rebalancer.sim.batching.state import I64
from rebalancer.sim.demand import F64
from rebalancer.sim.traces.columns import columns
from rebalancer.sim.traces.folder import trace_file

SECONDS = 3600
LONG_SHARE = 0.15  # of the mixed traffic's requests, on average


class Listed(BatchArrivals):
    """Arrivals that are known one by one."""

    def __init__(self, coming: ComingRequests) -> None:
        """`coming`: in the order of their instants."""
        self._coming = coming

    def first_number(self, second: int) -> int:
        """How many came before the second."""
        return int(np.searchsorted(self._coming.arrived, second))

    def within(self, begin: int, end: int) -> ComingRequests:
        """Those of seconds [begin, end)."""
        some, coming = slice(self.first_number(begin), self.first_number(end)), self._coming
        return ComingRequests(coming.arrived[some], coming.prompt[some], coming.tokens[some])


def azure(folder: Path, service: str, copies: int) -> ComingRequests:
    """An hour of Azure's requests, so many copies of it that begin at different times of it. Raises MissingTrace."""
    path = trace_file(folder, f"azure2023_{service}_requests.parquet")
    at, prompt, tokens = columns(path, "t", "in_tokens", "out_tokens")
    shifted = [(at.astype(np.float64) + SECONDS * copy / copies) % SECONDS for copy in range(copies)]
    return _in_order(np.concatenate(shifted), np.tile(prompt, copies), np.tile(tokens, copies))


def long_prompts(seed: int = 0) -> ComingRequests:
    """Prompts of 12-15 k tokens; of the answers, 350 tokens on average, the longest tenth has half of the tokens."""
    random = np.random.default_rng(seed)
    at = _instants(random, 1.0)
    return _in_order(at, random.integers(12_000, 15_001, len(at)), _answers(random, len(at), 350.0))


def mixed(seed: int = 0) -> ComingRequests:
    """Chat of short prompts, and long prompts whose share swings between none and three tenths within 25 minutes."""
    random = np.random.default_rng(seed)
    at = _instants(random, 5.0)
    share = LONG_SHARE * (1.0 + np.sin(2.0 * np.pi * at / 1500.0))
    is_long = random.random(len(at)) < share
    short = np.minimum(8_000, random.lognormal(6.0, 1.0, len(at)))
    prompt = np.where(is_long, random.integers(12_000, 15_001, len(at)), short)
    return _in_order(at, prompt, _answers(random, len(at), 200.0))


def _instants(random: np.random.Generator, per_second: float) -> F64:
    """Of Poisson arrivals whose rate swings by 40 % within 73 minutes and doubles in a burst now and then."""
    mean = per_second * (1.0 + 0.4 * np.sin(np.arange(SECONDS) / 700.0))
    for begin in range(0, SECONDS, 300):
        mean[begin : begin + random.integers(10, 60)] *= 2.0
    counts = random.poisson(mean)
    return np.repeat(np.arange(SECONDS), counts) + random.random(int(counts.sum()))


def _answers(random: np.random.Generator, count: int, mean: float) -> F64:
    """Lengths with a heavy tail: lognormal, deviation 1.3 of the logarithm, 8,000 tokens at most."""
    return np.minimum(8_000.0, mean * random.lognormal(-0.845, 1.3, count))


def _in_order(at: F64, prompt: F64 | I64, tokens: F64 | I64) -> ComingRequests:
    order = np.argsort(at, kind="stable")
    return ComingRequests(at[order], *(np.maximum(1, each).astype(np.int64)[order] for each in (prompt, tokens)))


TRAFFIC: Mapping[str, Callable[[Path], ComingRequests]] = {
    "Azure's conversations": lambda folder: azure(folder, "conv", 2),
    "Azure's code": lambda folder: azure(folder, "code", 5),
    "long prompts": lambda _: long_prompts(),
    "short and long": lambda _: mixed(),
}
