"""What a model has to do and with how many replicas, in the words of every sentence that compares two models."""

from rebalancer.domain.words import figure, work_of
from rebalancer.planning.demand.need import ModelNeed


def at_work(model: ModelNeed) -> str:
    """`4.2 replicas of work on 3`: what keeps busy now, on the undoomed replicas asked for."""
    now = work_now(model)
    return f"{'unknown work' if now is None else work_of(now)} on {model.staying_replicas}"


def besides(model: ModelNeed) -> str:
    """`code 0.25 on 5`: the same of a second model, beside one whose unit is said."""
    now = work_now(model)
    return f"{model.entry.id} {'unknown work' if now is None else figure(now)} on {model.staying_replicas}"


def work_now(model: ModelNeed) -> float | None:
    """Offered work in replicas: in a surge of the short window, since that is what it is about; else the last minute's.

    None where nobody knows it.
    """
    work = model.load.work
    if model.demand.surge and work.short is not None:
        return work.short
    return work.last_60s
