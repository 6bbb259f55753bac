"""What is known of our own writes: intents, outcomes and cycles in `decisions` and in the local journal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec

from rebalancer.act.succession import LEFT
from rebalancer.app.remade import is_whole
from rebalancer.domain.outcome import UNKNOWN, Intent, Outcome
from rebalancer.kafka.topic_past import TopicPast
from rebalancer.obs import journal
from rebalancer.obs.journal_tail import read_tail


@dataclass(slots=True)
class OwnWrites:
    """What is known of our own writes, wherever it is written down.

    intents: intents, by identity.
    outcomes: outcomes, by the identity of their intent.
    instants: UTC epoch seconds at which lines were written, in no order.
    last_cycle: number of the last cycle that a line is from, 0 where there is none.
    cycles: lines of the decisions themselves, by cycle.
    frames: lines of the keyframes, by cycle, then by number of the part.
    intended: identities of the writes whose intent the topic has.
    published: identities of the writes whose outcome the topic has.
    journaled: identities of the writes whose outcome the local journal has.
    """

    intents: dict[tuple[str, float], Intent] = field(default_factory=dict)
    outcomes: dict[tuple[str, float], Outcome] = field(default_factory=dict)
    instants: list[float] = field(default_factory=list)
    last_cycle: int = 0
    cycles: dict[int, journal.CycleLine] = field(default_factory=dict)
    frames: dict[int, dict[int, journal.FrameLine]] = field(default_factory=dict)
    intended: set[tuple[str, float]] = field(default_factory=set)
    published: set[tuple[str, float]] = field(default_factory=set)
    journaled: set[tuple[str, float]] = field(default_factory=set)

    def take(self, line: journal.Line | None) -> None:
        """One line, from anywhere and any number of times."""
        if isinstance(line, journal.IntentLine):
            self.intents[line.intent.identity] = line.intent
        elif isinstance(line, journal.OutcomeLine):
            self.outcomes[line.outcome.intent.identity] = line.outcome
        elif isinstance(line, journal.CycleLine):
            self.cycles[line.delta.cycle] = line
            self.last_cycle = max(self.last_cycle, line.delta.cycle)
        elif isinstance(line, journal.FrameLine):
            self.frames.setdefault(line.cycle, {})[line.part] = line

    def stands_in_topic(self, line: journal.Line) -> None:
        """The topic has that line."""
        if isinstance(line, journal.IntentLine):
            self.intended.add(line.intent.identity)
        elif isinstance(line, journal.OutcomeLine):
            self.published.add(line.outcome.intent.identity)

    def since(self, cycle: int) -> tuple[Outcome, ...]:
        """Outcomes of cycle `cycle` and later, in the order of their records; a checkpoint has those before."""
        outcomes = dict(self.outcomes)
        for identity, intent in self.intents.items():
            outcomes.setdefault(identity, Outcome(intent, intent.at, UNKNOWN, LEFT))
        later = [outcome for outcome in outcomes.values() if outcome.intent.cycle >= cycle]
        return tuple(sorted(later, key=lambda outcome: outcome.at))

    def forgotten(self, cycle: int, since: float) -> tuple[Outcome, ...]:
        """Outcomes of writes before cycle `cycle`, which memory knows: the topic has their intent, and no outcome.

        That is so where who came next died as well, with its keyframe told and these outcomes not yet. Left out is a
        write whose intent is in the journal alone, and one from before `since` (UTC epoch seconds): its outcome may be
        older than what was read of the topic, or of the journal.
        """
        lacking = self.intended - self.published
        known = [one for one in self.since(0) if one.intent.at >= since and one.intent.cycle < cycle]
        return tuple(one for one in known if one.intent.identity in lacking)

    def reach_back(self, since: float, pause_seconds: float) -> bool:
        """Whether lines are known from `since` on, without a pause in which some may be missing."""
        instants = sorted(self.instants)
        known = [at for at in instants if at <= since][-1:] + [at for at in instants if at > since]
        return bool(known) and known[0] <= since and all(b - a <= pause_seconds for a, b in pairwise(known))


def writes_of(records: Iterable[TopicPast], files: Sequence[Path], since: float) -> OwnWrites:
    """What `decisions` and the local journal say; an outcome in one of them settles an intent in the other.

    Of decisions only those since the newest whole keyframe are decoded: each leader begins with one, at 1,000 models
    of megabytes, and where one after the other dies the topic's last minutes are full of them while nobody leads.
    """
    writes, tail = OwnWrites(), read_tail(files, since)
    decided: dict[int, list[TopicPast]] = {}
    for ours in (*tail.writes, *tail.decided()):
        writes.take(ours)
        if isinstance(ours, journal.OutcomeLine):
            writes.journaled.add(ours.outcome.intent.identity)
    for record in records:
        mark = journal.MARK.match(record.value[: journal.MARK_BYTES])
        if mark is not None:
            decided.setdefault(int(mark[3]), []).append(record)
            writes.instants.append(record.at)
        elif (line := _line(record)) is not None:
            writes.take(line)
            writes.instants.append(record.at)
            writes.stands_in_topic(line)
    writes.instants += tail.instants
    writes.last_cycle = max([writes.last_cycle, tail.last_cycle, *decided])
    for cycle in sorted(decided, reverse=True):
        for record in decided[cycle]:
            writes.take(_line(record))
        if is_whole(writes.frames.get(cycle, {})):
            break
    return writes


def _line(record: TopicPast) -> journal.Line | None:
    """The journal line in a record of `decisions`; what is none, or too old to be read, says nothing here."""
    if record.key not in {b"intent", b"outcome", b"cycle", b"frame"}:
        return None
    try:
        return journal.decode(record.value)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
