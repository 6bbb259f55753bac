"""Whether a difference between two runs of the same traffic counts: a paired bootstrap over blocks of time."""

import numpy as np

from rebalancer.sim.demand import F64

DRAWS = 2_000
SHARE = 0.95


def paired_interval(a_blocks: F64, b_blocks: F64, seed: int) -> tuple[float, float, float]:
    """The violation of `a` minus that of `b`, and the low and high end of its 95 % interval.

    Arrays of shape (blocks, 2), late and all requests of each 10 minutes (`score.violations_by_block`). Each draw
    takes the same blocks, with replacement, of both: what the traffic does to both of them cancels. The difference
    counts when 0 lies outside. Raises ValueError when the runs are not over the same blocks.
    """
    if a_blocks.shape != b_blocks.shape:
        raise ValueError(f"runs of {len(a_blocks)} and {len(b_blocks)} blocks cannot be paired")
    blocks = len(a_blocks)
    times = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), size=DRAWS)
    differences = _violation(times @ a_blocks) - _violation(times @ b_blocks)
    low, high = np.quantile(differences, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    whole = _violation(a_blocks.sum(axis=0)) - _violation(b_blocks.sum(axis=0))
    return float(whole), float(low), float(high)


def _violation(late_and_all: F64) -> F64:
    late, asked = late_and_all[..., 0], late_and_all[..., 1]
    shares: F64 = np.divide(late, asked, out=np.zeros_like(late), where=asked > 0)
    return shares
