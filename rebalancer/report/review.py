"""A change of policy as one value: what a reviewer reads, and what thresholds are held against."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rebalancer.domain.words import counted
from rebalancer.report.decisions import ChangedDecision
from rebalancer.report.measures import CHANGED, GPU_HOURS, LATE, Judged, Measure

LEAST_HOURS = 0.05  # GPU-hours: less is no difference


class ModelReview(Struct, frozen=True):
    """One model's part of a comparison; None: not known, or nothing to compare.

    model: its id.
    requests: that came.
    late_before: late ones under what there is.
    late_after: late ones under what is proposed.
    gpu_hours_before: GPU-hours of its Ready replicas under what there is.
    gpu_hours_after: GPU-hours of its Ready replicas under what is proposed.
    moves_before: moves of its replicas under what there is.
    moves_after: moves of its replicas under what is proposed.
    """

    model: str
    requests: float | None
    late_before: float | None
    late_after: float | None
    gpu_hours_before: float | None
    gpu_hours_after: float | None
    moves_before: int | None = None
    moves_after: int | None = None


class PolicyReview(Struct, frozen=True):
    """What a change of policy comes to.

    title: what was compared with what, over which time.
    headline: the one sentence to read.
    before: name of what there is.
    after: name of what is proposed.
    measures: the numbers that limits may be given for.
    models: the comparison of each model.
    limits: every limit that was given, and whether it holds.
    cycles: recorded cycles that were decided again; 0 where there is no journal.
    skipped: recorded cycles that could not be.
    examples: the first cycles that are decided otherwise.
    notes: what else is to be known, as sentences.
    damaged: sentences about what could not be read.
    """

    title: str
    headline: str
    before: str
    after: str
    measures: tuple[Measure, ...]
    models: tuple[ModelReview, ...]
    limits: tuple[Judged, ...] = ()
    cycles: int = 0
    skipped: int = 0
    examples: tuple[ChangedDecision, ...] = ()
    notes: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether every limit holds."""
        return all(each.holds for each in self.limits)


def headline(of: Sequence[Measure], before: str, after: str) -> str:
    """`38 % fewer late requests than under recorded: 12,420 instead of 20,210; 120 GPU-hours more`."""
    by_name = {each.name: each for each in of}
    return "; ".join(part for part in (_late(by_name, before, after), _hours(by_name), _otherwise(by_name)) if part)


def _late(by_name: Mapping[str, Measure], before: str, after: str) -> str:
    late = by_name.get(LATE, Measure(LATE, None, None))
    if late.before is None or late.after is None:
        return "How many requests would be late is not known"
    was, is_ = round(late.before), round(late.after)
    if was == is_:
        return f"{after} makes as many requests late as {before}: {is_:,}"
    much = f"{100 * abs(is_ - was) / was:.0f} % " if was else ""
    word = "fewer" if is_ < was else "more"
    return f"{after} makes {much}{word} requests late than {before}: {is_:,} instead of {was:,}"


def _hours(by_name: Mapping[str, Measure]) -> str:
    change = by_name[GPU_HOURS].change if GPU_HOURS in by_name else None
    if change is None:
        return ""
    if abs(change) < LEAST_HOURS:
        return "as many GPU-hours"
    return f"{abs(change):,.1f} GPU-hours {'more' if change > 0 else 'less'}"


def _otherwise(by_name: Mapping[str, Measure]) -> str:
    changed = by_name[CHANGED].after if CHANGED in by_name else None
    return "" if changed is None else f"{counted(round(changed), 'recorded decision')} would be another"
