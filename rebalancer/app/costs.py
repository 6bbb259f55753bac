"""What a decision costs: the models that have fewer replicas by it, and how late that makes them. Pure."""

from collections.abc import Iterator

from rebalancer.app.foresight import Course, Foresight, Known
from rebalancer.domain.words import replicas
from rebalancer.planning.explanation.lateness import lateness_of

UNKNOWN = "what that costs is unknown, since its load is"


def costs_of(known: Known, seen: Foresight) -> Iterator[str]:
    """`code loses 3 replicas: 4.2 replicas of work on 3, about 140 of 900 requests late in 110 s; with 6: none ...`.

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
        said = lateness_of(work, outlook, left, model.priority)
        spared = lateness_of(None, outlook, most, model.priority)
        besides = f"; with {most}: {spared}" if spared else ""
        yield f"{name} {does} {replicas(most - left)}: {said or UNKNOWN}{besides}"


def _counts(course: Course, turn: int) -> dict[str, int]:
    """Replicas per model before (0), after the first turn (1) or after both (2)."""
    counts: dict[str, int] = {}
    for (name, _), held in course.held[turn].items():
        counts[name] = counts.get(name, 0) + held
    return counts
