"""Requests one by one out of what a trace says of each second: how many, and the sums of their tokens."""

import math
from typing import NamedTuple

import numpy as np

from rebalancer.sim.batching.state import I64
from rebalancer.sim.demand import F64, Stream

BLOCK_SECONDS = 60


class ComingRequests(NamedTuple):
    """Requests in the order of their instants: seconds, prompt tokens, tokens to generate."""

    arrived: F64
    prompt: I64
    tokens: I64


class BatchArrivals:
    """One stream's requests, `scale` for each recorded one.

    Instants are uniform within their second. A second's tokens are split in proportion to lognormal weights whose
    logarithm has the standard deviation `spread` (0: evenly), so sums stay what they were, in whole tokens of at least
    one. Minutes are drawn each from its own seed: what arrives does not depend on who asks, when, or how often.
    """

    def __init__(self, stream: Stream, *, scale: float, spread: float, seed: int, model: int) -> None:
        self._counts = np.diff(np.floor(np.cumsum(stream.requests * scale) + 1e-6), prepend=0.0).astype(np.int64)
        each = 1.0 / np.maximum(stream.requests, 1e-12)
        self._prompt = stream.prompt_tokens * each
        self._tokens = stream.generated_tokens * each
        self._spread = spread
        self._seed = seed, model
        self._block = -1
        self._drawn = ComingRequests(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
        self._first_number = np.concatenate([[0], np.cumsum(self._counts)])

    def first_number(self, second: int) -> int:
        """How many came before the second."""
        return int(self._first_number[second])

    def within(self, begin: int, end: int) -> ComingRequests:
        """Requests that come in seconds [begin, end), which lie within one block of `BLOCK_SECONDS`."""
        block = begin // BLOCK_SECONDS
        if block != self._block:
            self._block, self._drawn = block, self._draw(block * BLOCK_SECONDS)
        first = self._first_number[block * BLOCK_SECONDS]
        some = slice(int(self._first_number[begin] - first), int(self._first_number[end] - first))
        return ComingRequests(self._drawn.arrived[some], self._drawn.prompt[some], self._drawn.tokens[some])

    def _draw(self, begin: int) -> ComingRequests:
        end = min(begin + BLOCK_SECONDS, len(self._counts))
        counts = self._counts[begin:end]
        second = np.repeat(np.arange(len(counts)), counts)
        random = np.random.default_rng((*self._seed, begin // BLOCK_SECONDS))
        arrived = np.sort(begin + second + random.random(len(second)))
        prompt = self._split(self._prompt[begin:end], counts, second, random)
        return ComingRequests(arrived, prompt, self._split(self._tokens[begin:end], counts, second, random))

    def _split(self, mean: F64, counts: I64, second: I64, random: np.random.Generator) -> I64:
        weights = np.exp(self._spread * random.standard_normal(len(second)))
        sums = np.bincount(second, weights=weights, minlength=len(counts))
        shares = weights * (mean * counts / np.maximum(sums, math.ulp(1.0)))[second]
        whole = np.diff(np.floor(np.cumsum(shares) + 1e-6), prepend=0.0)
        return np.maximum(1, whole).astype(np.int64)
