"""What a token costs a replica whose batch is full, learnt from replicas that are seldom full.

A batch writes each token the slower the fuller it is, and the fuller it is the more prompts interrupt it. Busy seconds
per token, a replica being as busy as its slots are in use, come out as a line in that share: on three continuously
batching engines 0.27 to 0.4 of their end at a share of 0.16 to 0.18, 0.58 at 0.46, 0.99 at 1. The line's end is the
cost that says when replicas are full. Any mean over what was seen lies below it: one that full replicas dominate (by
the share's fourth power) by 13 to 21 %, the line's end by 1 %.
"""

from math import exp
from typing import NamedTuple

BLOCK_SECONDS = 60.0  # of one point of the line: running requests are told of an instant, tokens of an interval
BLOCK_SAMPLES = 12  # in a block: of fewer a single replica's running requests make a line of their own noise
COST_SECONDS = 21_600.0  # of full replicas, after which the cost of a token is forgotten: it changes with the engine
# Where the line begins, as a share of its end: what is taken before loads have differed. Seen: 0.14 to 0.25.
USUAL_BEGINNING = 0.3
USUAL_SPREAD = 0.1  # variance of the share in use, times blocks, that speaks as loudly: loads differ by 0.1 in 10 min


class CostKept(NamedTuple):
    """A `Cost` for the checkpoint: sums over blocks.

    `busy`: replica-seconds by slots in use; `used`, `used_squared`: of the share in use, by tokens; `busy_used`: of the
    share, by busy seconds.
    """

    blocks: float = 0.0
    tokens: float = 0.0
    busy: float = 0.0
    used: float = 0.0
    used_squared: float = 0.0
    busy_used: float = 0.0


class Cost:
    """One model's."""

    __slots__ = ("_able", "_busy", "_seconds", "_since", "_tokens", "kept")

    def __init__(self, kept: CostKept = CostKept()) -> None:  # noqa: B008  # frozen
        self.kept = kept
        self._begin(0.0)

    def _begin(self, since: float) -> None:
        self._since = since
        self._busy = self._able = self._tokens = self._seconds = 0.0

    def saw(self, until: float, seconds: float, busy: float, able: float, tokens: float) -> None:
        """In replica-seconds: `busy` by slots in use, of `able` that there were, wrote so many tokens by `until`.

        `seconds`: between samples.
        """
        if not self._since:
            self._since = until - seconds
        self._busy += busy
        self._able += able
        self._tokens += tokens
        self._seconds = seconds
        if until - self._since >= max(BLOCK_SECONDS, BLOCK_SAMPLES * self._seconds):
            self.kept = self._with_block(forgets=True)
            self._begin(until)

    def _with_block(self, *, forgets: bool = False) -> CostKept:
        if not self._able or self._tokens <= 0.0:
            return self.kept
        used = min(1.0, self._busy / self._able)
        stays = exp(-used * max(BLOCK_SECONDS, BLOCK_SAMPLES * self._seconds) / COST_SECONDS) if forgets else 1.0
        blocks, tokens, busy, by_used, squared, busy_used = self.kept
        return CostKept(
            stays * blocks + 1.0,
            stays * tokens + self._tokens,
            stays * busy + self._busy,
            stays * by_used + self._tokens * used,
            stays * squared + self._tokens * used * used,
            stays * busy_used + self._busy * used,
        )

    @property
    def of_token(self) -> float:
        """Replica-seconds of a token where all slots are in use; 0: unknown.

        Least squares of a block's busy seconds per token on its share in use, weighted by tokens, and held to lines
        that neither fall nor begin below 0.
        """
        blocks, tokens, busy, by_used, squared, busy_used = self._with_block()
        if tokens <= 0.0 or busy <= 0.0:
            return 0.0
        seen, used = busy / tokens, by_used / tokens
        spread = max(0.0, squared / tokens - used * used)
        usual = (1.0 - USUAL_BEGINNING) * seen / (USUAL_BEGINNING + (1.0 - USUAL_BEGINNING) * used)
        doubt = USUAL_SPREAD / blocks
        slope = (busy_used / tokens - used * seen + doubt * usual) / (spread + doubt)
        return seen + min(max(0.0, slope), seen / used) * (1.0 - used)
