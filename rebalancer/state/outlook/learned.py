"""Figures learnt about one model from the last hours: small, and they can be learnt again from the rings."""

from msgspec import Struct

from rebalancer.state.outlook.rule import SHIFT_WINDOWS_SECONDS

Three = tuple[float, float, float]


class Excesses(Struct, frozen=True):
    """How far the mean of a short window stood from the level before, and how much of it was left a start later.

    All are in square roots of the level.

    typical: the usual size of an excess; 0: not known yet.
    up: the largest excess above the level.
    down: the largest excess below it.
    pairs: for each large excess its size, and how much of it was left a start later.
    """

    typical: float = 0.0
    up: float = 0.0
    down: float = 0.0
    pairs: tuple[tuple[float, float], ...] = ()


class Learned(Struct, frozen=True, omit_defaults=True):
    """Figures that the last three hours taught about one model.

    beta: correction of the level by how the last minute, 5 minutes and hour differ from it.
    gamma: how much of a dispersion stays until the horizon, as an exponent, 0 for none.
    period_seconds: seconds after which forecast errors repeat themselves.
    rho: share of the replays' weight that is on whole periods, 0-0.9.
    excesses: how excesses went on, for each window of a shift.
    error: mean |forecast - came| / came over the last hour, with a correction learnt before it; None: no such hour yet.
    plain_error: the same without a correction; None: no such hour yet.
    rare: seconds after which far more came than was forecast, of those too old to be replayed anyway.
    at: the second of learning; 0: never.
    busiest: offered work of the busiest five minutes, in replicas; 0: not known yet.
    enough: the fewest replicas with which standing still would have sufficed (`stood.Stood`); 0: not known yet.
    peak: offered work of the busiest ten seconds for which these were enough, in replicas.
    minute: that of the busiest such minute.
    """

    beta: Three = (0.0, 0.0, 0.0)
    gamma: float = 0.0
    period_seconds: int = 0
    rho: float = 0.0
    excesses: tuple[Excesses, ...] = (Excesses(),) * len(SHIFT_WINDOWS_SECONDS)
    error: float | None = None
    plain_error: float | None = None
    rare: tuple[int, ...] = ()
    at: int = 0
    busiest: float = 0.0
    enough: int = 0
    peak: float = 0.0
    minute: float = 0.0
