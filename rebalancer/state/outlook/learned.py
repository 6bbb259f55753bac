"""What was learnt about one model: small, goes to the checkpoint, and can be learnt again from the rings."""

from msgspec import Struct

from rebalancer.state.outlook.rule import SHIFT_WINDOWS_SECONDS

Three = tuple[float, float, float]


class Excesses(Struct, frozen=True):
    """How far the mean of a short window stood from the level before, and what was left of it a start later.

    All in sqrt(level). `typical`: the usual size (0: not known yet). `up`, `down`: the largest of each sign. `pairs`:
    (excess, what was left), of those large enough to be asked about.
    """

    typical: float = 0.0
    up: float = 0.0
    down: float = 0.0
    pairs: tuple[tuple[float, float], ...] = ()


class Learned(Struct, frozen=True, omit_defaults=True):
    """`beta`: the level's correction by last minute, 5 minutes and hour. `gamma`: how much of a dispersion stays.

    `rho`: share of replays taken from whole periods of `period_seconds` back. `excesses`: of each shift window.
    `error`, `plain_error`: mean |forecast - came| / came over the last hour, with the correction (learnt before that
    hour) and without; None before there is an hour to measure. `rare`: seconds, before those that are replayed anyway,
    after which the most came that was not expected. `at`: second of learning, 0: never.
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
