"""How a batch model stands back, in words: what is due by when, or when its turn is."""

from rebalancer.domain.instant import clock
from rebalancer.domain.plan import Step
from rebalancer.domain.words import counted, figure, replicas
from rebalancer.planning.demand.deferral import Deferral
from rebalancer.planning.shares.share import ModelShare


def deferral_steps(model: ModelShare) -> tuple[Step, ...]:
    """How far a batch model stands back, and when it is due, or its turn."""
    found = model.deferral
    if found.counts:
        return (_deadline(found),)
    if found.weight >= 1.0 and found.since is None:
        return ()
    said = f"it stands back: a request counts {figure(found.weight)} of its priority"
    if found.due and found.until is not None:
        said = f"it has its turn until {clock(found.until)}: {replicas(found.due)} of it come before what anybody gains"
    elif found.since is not None and found.turn_at is not None:
        said += f"; it is deferred since {clock(found.since)} and has its turn at {clock(found.turn_at)}"
    numbers: dict[str, float | int | str | None] = {
        "weight": found.weight,
        "deferredSince": found.since,
        "turnAt": found.turn_at,
        "due": found.due,
    }
    return (Step("deferral", said, numbers),)


def _deadline(found: Deferral) -> Step:
    """The deadline that presses first, in words, with the replicas that it takes."""
    deadline = found.deadline
    counts = f"the oldest request counts {figure(found.weight)} of its priority"
    if deadline is None:
        said = f"no request waits; one that comes counts {figure(found.weight)} of its priority at first"
        return Step("deferral", said, {"weight": found.weight, "waiting": 0})
    many = round(deadline.requests)
    due = f"{counted(many, 'request')} {'is' if many == 1 else 'are'} due by {clock(deadline.by)}"
    if not deadline.replicas:
        said = f"{due}, and one replica that starts at {clock(deadline.one_from)} suffices; {counts}"
    else:
        beside = "" if found.due >= deadline.replicas else f", of which {found.due} fit beside what others need"
        takes = f"that takes {replicas(deadline.replicas)} now"
        said = f"{due}: {takes}{beside}; {counts}"
    return Step(
        "deferral",
        said,
        {
            "weight": found.weight,
            "waiting": sum(some for some, _ in found.counts[1:]),
            "dueBy": deadline.by,
            "dueRequests": deadline.requests,
            "oneSufficesFrom": deadline.one_from,
            "takes": deadline.replicas,
            "due": found.due,
        },
    )
