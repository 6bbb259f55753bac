"""What was learnt about one model: small, goes to the checkpoint, and can be learnt again from the rings."""

from collections.abc import Iterable

from msgspec import Struct

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


class Steps(Struct, frozen=True):
    """Over all models: share of starts after which the level had stepped up, and by how much."""

    share: float = 0.0
    factor: float = 1.0


def common(learned: Iterable["Learned"]) -> Steps:
    """What any model may meet: sudden surges are rare, and one model's hours say little about its next one."""
    known = [one for one in learned if one.usual > 0.0]
    total = sum(one.steps for one in known)
    if not total:
        return Steps()
    factor = sum(one.steps * one.step for one in known) / total
    return Steps(round(total / len(known), 6), round(factor, 6))


class Learned(Struct, frozen=True, omit_defaults=True):
    """`beta`: the level's correction by last minute, 5 minutes and hour. `gamma`: how much of a dispersion stays.

    `rho`: share of replays taken from whole periods of `period_seconds` back. `excesses`: of each shift window.
    `usual`: the median level. `steps`: share of all starts after which at least twice the level came, `step` times it.
    `error`, `plain_error`: mean |forecast - came| / came over the last hour, with the correction (learnt before that
    hour) and without; None before there is an hour to measure. `at`: second of learning, 0: never.
    """

    beta: Three = (0.0, 0.0, 0.0)
    gamma: float = 0.0
    period_seconds: int = 0
    rho: float = 0.0
    excesses: tuple[Excesses, Excesses] = (Excesses(), Excesses())
    usual: float = 0.0
    steps: float = 0.0
    step: float = 1.0
    error: float | None = None
    plain_error: float | None = None
    at: int = 0
