"""What replicas are worth to one model: one more than a count, those between what it holds and its share, a demand."""

from rebalancer.domain.outlook import Outlook
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.memo import Memo
from rebalancer.planning.shares.deferred import values_of
from rebalancer.planning.shares.share import ModelShare


def next_gain(model: ModelShare, count: int, memo: Memo) -> float:
    """The worth of one GPU more to a model with `count` replicas, in requests: the best mean over the steps ahead."""
    outlook = model.load.outlook
    if outlook is None or model.share is None or count < outlook.least:
        return 0.0
    end = max(0, model.most_replicas - outlook.least + 1)  # it may have been told to have fewer than the outlook knows
    values = values_of(model, outlook, memo)[count - outlook.least : end]
    return memo.of(model.entry.id, _best_mean, values) / model.gpus


def _best_mean(values: tuple[float, ...]) -> float:
    here, *ahead = values or (0.0,)
    return max([(here - value) / step for step, value in enumerate(ahead, 1)], default=0.0)


def kept_by_one(model: ModelShare) -> float | None:
    """Late requests (or seconds) to the horizon that one replica of those between held and share keeps, in the mean.

    None where there is none between them, or nobody looks ahead.
    """
    outlook, share = model.load.outlook, model.share
    if outlook is None or share is None or share == model.staying_replicas:
        return None
    most = len(outlook.late) - 1
    fewer, more = sorted(min(most, max(0, count - outlook.least)) for count in (model.staying_replicas, share))
    return max(0.0, outlook.late[fewer] - outlook.late[more]) / abs(share - model.staying_replicas)


def needed_of(model: ModelNeed, demand: int, share: int | None, cost: float, memo: Memo) -> int:
    """Replicas of `demand`, less those that would gain nothing though they were there."""
    outlook = model.load.outlook
    if outlook is None or share is None or share >= demand:
        return demand
    return min(demand, max(share, memo.of(model.entry.id, _best, outlook, cost)))


def _best(outlook: Outlook, cost: float) -> int:
    """The most replicas of those that cost least; `cost`: of each, where nodes would have to bring it."""
    values = [value + cost * outlook.weight * number for number, value in enumerate(outlook.values)]
    return outlook.least + len(values) - 1 - values[::-1].index(min(values))
