"""What one replica of a continuously batching server can do: a few numbers that a profile of it measures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.sim.demand import F64


@dataclass(frozen=True, slots=True)
class BatchingEngine:
    """Iterations of one replica: every decoding request gets a token, prompts get what is left of the token budget.

    An iteration with B decoding requests and P prompt tokens takes the sum of what each costs, in seconds:
    `seconds_at` over `batches` at B, in straight lines; `seconds_per_kv_token` x (tokens that those B attend to);
    P / `prefill_per_second`; and `seconds_per_pair` x (each prompt token x those before it).

    A request starts when the budget has tokens for its prompt. It reserves its prompt in the cache when it starts and
    grows by a token per iteration; the youngest goes back to the queue, to be computed again, when the cache is full.

    prefill_per_second: prompt tokens that are computed per second.
    batches: numbers of decoding requests, rising, for which `seconds_at` has a time.
    seconds_at: seconds that an iteration takes with each of `batches`; before them the first value holds, beyond them
        the last line is drawn on.
    kv_tokens: tokens of prompts and answers that the cache holds.
    seconds_per_kv_token: seconds that an iteration takes for each token in the cache that is attended to.
    most_running: requests that run at a time at most; the others wait.
    tokens_per_iteration: token budget of an iteration, more than `most_running`.
    seconds_per_pair: seconds for each pair of a prompt token and one before it in the same prompt.
    """

    prefill_per_second: float
    batches: tuple[int, ...]
    seconds_at: tuple[float, ...]
    kv_tokens: int
    seconds_per_kv_token: float = 0.0
    most_running: int = 64
    tokens_per_iteration: int = 512
    seconds_per_pair: float = 0.0

    def __post_init__(self) -> None:
        if len(self.batches) != len(self.seconds_at) or list(self.batches) != sorted(set(self.batches)):
            raise ValueError(f"batches {self.batches} must rise, each with its time: {self.seconds_at}")
        if self.tokens_per_iteration <= self.most_running:
            raise ValueError(
                f"tokens_per_iteration {self.tokens_per_iteration} leaves no room for prompts beside "
                f"{self.most_running} decoding requests"
            )

    def decode_seconds(self) -> F64:
        """Seconds of an iteration by the number of decoding requests; shape (`most_running` + 1,)."""
        return straight(self.batches, self.seconds_at, np.arange(self.most_running + 1.0))


def straight(at: Sequence[float], values: Sequence[float], wanted: F64) -> F64:
    """Straight lines through the points, the last one drawn on beyond them, the first value before them."""
    interpolated = np.interp(wanted, at, values)
    if len(at) > 1:
        slope = (values[-1] - values[-2]) / (at[-1] - at[-2])
        interpolated = np.where(wanted > at[-1], values[-1] + slope * (wanted - at[-1]), interpolated)
    return interpolated
