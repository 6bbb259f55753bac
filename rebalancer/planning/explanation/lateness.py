"""Models that are short: their requests are late, or will be, and would be in time with more replicas.

A model that merely lacks room for bursts is not short: it would use more, and its users notice nothing.
"""

from rebalancer.domain.outlook import Outlook
from rebalancer.domain.words import counted, figure, seconds, sentences, work_of
from rebalancer.planning.demand.at_work import OVER, work_now
from rebalancer.planning.demand.votes import Vote
from rebalancer.planning.explanation.unclaimed import unclaimed
from rebalancer.planning.shares.share import ModelShare

LATE_SHARE = 0.01  # of the requests that come until the horizon: with more of them late a model is short


def short_of(model: ModelShare) -> int:
    """Replicas that a model is short of: those it lacks while requests are late or will be; 0 while they are in time.

    Latency beyond the SLO says so, or the outlook of what it has where votes or work already ask for more than that:
    the outlook's mean holds surges of its past, by which a model at ease would be called short for an hour after one.
    Latency within the SLO is believed, as long as no replica is doomed, where nobody looks ahead, and where no replica
    was seen full or late: there votes and outlook rest on a figure that this latency may contradict. Without latency
    its votes count. A need that nobody knows is held to be real.
    """
    has, deferral = has_now(model), model.deferral
    if deferral.counts:
        return max(0, deferral.deadline.replicas - has) if deferral.deadline is not None else 0
    in_slo, outlook = _in_slo(model), model.load.outlook
    believed = in_slo and not model.doomed and model.ready_staying
    if believed and _unbounded(model):
        return 0
    if not model.lacks:
        return beyond_policy(model) or _short_of_own(model)
    if in_slo is False:
        return model.lacks
    votes = model.ballot.need
    if votes is not None and outlook is not None and not outlook.deferred:
        to_do = _to_do(model, votes, outlook)
        return model.lacks if to_do > has and _will_be_late(outlook, has, model.entry.priority) else 0
    wanting = model.lacks if votes is None else min(model.lacks, max(0, votes - has))
    return 0 if believed else wanting


def _unbounded(model: ModelShare) -> bool:
    """Whether nobody knows how much more one of its replicas carries: none has been seen full or late."""
    carries = model.load.carries
    return carries is None or carries.high is None


def _to_do(model: ModelShare, votes: int, outlook: Outlook) -> float:
    """Replicas that a model has work for: the most of what votes ask for, what is expected and what arrives now.

    What is expected holds the last 20 minutes: once a surge is over, what arrives now counts in its place. Votes count
    what waits. Who is in time then stays so: a queue at which less arrives than is served grows shorter.
    """
    now = work_now(model.load.work, surge=model.demand.surge)
    if now is None or outlook.expected_level < OVER * now or _rises(model, outlook):
        return max(votes, outlook.expected_level, now or 0.0)
    return max(votes, now) if _in_slo(model) is None else now


def _rises(model: ModelShare, outlook: Outlook) -> bool:
    """Whether more is expected because more arrives of late, not because more did before."""
    short, minute = model.load.work.short, model.load.work.last_60s
    risen = outlook.shift > 0.0 and outlook.shifted > outlook.level
    return risen and (short is None or minute is None or short >= minute)


def beyond_policy(model: ModelShare) -> int:
    """Replicas that votes ask for beyond the policy's maximum, all of which serves while requests are late."""
    votes, most = model.ballot.need, model.entry.max_replicas
    if _in_slo(model) is not False or votes is None or model.ready_staying < most:
        return 0
    return max(0, votes - most)


def _short_of_own(model: ModelShare) -> int:
    """Replicas of its own that an owner is short of until its votes count, while its requests are late or will be."""
    wait, outlook = unclaimed(model), model.load.outlook
    if wait is None or outlook is None or outlook.deferred:
        return 0
    late = _in_slo(model) is False or _will_be_late(outlook, has_now(model), model.entry.priority)
    return wait.lacks if late else 0


def has_now(model: ModelShare) -> int:
    """Replicas that serve or load, without doomed ones."""
    return model.ready_staying + model.loading_staying


def lateness(model: ModelShare, replicas: int) -> str:
    """What a model has to do with `replicas`, and how late that is: `4.2 replicas of work on 3, about 140 late ...`."""
    outlook = None if model.ballot.blind else model.load.outlook
    over = f"latency is {_latency(model)}, its SLO {seconds(_slo(model))}" if _in_slo(model) is False else ""
    now = work_now(model.load.work, surge=model.demand.surge)
    return sentences(_lateness_of(now, outlook, replicas, model.entry.priority), over)


def _lateness_of(work: float | None, outlook: Outlook | None, replicas: int, priority: int) -> str:
    """`4.2 replicas of work on 3, about 140 of 900 requests late in the next 110 s at a level of 3.1`.

    "" of what is unknown.
    """
    busy = "" if work is None else f"{work_of(work)} on {replicas}"
    late = None if outlook is None or outlook.deferred else outlook.late_with(replicas, priority)
    if outlook is None or late is None:
        return busy
    many = "none" if figure(late) == "0" else f"about {figure(late)}"
    of = counted(round(outlook.expected_requests), "request")
    amount = f"about {figure(late)} s of late minutes" if outlook.by_minute else f"{many} of {of} late"
    until = " ".join(filter(None, [f"{amount} in the next {outlook.horizon_seconds} s", outlook.at_level(work)]))
    return ", ".join(filter(None, [busy, until]))


def late_now(model: ModelShare) -> str:
    """A clause for late requests of a model that has all its replicas, and how many of these load; "" for none."""
    if _in_slo(model) is not False:
        return ""
    load = f" while {counted(model.loading_staying, 'replica')} load" if model.loading_staying else ""
    return f"its requests are late{load}: {_latency(model)}, its SLO {seconds(_slo(model))}"


def in_time(model: ModelShare) -> str:
    """Why a model that would use more is not short: `is within its SLO with 2`."""
    if _in_slo(model):
        return f"is within its SLO with {has_now(model)} ({_latency(model)} of {seconds(_slo(model))})"
    if model.load.outlook is not None and not model.ballot.blind:
        return f"has its requests in time with {has_now(model)}"
    return ""


def _will_be_late(outlook: Outlook, replicas: int, priority: int) -> bool:
    """Whether more than 1 % of what comes until the horizon will be late; with fewer than were played all of it."""
    late = outlook.late_with(replicas, priority)
    return outlook.expected_requests > 0.0 if late is None else late > LATE_SHARE * outlook.expected_requests


def _slo(model: ModelShare) -> float:
    return float("inf") if model.entry.slo is None else model.entry.slo.latency_seconds


def _vote(model: ModelShare) -> Vote | None:
    """The vote of the p95 latency; None where it has none, or nothing is promised."""
    voted = (vote for vote in model.ballot.votes if vote.signal == "latency")
    return None if model.entry.slo is None else next(voted, None)


def _in_slo(model: ModelShare) -> bool | None:
    """Whether the latency that votes keeps the SLO; None where none votes, nobody asks, or it does not say."""
    vote = _vote(model)
    return None if vote is None else vote.keeps(_slo(model))


def _latency(model: ModelShare) -> str:
    """The latency that votes, in words."""
    vote = _vote(model)
    return "" if vote is None else vote.in_seconds
