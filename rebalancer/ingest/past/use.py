"""What a model did with its GPUs over a window: held, busy, idle, late. Pure."""

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from rebalancer.domain.policy import Model
from rebalancer.domain.starts import quantile
from rebalancer.ingest.past.minutes import ModelMinute

MOST_OF = 0.95
HOUR_SECONDS = 3600.0


class WindowUse(Struct, frozen=True):
    """One model over a window.

    model: model id.
    hours: of the window in which somebody was scraped.
    gpus: GPUs held on the average of those hours, by the GPUs that the policy gives one replica.
    gpus_most: the most of them at one step.
    busy: mean share of the time in which they had work, 0-1, None where nobody tells.
    busy_p95: share that 95 of 100 steps did not exceed.
    by_gpus: whether `busy` is of GPUs; else it is of replicas that had a request in work.
    idle_gpu_hours: GPU-hours that were held and had no work, None where nobody tells.
    late: share of the steps with a latency in which it was above the SLO, None where there is no latency or no SLO.
    """

    model: str
    hours: float = 0.0
    gpus: float | None = None
    gpus_most: int | None = None
    busy: float | None = None
    busy_p95: float | None = None
    by_gpus: bool = False
    idle_gpu_hours: float | None = None
    late: float | None = None


def window_use(models: Iterable[Model], minutes: Iterable[ModelMinute]) -> tuple[WindowUse, ...]:
    """Each model's, in the order of `models`; of one that nobody scraped nothing is known."""
    by_model: dict[str, list[ModelMinute]] = defaultdict(list)
    for each in minutes:
        by_model[each.model].append(each)
    return tuple(_use(model, by_model[model.id]) for model in models)


def _use(model: Model, minutes: list[ModelMinute]) -> WindowUse:
    seconds = sum(each.seconds for each in minutes)
    if not seconds:
        return WindowUse(model.id)
    replica_seconds = sum(each.replicas * each.seconds for each in minutes)
    known = [(each.busy, each.replicas * each.seconds) for each in minutes if each.busy is not None]
    weight = sum(part for _, part in known)
    late = [(each.late, each.seconds) for each in minutes if each.late is not None]
    return WindowUse(
        model=model.id,
        hours=seconds / HOUR_SECONDS,
        gpus=model.gpus_per_replica * replica_seconds / seconds,
        gpus_most=model.gpus_per_replica * max(each.replicas for each in minutes),
        busy=sum(busy * part for busy, part in known) / weight if weight else None,
        busy_p95=quantile([busy for busy, _ in known], MOST_OF) if known else None,
        by_gpus=any(each.by_gpus for each in minutes),
        idle_gpu_hours=model.gpus_per_replica * sum((1.0 - busy) * part for busy, part in known) / HOUR_SECONDS
        if known
        else None,
        late=sum(part for was, part in late if was) / sum(part for _, part in late) if late else None,
    )
