"""The look-ahead's formulas as plain loops over one model's seconds: slow, and easy to read beside the text."""

import math
from collections.abc import Sequence

import numpy as np

Numbers = Sequence[float] | np.ndarray


def mean(work: Numbers, end: int, window: int) -> float:
    begin = max(0, end - window)
    return sum(map(float, work[begin:end])) / (end - begin)


def base(work: Numbers, s: int) -> float:
    return max(0.001, 0.1 * mean(work, s, 60) + 0.5 * mean(work, s, 300) + 0.4 * mean(work, s, 1200))


def features(work: Numbers, s: int) -> list[float]:
    return [mean(work, s, window) / base(work, s) - 1 for window in (60, 300, 3600)]


def level(work: Numbers, s: int, beta: Numbers) -> float:
    told = sum(float(b) * x for b, x in zip(beta, features(work, s), strict=True))
    return max(0.001, base(work, s) * min(max(1 + told, 0.5), 2.0))


def dispersion(work: Numbers, end: int, window: int) -> float:
    rates = [mean(work, e, 10) for e in range(end, max(end - window, 0), -10) if e >= 10]
    if len(rates) < 6 or sum(rates) == 0:
        return 1.0
    middle = sum(rates) / len(rates)
    return sum((rate - middle) ** 2 for rate in rates) / len(rates) / middle


def grid(t: int, horizon: int) -> list[int]:
    return [t - horizon - 60 * k for k in range(min(10_800, t - horizon - 60) // 60)]


def beta(work: Numbers, t: int, cold: int, horizon: int) -> np.ndarray:
    rows, targets = [], []
    for s in grid(t, horizon):
        if s >= 300:
            came = float(np.mean(work[s + cold : s + horizon]))
            rows.append(features(work, s))
            targets.append(min(max(came / base(work, s) - 1, -1), 2))
    x, y, number = np.array(rows), np.array(targets), len(rows)
    gram = x.T @ x
    each = [200 * (gram[a, a] / number + 0.2 * np.trace(gram) / (3 * number)) for a in range(3)]
    return np.linalg.solve(gram + np.diag(each), x.T @ y)


def gamma(work: Numbers, t: int, horizon: int) -> float:
    points = [s for s in grid(t, horizon) if s >= 300]
    x = np.log([max(1e-3, dispersion(work, s, 300)) for s in points])
    y = np.log([max(1e-3, dispersion(work, s + horizon, 90)) for s in points])
    spread = ((x - x.mean()) ** 2).sum()
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / (spread * (1 + 200 / len(points))))
    return min(max(slope, 0.0), 1.0)


def correlation(x: Numbers, y: Numbers) -> float:
    return float(np.corrcoef(x, y)[0, 1])


def excess(work: Numbers, s: int, window: int, beta: Numbers) -> float:
    now = level(work, s, beta)
    return (mean(work, s, window) - now) / math.sqrt(now)


def shift_probability(x: float, known: list[tuple[float, float]]) -> float:
    """`known`: all (excess, what was left of it), of either sign and size."""
    same = [(one, left) for one, left in known if one * x > 0]
    largest = max((abs(one) for one, _ in same), default=0.0)
    r = max(0.0, 1 - 3 * largest / abs(x))
    like = [(one, left) for one, left in same if abs(one) >= 0.7 * abs(x)]
    above = 5 * r * x**2 + sum(one * left for one, left in like)
    below = (5 * r + (1 - r)) * x**2 + sum(one**2 for one, _ in like)
    return min(max(above / below, 0.0), 0.95)


def replay(work: Numbers, t: int, s: int, now: float, then: float, scale: float, steps: int, dt: int) -> list[float]:
    a = math.sqrt(now / then) * scale
    return [max(0.0, a * float(sum(work[s + i * dt : s + (i + 1) * dt])) + (now - a * then) * dt) for i in range(steps)]


def cost(
    arriving: Numbers,
    able: Numbers,
    backlog: float,
    level: float,
    dt: int,
    slo: float = 2.0,
    headroom: float = 0.5,
    patience: float = 30.0,
    bound: float = math.inf,
    per: float = 0.0,
    lost: float = 0.1,
    minute: float = 0.0,
) -> float:
    """Late replica-seconds of one path under one course of capacity, and what is left over beyond it."""
    late, slowest, length = 0.0, 0.0, 0
    for step, (arrives, n) in enumerate(zip(arriving, able, strict=True)):
        wait = backlog / max(n, 1e-3)
        share = min(1.0, wait / (headroom + 2 * slo))
        late += arrives * share
        slowest, length = max(slowest, share), length + dt
        if length >= 60 or step == len(arriving) - 1:
            late += minute * level * length * slowest
            slowest, length = 0.0, 0
        stays = wait <= patience + headroom and backlog <= bound + per * n
        late += 0.0 if stays else lost * arrives
        backlog = max(0.0, backlog + (arrives if stays else 0.0) - n * dt)
    excess = (backlog - (headroom + slo) * able[-1]) * max(1.0, level / max(able[-1], 1e-3))
    return late + level * min(max(excess, 0.0) / max(able[-1] - level, 0.6), 300.0)


def capacity(ready: int, due: Sequence[float], m: int, cold: int, steps: int, dt: int) -> list[int]:
    current = ready + len(due)
    kept = sorted(due)[: max(0, m - ready)]
    return [
        min(ready, m) + sum(d <= i * dt for d in kept) + (max(0, m - current) if i * dt >= cold else 0)
        for i in range(steps)
    ]
