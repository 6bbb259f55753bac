"""What every count of replicas of a model is worth, judged by replays of its own past, and why."""

from msgspec import Struct

from rebalancer.domain.instant import Instant


class Outlook(Struct, frozen=True):
    """`values`: cost of least, least + 1, ... replicas, lower is better: requests late, times priority and `weight`.

    Where the objective is `by_minute`, seconds of late minutes take the place of late requests. `late`: the same to the
    horizon without weight, switching, caution, full use and surges that no replay holds. `errors`: standard errors of
    `late` against that of `current`. `level`: replicas it is taken to need on average; `base`: before the learnt
    correction. `dispersion`: variance over mean of 10-s rates, replicas. `shift`: probability that the level is
    `shifted` now; `excess` in usual ones. `replays`: earlier errors played; `rho` of the weight is on whole periods of
    `period_seconds`. `work_of_one`: replica-seconds per request, 1 where nobody counts requests; `by_minute` those of a
    usual second. `error`, `plain_error`: of the forecast over the last hour, with and without what was learnt; None:
    not known yet. `usual`: median of the last hour's minutes that were observed; `weight`: what one that is late counts
    among other models, less where this one looks further. `deferred`: of a model with a deadline beyond the horizon
    nothing is late before that; what is left undone there takes the place of late requests. All quantised to 1e-6; `at`
    the second it was made, `horizon_seconds` from there to where the paths end.
    """

    at: Instant
    horizon_seconds: int
    current: int
    least: int
    values: tuple[float, ...]
    late: tuple[float, ...]
    errors: tuple[float, ...]
    level: float
    base: float
    dispersion: float
    shift: float
    shifted: float
    excess: float
    replays: int
    period_seconds: int
    rho: float
    work_of_one: float
    error: float | None
    plain_error: float | None
    usual: float | None = None
    weight: float = 1.0
    by_minute: bool = False
    deferred: bool = False
