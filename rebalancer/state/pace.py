"""What one request of a model costs: the replica-seconds of work that its arrival brings.

By tokens where the engine counts them: tokens per request of the last minutes, times the replica-seconds of a token
where replicas are full (`state.cost`). Where nobody counts tokens: busy replica-seconds over requests finished.
"""

from math import exp
from typing import NamedTuple

from rebalancer.state.cost import Block, Cost, CostPast, beginning

PROMPT_SHARE = 1 / 8  # of a generated token's work that a prompt's has: 1/3 (8B) to 1/8 (70B) with full batches
BLOCK_SECONDS = 10.0  # sums are folded once in so long: an exponential for each sample would cost as much as the rest
LENGTHS_SECONDS = 300.0  # after which the lengths of requests are forgotten: they drift over hours
LEAST_REQUESTS = 1e-3  # finished and not yet forgotten: below, what was known last stands


class PacePast(NamedTuple):
    """A `Pace` for the checkpoint; pairs are fading sums, one over the other.

    lengths: tokens over requests finished.
    cost: what a token costs.
    plain: busy replica-seconds over requests finished, where nobody counts tokens.
    by_tokens: replica-seconds per request by tokens, 0: unknown.
    by_requests: replica-seconds per request by requests finished, 0: unknown.
    folded_at: when the sums were last folded.
    unfolded: sums since then: requests finished, tokens, busy and available replica-seconds, seconds between samples,
        and both of `plain`.
    block: the block of the cost that is not full yet.
    read: tokens of prompts, folded and not folded yet.
    full: requests that a full replica runs, 0: unknown.
    cached: requests that its cache would hold, 0: unknown.
    """

    lengths: tuple[float, float] = (0.0, 0.0)
    cost: CostPast = CostPast()
    plain: tuple[float, float] = (0.0, 0.0)
    by_tokens: float = 0.0
    by_requests: float = 0.0
    folded_at: float = 0.0
    unfolded: tuple[float, float, float, float, float, float, float] = (0.0,) * 7
    block: Block = Block()
    read: tuple[float, float] = (0.0, 0.0)
    full: float = 0.0
    cached: float = 0.0


class Pace:
    """One model's, in the order of event time but for what producers differ by.

    `by_tokens`, `by_requests`: replica-seconds per request, 0 = unknown; `of_token`: per token of a full replica. Of
    what came since the last fold: requests and their tokens, and what replicas did for them. `full`, `cached`: requests
    that a full replica runs, and that its cache would hold, as is known from elsewhere (0: unknown).
    """

    __slots__ = (
        "_able",
        "_busy",
        "_busy_plain",
        "_cost",
        "_finished",
        "_finished_plain",
        "_folded_at",
        "_lengths",
        "_plain",
        "_prompts",
        "_read",
        "_seconds",
        "_tokens",
        "by_requests",
        "by_tokens",
        "cached",
        "full",
        "of_token",
    )

    def __init__(self, before: PacePast | None = None) -> None:
        before = before or PacePast()
        self._lengths, self._cost, self._plain = before.lengths, Cost(before.cost, before.block), before.plain
        self.by_tokens, self.by_requests = before.by_tokens, before.by_requests
        self._read, self._prompts = before.read
        self.full, self.cached = before.full, before.cached
        self.of_token = self._cost.of_token(self._begins)
        self._folded_at = before.folded_at
        self._finished, self._tokens, self._busy, self._able, self._seconds, *plain = before.unfolded
        self._busy_plain, self._finished_plain = plain

    def _begin(self) -> None:
        self._finished = self._tokens = self._prompts = self._busy = self._able = self._seconds = 0.0
        self._busy_plain = self._finished_plain = 0.0

    def wrote(self, until: float, seconds: float, busy: float, pods: int, finished: float, tokens: float, prompts: float) -> None:  # noqa: E501, PLR0913  # fmt: skip  # a value type would be made for each sample
        """`busy` replicas of the `pods` that spoke did so many requests and tokens in `seconds` up to `until`.

        `prompts`: tokens that were read, NaN where nobody counts them.
        """
        if prompts > 0.0:
            self._prompts += prompts
        self._tokens += tokens
        self._finished += finished
        self._busy += busy * seconds
        self._able += pods * seconds
        self._seconds = seconds
        if until - self._folded_at >= BLOCK_SECONDS:
            self._fold(until)

    def finished(self, until: float, busy_seconds: float, requests: float) -> None:
        """`requests` were done in `busy_seconds` of replicas, by `until`; nobody counted tokens."""
        self._busy_plain += busy_seconds
        self._finished_plain += requests
        if until - self._folded_at >= BLOCK_SECONDS:
            self._fold(until)

    def _fold(self, until: float) -> None:
        passed, self._folded_at = until - self._folded_at, until
        forgets = exp(-passed / LENGTHS_SECONDS)
        self._lengths = tokens, requests = _faded(self._lengths, forgets, self._tokens, self._finished)
        self._read = forgets * self._read + self._prompts
        self._plain = busy_plain, plain = _faded(self._plain, forgets, self._busy_plain, self._finished_plain)
        if self._able:
            self._cost.saw(until, self._seconds, self._busy, self._able, self._tokens)
            self.of_token = self._cost.of_token(self._begins)
        if requests >= LEAST_REQUESTS and self.of_token:
            self.by_tokens = tokens / requests * self.of_token
        if plain >= LEAST_REQUESTS:
            self.by_requests = busy_plain / plain
        self._begin()

    @property
    def _begins(self) -> float:
        """Where the line of what a token costs is likely to begin; 1 where prompts are not counted beside answers."""
        written = self._lengths[0] - PROMPT_SHARE * self._read
        return beginning(self._read / written, self.full, self.cached) if self._read > 0.0 < written else 1.0

    def scale(self, times: float) -> None:
        """Corrects all sums where replicas were `times` as busy as they were taken to be."""
        self._cost.scale(times)
        self._busy *= times
        self._busy_plain *= times
        self._plain = times * self._plain[0], self._plain[1]
        self.of_token, self.by_tokens, self.by_requests = (
            times * each for each in (self.of_token, self.by_tokens, self.by_requests)
        )

    @property
    def past(self) -> PacePast:
        """The pace for the checkpoint."""
        unfolded = self._finished, self._tokens, self._busy, self._able, self._seconds
        return PacePast(
            self._lengths,
            self._cost.sums,
            self._plain,
            self.by_tokens,
            self.by_requests,
            self._folded_at,
            (*unfolded, self._busy_plain, self._finished_plain),
            self._cost.block,
            (self._read, self._prompts),
            self.full,
            self.cached,
        )


def _faded(sums: tuple[float, float], share: float, over: float, under: float) -> tuple[float, float]:
    """`share`: the share of the past that still counts."""
    return share * sums[0] + over, share * sums[1] + under
