"""Stored predictions in words and rows: what was predicted of each day, by whom, and what came."""

from collections.abc import Iterator, Sequence

from rebalancer.domain.words import counted
from rebalancer.obs.predictions import AUTOSCALER, DayPrediction
from rebalancer.report.report import DASH, amount


def predictions_said(predictions: Sequence[DayPrediction]) -> str:
    """How often what came was what had been predicted."""
    known = [each.is_close for each in predictions if each.is_close is not None]
    if not known:
        return "Predicted of each day, and what came: nobody counts requests, so of late ones nothing is known."
    return (
        f"Predicted of each day, and what came: late requests within 20 % or 20 for {sum(known)} of"
        f" {counted(len(known), 'day of a model', 'days of models')}."
    )


def courses_said(predictions: Sequence[DayPrediction]) -> Iterator[str]:
    """What we would have come to beside what was in charge, over all days of shadow that were played: a sentence."""
    both = [each for each in predictions if each.in_charge == AUTOSCALER and each.late_by_us is not None]
    if not both:
        return
    days = counted(len({each.day for each in both}), "day")
    ours = sum(each.late_by_us or 0.0 for each in both), sum(each.gpu_hours_by_us or 0.0 for each in both)
    theirs = sum(each.late_by_autoscaler or 0.0 for each in both), sum(each.gpu_hours_by_autoscaler for each in both)
    yield (
        f"Predicted of {days} in shadow: with us in charge {ours[0]:,.0f} late requests and {amount(ours[1])} GPU-hours"
        f" of Ready replicas, with your autoscalers {theirs[0]:,.0f} and {amount(theirs[1])}."
    )


def causes_said(predictions: Sequence[DayPrediction]) -> Iterator[str]:
    """A sentence for each day of a model whose late requests did not come as predicted."""
    yield from (f"{each.model}, {each.day}: {each.likely_cause}." for each in predictions if each.likely_cause)


def prediction_rows(predictions: Sequence[DayPrediction]) -> list[list[str]]:
    """A line for each day and model, heads first."""
    rows = [["model", "day", "in charge", "late", "came", "GPU-h", "came", "close"]]
    for each in predictions:
        late, hours = (each.late_predicted, each.late), (each.gpu_hours_predicted, each.gpu_hours)
        close = {None: DASH, True: "yes", False: "no"}[each.is_close]
        figures = [DASH if value is None else f"{value:,.0f}" for value in late]
        figures += [DASH if value is None else amount(value) for value in hours]
        rows.append([each.model, each.day, each.in_charge, *figures, close])
    return rows
