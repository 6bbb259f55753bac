"""What the models of a pool had at work at one time, beside what each has at its own busiest. Pure.

Two models that are busy at different hours need fewer GPUs together than each needs alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from rebalancer.domain.policy import Policy
from rebalancer.domain.starts import quantile
from rebalancer.ingest.past.minutes import ModelMinute
from rebalancer.ingest.past.use import HOUR_SECONDS, MOST_OF


class PoolTogether(Struct, frozen=True):
    """The models at home in one pool over a window.

    pool: name of the pool.
    together: GPUs that had work at one time, which 95 of 100 steps did not exceed.
    alone: each model's own such figure, added up.
    idle_usd: what GPUs without work cost by the policy's price, None where the pool has none.
    unknown: models of which nobody tells how busy they were; they are in no figure here.
    """

    pool: str
    together: float
    alone: float
    idle_usd: float | None = None
    unknown: tuple[str, ...] = ()


def pools_together(policy: Policy, minutes: Iterable[ModelMinute]) -> tuple[PoolTogether, ...]:
    """Each pool in which two models or more are at home (their first target) and tell how busy they were."""
    by_model: dict[str, list[ModelMinute]] = defaultdict(list)
    for each in minutes:
        if each.busy is not None:
            by_model[each.model].append(each)
    return tuple(_pools(policy, by_model))


def _pools(policy: Policy, by_model: dict[str, list[ModelMinute]]) -> Iterator[PoolTogether]:
    for pool in policy.pools:
        at_home = [model for model in policy.models if model.targets[0].pool == pool.name]
        at_work: dict[float, float] = defaultdict(float)
        alone, idle_gpu_hours, unknown = list[float](), 0.0, list[str]()
        for model in at_home:
            busy = list[float]()
            for each in by_model[model.id]:
                held = model.gpus_per_replica * each.replicas
                busy.append(held * (each.busy or 0.0))
                at_work[each.at] += busy[-1]
                idle_gpu_hours += (held - busy[-1]) * each.seconds / HOUR_SECONDS
            if busy:
                alone.append(quantile(busy, MOST_OF))
            else:
                unknown.append(model.id)
        if len(alone) > 1:
            price = pool.price_per_gpu_hour
            together = quantile(list(at_work.values()), MOST_OF)
            yield PoolTogether(pool.name, together, sum(alone), idle_gpu_hours * price or None, tuple(unknown))
