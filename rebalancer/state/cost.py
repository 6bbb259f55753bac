"""What a token costs a replica whose batch is full, learnt from replicas that are seldom full.

A batch writes each token the slower the fuller it is, and the fuller it is the more prompts interrupt it. Busy seconds
per token, a replica being as busy as its slots are in use, come out as a line in that share: on three continuously
batching engines 0.27 to 0.4 of their end at a share of 0.16 to 0.18, 0.58 at 0.46, 0.99 at 1. The line's end is the
cost that says when replicas are full. Any mean over what was seen lies below it: one that full replicas dominate (by
the share's fourth power) by 13 to 21 %, the line's end by 1 %.

The line takes hours of loads that differ. Until then it leans as an engine's usually does (`beginning`): without that
half of the work there is seemed 0.26 to 0.78 of itself on three engines, with it 0.87 to 1.09 (Azure's conversations).
"""

from math import exp
from typing import NamedTuple

BLOCK_SECONDS = 60.0  # of one point of the line: running requests are told of an instant, tokens of an interval
BLOCK_SAMPLES = 12  # in a block: of fewer a single replica's running requests make a line of their own noise
COST_SECONDS = 10_800.0  # of full replicas, after which the cost of a token is forgotten: it changes with the engine
UNSURE_SPREAD = 0.03  # variance of the share in use, times blocks, that counts as much as what is usual: 0.05^2 in 12
# What an iteration costs, in prompt tokens: to read the weights, in which time GPUs compute 213 to 303 of them (the
# engines of the simulator); as much again to read a cache that is full and as large as the weights (0.3 to 4 times);
# and for each request that gets a token 1 to 4 (without its cache).
STEP_TOKENS = 250.0
DECODE_TOKENS = 5.0


def beginning(prompt_tokens: float, full: float, cached: float = 0.0) -> float:
    """Where the line of an engine usually begins, as a share of its end: what a token costs that is written alone.

    `prompt_tokens`: for each generated one; `full`: requests on a full replica; `cached`: that its cache would hold, 0:
    unknown. With N running an iteration writes N tokens and takes STEP_TOKENS + N x (what each adds), in seconds of a
    prompt token: those are the busy seconds per token of N slots in use.
    """
    each = prompt_tokens + DECODE_TOKENS + (STEP_TOKENS / cached if cached else 0.0)
    return STEP_TOKENS / (STEP_TOKENS + full * each)


class CostPast(NamedTuple):
    """A `Cost` for the checkpoint: fading sums over blocks.

    blocks: number of blocks.
    tokens: tokens written.
    busy: replica-seconds by slots in use.
    used: share of slots in use times tokens.
    rate: tokens per second of a replica times tokens.
    rate_used: both times tokens.
    rate_busy: tokens per second of a replica times busy replica-seconds.
    """

    blocks: float = 0.0
    tokens: float = 0.0
    busy: float = 0.0
    used: float = 0.0
    rate: float = 0.0
    rate_used: float = 0.0
    rate_busy: float = 0.0


class Block(NamedTuple):
    """Sums since the last block of samples began.

    since: when it began, 0: no block has begun.
    busy: replica-seconds by slots in use.
    able: replica-seconds there were.
    tokens: tokens written.
    seconds: seconds between two samples.
    used: share of slots in use times tokens. Tokens are written while slots are in use: over a minute's mean of both,
        bursts beside idle seconds would look like replicas that are slow at little load (Azure's code: 1.2 of the work
        there is).
    """

    since: float = 0.0
    busy: float = 0.0
    able: float = 0.0
    tokens: float = 0.0
    seconds: float = 0.0
    used: float = 0.0


class Cost:
    """The cost of a token of one model, learnt block by block."""

    __slots__ = ("_able", "_busy", "_seconds", "_since", "_tokens", "_used", "sums")

    def __init__(self, sums: CostPast = CostPast(), block: Block = Block()) -> None:  # noqa: B008  # frozen
        self.sums = sums
        self._since, self._busy, self._able, self._tokens, self._seconds, self._used = block

    def _begin(self, since: float) -> None:
        self._since = since
        self._busy = self._able = self._tokens = self._seconds = self._used = 0.0

    def saw(self, until: float, seconds: float, busy: float, able: float, tokens: float) -> None:
        """Adds `tokens` written by `until` in `busy` replica-seconds by slots in use, of `able` that there were.

        `seconds`: between samples.
        """
        if not self._since:
            self._since = until - seconds
        self._busy += busy
        self._able += able
        self._tokens += tokens
        self._used += tokens * min(1.0, busy / able)
        self._seconds = seconds
        if until - self._since >= max(BLOCK_SECONDS, BLOCK_SAMPLES * self._seconds):
            self.sums = self._with_block(forgets=True)
            self._begin(until)

    def _with_block(self, *, forgets: bool = False) -> CostPast:
        if not self._able or self._tokens <= 0.0:
            return self.sums
        used, rate = self._used / self._tokens, self._tokens / self._able
        stays = exp(-used * max(BLOCK_SECONDS, BLOCK_SAMPLES * self._seconds) / COST_SECONDS) if forgets else 1.0
        tokens, busy = self._tokens, self._busy
        seen = (1.0, tokens, busy, tokens * used, tokens * rate, tokens * rate * used, rate * busy)
        return CostPast(*(stays * old + new for old, new in zip(self.sums, seen, strict=True)))

    def scale(self, times: float) -> None:
        """Corrects all sums where slots in use were `times` the share that they were taken for."""
        sums = self.sums
        self._busy *= times
        self._used *= times
        self.sums = sums._replace(
            busy=sums.busy * times,
            used=sums.used * times,
            rate_used=sums.rate_used * times,
            rate_busy=sums.rate_busy * times,
        )

    @property
    def block(self) -> Block:
        """The block that is not full yet, for the checkpoint."""
        return Block(self._since, self._busy, self._able, self._tokens, self._seconds, self._used)

    def of_token(self, begins: float = 1.0) -> float:
        """Replica-seconds of a token where all slots are in use; 0: unknown.

        `begins`: where such lines usually begin, as a share of their end (1: as far as is known all tokens cost alike).

        A line through blocks' busy seconds per token over their share in use, weighted by tokens, and held to lines
        that neither fall nor begin below 0. Both are told by the same few looks at what runs, whose noise would be a
        line through 0: its slope is taken by what was written meanwhile, which is counted (instrumental variable).
        Before loads have differed the usual slope stands.
        """
        blocks, tokens, busy, by_used, by_rate, rate_used, rate_busy = self._with_block()
        if tokens <= 0.0 or busy <= 0.0 or by_used <= 0.0:
            return 0.0
        seen, used, rate = busy / tokens, by_used / tokens, by_rate / tokens
        rise, run = rate_busy / tokens - rate * seen, max(0.0, rate_used / tokens - rate * used)
        unsure = UNSURE_SPREAD / blocks * rate / used
        usual = seen * (1.0 - begins) / (begins + (1.0 - begins) * used)
        slope = (rise + unsure * usual) / (run + unsure)
        return seen + min(max(0.0, slope), seen / used) * (1.0 - used)
