"""What a model has to do and with how many replicas, in the words of every sentence that compares two models."""

from collections.abc import Callable

from rebalancer.domain.readings import Work
from rebalancer.domain.words import figure, work_of
from rebalancer.planning.demand.need import ModelNeed

OVER = 1.5  # times what arrives now: a mean so far above it tells of what is over, as a surge begins so far above one


def at_work(model: ModelNeed) -> str:
    """`4.2 replicas of work on 3`: what keeps busy now, on the undoomed replicas asked for.

    Of work that is seen for too short a time it is the level by which the model is decided about.
    """
    return f"{_work(model, work_of)} on {model.staying_replicas}"


def besides(model: ModelNeed) -> str:
    """`code 0.25 on 5`: the same of a second model, beside one whose unit is said."""
    return f"{model.entry.id} {_work(model, figure)} on {model.staying_replicas}"


def _work(model: ModelNeed, worded: Callable[[float], str]) -> str:
    now, believed = work_now(model.load.work, surge=model.demand.surge), model.believed
    if now is not None:
        return worded(now)
    return "unknown work" if believed is None else f"a level of {worded(believed.expected_level)}"


def work_now(work: Work, *, surge: bool) -> float | None:
    """Offered work in replicas: of the last minute, but of the short window in a surge, and where the minute is `OVER`.

    None where nobody knows it.
    """
    short, minute = work.short, work.last_60s
    if short is not None and (surge or (minute is not None and minute >= OVER * short)):
        return short
    return minute
