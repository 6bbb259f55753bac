"""Guard `plausible`: a jump of offered work far beyond what is usual waits for a second opinion.

It declines raises, so it judges demand and no release: one garbled or forged sample must not buy everybody's GPUs.
While it doubts, the model keeps its aim. Another signal that asks for more confirms the jump at once, some samples in a
row do otherwise; then it is the measure of further jumps for an hour, until the median knows it.

One sample stays in the means for 20 minutes. Once samples are plausible again and only means are not, votes decide.
"""

import math

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.memory import Jump
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import Refusal
from rebalancer.domain.policy import PlausibleRule
from rebalancer.domain.readings import Work
from rebalancer.domain.words import counted, figure
from rebalancer.planning.demand.votes import Ballot, Vote, replicas_for
from rebalancer.planning.facts.scene import ModelFacts

ONE_REPLICA = 1.0  # replica-seconds per second
CONFIRMED_SECONDS = 3600.0  # half of it later the median of the last hour knows a jump that lasted


class Opinion(Struct, frozen=True):
    """`refusal`: what is declined (None: nothing is doubted). `jump`: to remember. `keeps`: votes are in doubt too."""

    refusal: Refusal | None = None
    jump: Jump | None = None
    keeps: bool = False


NONE = Jump()


def opinion(model: ModelFacts, ballot: Ballot, rule: PlausibleRule, now: float) -> Opinion:
    """Whether the work offered to `model` is plausible, by its votes and its means.

    A model whose usual work is unknown is believed.
    """
    outlook = model.load.outlook
    before = _confirmed(model.memory.jump, now)
    if outlook is None or outlook.usual is None or ballot.blind:
        return Opinion(jump=_if_confirmed(before))
    limit = rule.times * max(outlook.usual, ONE_REPLICA, before.confirmed)
    loudest = _loudest(ballot, model.serving_replicas)
    voted = float(loudest.replicas) if loudest is not None else 0.0
    work = max(voted, *_means(model.load.work, outlook))
    if work <= limit:
        return Opinion(jump=_if_confirmed(before))
    if loudest is None or voted <= limit:
        return Opinion(_refusal(model, rule, (work, limit), 0, None), _if_confirmed(before))
    at = now - loudest.age(now)
    jump = _observed(before, model.memory.jump, at, voted)
    samples = _samples(jump, at, model)
    if samples >= rule.samples or _seconded(ballot, loudest, model.serving_replicas):
        return Opinion(jump=Jump(confirmed=jump.least, confirmed_at=now))
    until = (jump.since or at) + (rule.samples - 1) * model.load.interval_seconds
    return Opinion(_refusal(model, rule, (work, limit), samples, until), jump, keeps=True)


def believed(outlook: Outlook, ballot: Ballot, work: Work, rule: PlausibleRule) -> bool:
    """Whether there is nothing to doubt, whatever the instant, in a model that remembers no jump."""
    if outlook.usual is None or ballot.blind:
        return True
    limit = rule.times * max(outlook.usual, ONE_REPLICA)
    return all(vote.replicas <= limit for vote in ballot.votes) and max(_means(work, outlook)) <= limit


def _confirmed(jump: Jump | None, now: float) -> Jump:
    """The jump as far as it proved true within the last hour, without a doubted one."""
    if jump is None or jump.confirmed_at is None or now - jump.confirmed_at >= CONFIRMED_SECONDS:
        return NONE
    return Jump(confirmed=jump.confirmed, confirmed_at=jump.confirmed_at)


def _if_confirmed(confirmed: Jump) -> Jump | None:
    return confirmed if confirmed.confirmed_at is not None else None


def _observed(confirmed: Jump, jump: Jump | None, at: float, voted: float) -> Jump:
    """The jump with one more sample that shows it."""
    if jump is None or jump.since is None:
        return replace(confirmed, since=at, least=voted)
    return replace(confirmed, since=jump.since, least=min(jump.least, voted))


def _samples(jump: Jump, at: float, model: ModelFacts) -> int:
    """Number of samples in a row that show the jump, from the first to the newest."""
    interval, since = model.load.interval_seconds, at if jump.since is None else jump.since
    return 1 + (math.floor((at - since) / interval + 1e-6) if interval > 0 else 0)


def _loudest(ballot: Ballot, ready: int) -> Vote | None:
    """The vote for most, of those that ask for more than are Ready."""
    more = [vote for vote in ballot.votes if vote.replicas > ready]
    return max(more, key=lambda vote: vote.replicas, default=None)


def _seconded(ballot: Ballot, loudest: Vote, ready: int) -> bool:
    """Whether another signal asks for more than are Ready."""
    return any(vote.replicas > ready for vote in ballot.votes if vote.signal != loudest.signal)


def _means(work: Work, outlook: Outlook) -> list[float]:
    """Every mean of offered work that somebody would act on."""
    known = [mean for mean in (work.short, work.last_60s, work.slow) if mean is not None]
    return [*known, outlook.level, outlook.shifted if outlook.shift > 0.0 else 0.0]


def _refusal(
    model: ModelFacts, rule: PlausibleRule, measured: tuple[float, float], samples: int, until: float | None
) -> Refusal:
    work, limit = measured
    outlook = model.load.outlook
    usual = outlook.usual if outlook is not None else None
    beside = f"{rule.times:g} times the greater of its usual {figure(usual or 0.0)} and one replica's work"
    waits = f"it waits for {counted(rule.samples - samples, 'more sample')} or for a second signal"
    if not samples:
        waits = "its samples are ordinary again, only their means remember the jump"
    return Refusal(
        guard="plausible",
        subject=model.entry.id,
        replicas_from=model.staying_replicas,
        replicas_to=max(model.staying_replicas, min(replicas_for(work), model.entry.max_replicas)),
        why=f"its work jumped to {figure(work)} replicas, more than {beside}; {waits}",
        numbers={"work": work, "limit": limit, "usual": usual, "samples": samples, "wanted": rule.samples},
        until=until,
    )
