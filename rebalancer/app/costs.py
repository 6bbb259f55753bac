"""What a decision costs: the models that have fewer replicas by it, and how late that makes them. Pure."""

from collections.abc import Iterator

from rebalancer.app.foresight import Course, Foresight, Known
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.words import counted, figure, replicas, work_of

UNKNOWN = "what that costs is unknown, since its load is"


def costs_of(known: Known, seen: Foresight) -> Iterator[str]:
    """`code loses 3 replicas: 4.2 replicas of work on 3, about 140 more of 900 requests late in 110 s than with 6`.

    One sentence per model that ends with fewer replicas than it has, or than it would have without the decision.
    """
    loads = {load.model: load for load in known.snapshot.loads}
    surges = {each.model for each in seen.course.now.models if each.surge}
    before, otherwise, after = _counts(seen.course, 0), _counts(seen.without, 2), _counts(seen.course, 2)
    for model in known.policy.models:
        name, left = model.id, after.get(model.id, 0)
        most = max(otherwise.get(name, 0), left)
        if left == most:
            continue
        does = "loses" if left < before.get(name, 0) else "does not get"
        load = loads.get(name)
        work = None if load is None else load.work.short if name in surges else load.work.last_60s
        outlook = None if load is None else load.outlook
        busy = "" if work is None else f"{work_of(work)} on {left}"
        late = "" if outlook is None else _more_late(outlook, work, (left, most), model.priority)
        yield f"{name} {does} {replicas(most - left)}: {', '.join(filter(None, [busy, late])) or UNKNOWN}"


def _more_late(outlook: Outlook, work: float | None, counts: tuple[int, int], priority: int) -> str:
    """What the first count of replicas makes late that the second would not; "" where either was not played.

    The difference, since what is late with either holds the same surges of the past.
    """
    fewer, more = counts
    late, spared = outlook.late_with(fewer, priority), outlook.late_with(more, priority)
    if late is None or spared is None or outlook.deferred:
        return ""
    number = figure(max(0.0, late - spared))
    many = "no" if number == "0" else f"about {number}"
    of = "s of late minutes" if outlook.by_minute else f"of {counted(round(outlook.expected_requests), 'request')} late"
    lateness = f"{many} more {of} in {outlook.horizon_seconds} s than with {more}"
    return ", ".join(filter(None, [lateness, outlook.at_level(work)]))


def _counts(course: Course, turn: int) -> dict[str, int]:
    """Replicas per model before (0), after the first turn (1) or after both (2)."""
    counts: dict[str, int] = {}
    for (name, _), held in course.held[turn].items():
        counts[name] = counts.get(name, 0) + held
    return counts
