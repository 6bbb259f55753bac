"""Fixed normal numbers: the same on every machine and in every plan, so that nothing jitters between two plans."""

import numpy as np

from rebalancer.state.outlook.past import F64

UNIFORMS = 12  # their sum less 6 has mean 0, variance 1 and all but the far tails of a normal


def normals(rows: int, columns: int) -> F64:
    """Fixed normal numbers, (rows, columns); every second row mirrors the one before, so together they have mean 0."""
    half = -(-rows // 2)
    numbers = np.arange(half * columns * UNIFORMS, dtype=np.uint64).reshape(half, columns, UNIFORMS)
    uniform = (_mixed(numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    z = uniform.sum(axis=2) - UNIFORMS / 2
    return np.stack([z, -z], axis=1).reshape(2 * half, columns)[:rows]


def _mixed(
    numbers: np.ndarray[tuple[int, ...], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """The finaliser of splitmix64, over a counter."""
    z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
