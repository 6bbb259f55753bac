"""How a batch model stands back, in words: what is due by when, or when its turn is."""

from rebalancer.domain.instant import clock
from rebalancer.domain.plan import Step
from rebalancer.domain.words import counted, figure, replicas
from rebalancer.planning.demand.deferral import Deferral
from rebalancer.planning.shares.share import ModelShare


def deferral_steps(model: ModelShare) -> tuple[Step, ...]:
    """How far a batch model stands back, and when it is due, or its turn."""
    deferral = model.deferral
    if deferral.counts:
        return (_deadline(deferral),)
    if deferral.weight >= 1.0 and deferral.since is None:
        return ()
    text = f"a request of batch work weighs {figure(deferral.weight)} of its priority"
    if deferral.due and deferral.until is not None:
        first = f"{replicas(deferral.due)} of it come before what anybody gains"
        text = f"it has its turn until {clock(deferral.until)}: {first}"
    elif deferral.since is not None and deferral.turn_at is not None:
        text += f"; it is deferred since {clock(deferral.since)} and has its turn at {clock(deferral.turn_at)}"
    numbers: dict[str, float | int | str | None] = {
        "weight": deferral.weight,
        "deferredSince": deferral.since,
        "turnAt": deferral.turn_at,
        "due": deferral.due,
    }
    return (Step("deferral", text, numbers),)


def _deadline(deferral: Deferral) -> Step:
    """The deadline that presses first, in words, with the replicas that it takes."""
    deadline = deferral.deadline
    counts = f"the oldest request counts {figure(deferral.weight)} of its priority"
    if deadline is None:
        text = f"no request waits; one that comes counts {figure(deferral.weight)} of its priority at first"
        return Step("deferral", text, {"weight": deferral.weight, "waiting": 0})
    many = round(deadline.requests)
    due = f"{counted(many, 'request')} {'is' if many == 1 else 'are'} due by {clock(deadline.by)}"
    if not deadline.replicas:
        text = f"{due}, and one replica that starts at {clock(deadline.one_from)} suffices; {counts}"
    else:
        beside = "" if deferral.due >= deadline.replicas else f", of which {deferral.due} fit beside what others need"
        takes = f"that takes {replicas(deadline.replicas)} now"
        text = f"{due}: {takes}{beside}; {counts}"
    return Step(
        "deferral",
        text,
        {
            "weight": deferral.weight,
            "waiting": sum(some for some, _ in deferral.counts[1:]),
            "dueBy": deadline.by,
            "dueRequests": deadline.requests,
            "oneSufficesFrom": deadline.one_from,
            "takes": deadline.replicas,
            "due": deferral.due,
        },
    )
