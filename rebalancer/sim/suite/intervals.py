"""Whether a difference between two runs of the same traffic counts: a paired bootstrap over blocks of time."""

import numpy as np

from rebalancer.sim.demand import F64

DRAWS = 2_000
SHARE = 0.95


def paired_interval(a_blocks: F64, b_blocks: F64, seed: int) -> tuple[float, float, float]:
    """The headline of `a` minus that of `b`, and the low and high end of its 95 % interval.

    Arrays of shape (blocks, 2), what is counted of each 10 minutes and what it is a share of (`row.Played`), or
    (seeds, blocks, 2). Each draw takes the same blocks, with replacement, of both: what the traffic does to both of
    them cancels. A block of all seeds is drawn as one: seeds share the traffic of a block, so that five of them are no
    five independent looks at it. The difference counts when 0 lies outside. Raises ValueError when the runs are not
    over the same seeds and blocks.
    """
    if a_blocks.shape != b_blocks.shape:
        raise ValueError(f"runs of {a_blocks.shape[:-1]} and {b_blocks.shape[:-1]} blocks cannot be paired")
    a, b = (each.reshape(-1, *each.shape[-2:]).sum(axis=0) for each in (a_blocks, b_blocks))
    blocks = len(a)
    times = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), size=DRAWS)
    differences = _share(times @ a) - _share(times @ b)
    low, high = np.quantile(differences, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    whole = _share(a.sum(axis=0)) - _share(b.sum(axis=0))
    return float(whole), float(low), float(high)


def _share(counted_and_all: F64) -> F64:
    counted, every = counted_and_all[..., 0], counted_and_all[..., 1]
    shares: F64 = np.divide(counted, every, out=np.zeros_like(counted), where=every > 0)
    return shares
