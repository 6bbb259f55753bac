"""What a decision costs and brings: the models that have fewer or more replicas by it, and how late they are. Pure."""

from collections.abc import Iterator, Mapping

from rebalancer.api.text.words import some
from rebalancer.app.foresight import Course, Foresight, Known
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.policy import Model
from rebalancer.domain.words import counted, figure, replicas, work_of

UNKNOWN = "what that costs is unknown, since its load is"


def costs_of(known: Known, seen: Foresight, staying: Mapping[str, int]) -> Iterator[str]:
    """`code loses 3 replicas: 4.2 replicas of work on 3, about 140 more of 900 requests late in 110 s ...`.

    One sentence per model that ends with fewer replicas than it has, or than it would have without the decision.
    `staying`: by model what serves on though its node is drained, and so is not lost.
    """
    before = _counts(seen.without, 0)  # what serves today, on nodes that would be drained too
    for model, counted_on, otherwise in _differing(known, seen):
        left = counted_on + staying.get(model.id, 0)
        most = max(otherwise, left)
        if left < most:
            does = "loses" if left < before.get(model.id, 0) else "does not get"
            effect = _effect(known, seen, model, left, most)
            yield f"{model.id} {does} {replicas(most - left)}: {effect or UNKNOWN}"


def gains_of(known: Known, seen: Foresight) -> Iterator[str]:
    """`chat gets 2 replicas: 4.2 replicas of work on 5, about 90 fewer of 900 requests late in 110 s ...`.

    One sentence per model that ends with more replicas than it would have without the decision.
    """
    before = _counts(seen.course, 0)
    for model, has, otherwise in _differing(known, seen):
        if has > otherwise:
            effect = _effect(known, seen, model, has, otherwise)
            does = "gets" if has > before.get(model.id, 0) else "keeps"
            yield f"{model.id} {does} {replicas(has - otherwise)}: {effect or UNKNOWN.replace('costs', 'spares')}"


def lacks_of(known: Known, seen: Foresight, staying: Mapping[str, int]) -> Iterator[str]:
    """`chat is short of 3 replicas, of 1 without it: ...`: who is short in the end, and how late that is.

    Of a model that loses or does not get replicas `costs_of` says how late. What is `staying` serves until it is
    replaced: short of replacements alone nobody is late, and who is short beside them is as late as without it.
    """
    otherwise = {row.model: row for row in seen.without.lacks}
    differing = _differing(known, seen)
    priced = {model.id for model, has, without in differing if has + staying.get(model.id, 0) < without}
    for row in seen.course.lacks:
        if row.model not in priced:
            before, stays = otherwise.get(row.model), staying.get(row.model, 0)
            had = before.replicas if before else 0
            beside = "as without it" if had == row.replicas else f"of {had or 'none'} without it"
            short = before if stays else row
            late = f": {short.lateness}" if short and short.lateness and row.replicas > stays else ""
            yield f"{row.model} is short of {replicas(row.replicas)}, {beside}{late}"


def unmet_words(course: Course) -> str:
    """`3 replicas of chat, 1 of code`, or 0."""
    if not course.lacks:
        return "0"
    first, *others = course.lacks
    return some([f"{replicas(first.replicas)} of {first.model}", *(f"{row.replicas} of {row.model}" for row in others)])


def _differing(known: Known, seen: Foresight) -> Iterator[tuple[Model, int, int]]:
    """(model, replicas in the end, replicas in the end without the decision) of those where these differ."""
    otherwise, after = _counts(seen.without, 2), _counts(seen.course, 2)
    for model in known.policy.models:
        counts = after.get(model.id, 0), otherwise.get(model.id, 0)
        if counts[0] != counts[1]:
            yield model, *counts


def _effect(known: Known, seen: Foresight, model: Model, count: int, other: int) -> str:
    """The model's work on `count` replicas, and how many more or fewer requests are late than on `other` replicas."""
    load = next((each for each in known.snapshot.loads if each.model == model.id), None)
    if load is None:
        return ""
    surges = any(each.surge for each in seen.course.now.models if each.model == model.id)
    work = load.work.short if surges else load.work.last_60s
    busy = "" if work is None else f"{work_of(work)} on {count}"
    late = "" if load.outlook is None else _late(load.outlook, work, (count, other), model.priority)
    return ", ".join(filter(None, [busy, late]))


def _late(outlook: Outlook, work: float | None, counts: tuple[int, int], priority: int) -> str:
    """What the first count of replicas makes late, or spares, beside the second; "" where either was not played.

    The difference, since what is late with either holds the same surges of the past.
    """
    count, other = counts
    late, beside = outlook.late_with(count, priority), outlook.late_with(other, priority)
    if late is None or beside is None or outlook.deferred:
        return ""
    number = figure(max(0.0, late - beside if count < other else beside - late))
    many, word = "no" if number == "0" else f"about {number}", "more" if count < other else "fewer"
    of = "s of late minutes" if outlook.by_minute else f"of {counted(round(outlook.expected_requests), 'request')} late"
    lateness = f"{many} {word} {of} in the next {outlook.horizon_seconds} s than with {other}"
    return ", ".join(filter(None, [lateness, outlook.at_level(work)]))


def _counts(course: Course, turn: int) -> dict[str, int]:
    """Replicas per model before (0), after the first turn (1) or after both (2)."""
    counts: dict[str, int] = {}
    for (name, _), held in course.held[turn].items():
        counts[name] = counts.get(name, 0) + held
    return counts
