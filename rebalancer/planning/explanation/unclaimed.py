"""An owner whose votes ask for more of its own replicas than it may claim yet: what it lacks, and when that counts.

Worked example: code owns 5 replicas, has 2, and 3.5 replicas of work come. Its votes ask for 4 since 03:12:00. Bursts
are mostly over within 20 s, so they count from 03:12:20 on; until then code claims 2, and is not content all the same.
"""

from typing import NamedTuple

from rebalancer.domain.instant import Instant, clock
from rebalancer.domain.plan import Step
from rebalancer.domain.words import replicas
from rebalancer.planning.demand.owed import OWED_AFTER_SECONDS
from rebalancer.planning.overrides.rulings import NO_RULING
from rebalancer.planning.shares.share import ModelShare

STAGE, COUNTS_AT = "own", "countsAt"  # of the step, and its number: when votes count


class Unclaimed(NamedTuple):
    """Replicas of its own that a model's votes ask for beyond those it has.

    lacks: how many.
    votes: what they ask for, of its own.
    own: its entitlement.
    since: since when they ask for more than it has.
    counts_at: when that counts, unless they ask for fewer before.
    """

    lacks: int
    votes: int
    own: int
    since: Instant
    counts_at: Instant

    @property
    def clause(self) -> str:
        """`its votes ask for 4 of the 5 that it owns since 03:12:00, which counts from 03:12:20 on`."""
        asks = f"its votes ask for {self.votes} of the {self.own} that it owns since {clock(self.since)}"
        return f"{asks}, which counts from {clock(self.counts_at)} on"


def unclaimed(model: ModelShare) -> Unclaimed | None:
    """What `model` lacks of its own until its votes count; None where they count, or somebody ruled its number."""
    has, own, owed = model.ready_staying + model.loading_staying, model.entry.entitlement, model.remembered.owed
    if owed is None or model.ruling is not NO_RULING:
        return None
    pending = [ask for ask in owed.asks if ask.replicas > max(has, model.demand.owed)]
    if not pending:
        return None
    votes, since = max(ask.replicas for ask in pending), min(ask.since for ask in pending)
    return Unclaimed(votes - has, votes, own, since, since + OWED_AFTER_SECONDS)


def own_step(model: ModelShare) -> tuple[Step, ...]:
    """The step of an owner that lacks replicas of its own until its votes count."""
    wait = unclaimed(model)
    if wait is None:
        return ()
    text = f"lacks {replicas(wait.lacks)}: {wait.clause}; a burst is mostly over before"
    return (Step(STAGE, text, {"lacks": wait.lacks, "votes": wait.votes, COUNTS_AT: wait.counts_at}),)
