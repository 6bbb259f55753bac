"""What a place has recorded, as looks in time: those of the ledger, and of the journal what is before and after it.

The ledger comes first because it reaches further back and is read thirty times as fast; both say the same.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from msgspec import Struct

from rebalancer.obs.journal_lines import NoJournal, journal_files, last_instant, within
from rebalancer.obs.journal_reading import JournalRead, turns
from rebalancer.obs.ledger_reading import RecordedLook, instants, ledger_files, ledger_looks, looked

JOURNAL, LEDGER = "journal", "ledger"


class RecordedFrom(Struct, frozen=True):
    """From when to when something is known, and from where.

    name: `ledger` or `journal`.
    since: its first cycle, in epoch seconds.
    until: its last one.
    """

    name: str
    since: float
    until: float


@dataclass(slots=True)
class Recording:
    """The looks of a place from an instant on.

    ledger: the ledger's files, oldest first.
    journal: the journal's files, oldest first.
    since: from when on.
    until: the last recorded cycle.
    tally: what is read.
    heard: is told the share that is done, 0-1.
    sources: where what was read came from, in time.
    """

    ledger: tuple[Path, ...]
    journal: tuple[Path, ...]
    since: float
    until: float
    tally: JournalRead
    heard: Callable[[float], None]
    sources: list[RecordedFrom]

    def looks(self) -> Iterator[RecordedLook]:
        """All of them. Nothing that was seen before the last one that was given is given."""
        begin = next((at for path in self.ledger for at in instants(path)), None)
        if begin is None:
            yield from self._noted(JOURNAL, self._of_journal(self.since))
            return
        if begin > self.since:
            yield from self._noted(JOURNAL, takewhile(lambda each: each.look.at < begin, self._of_journal(self.since)))
        yield from self._noted(LEDGER, (each for each in self._of_ledger() if each.look.at >= self.since))
        end = self.sources[-1].until if self.sources else self.since
        if self.until > end:
            after = (each for each in self._of_journal(end) if each.look.at > end)
            yield from self._noted(JOURNAL, after)

    def _of_ledger(self) -> Iterator[RecordedLook]:
        many = max(1, len(self.ledger))
        yield from ledger_looks(self.ledger, self.tally, lambda read: self.heard(read / many))

    def _of_journal(self, since: float) -> Iterator[RecordedLook]:
        files = within(self.journal, since) if self.journal else ()
        size = max(1, sum(path.stat().st_size for path in files))
        read: list[int] = [self.tally.size]
        every = turns(files, self.tally, lambda now: self.heard(min(1.0, (now - read[0]) / size)))
        return (looked(turn) for turn in every if turn.snapshot.at >= since)

    def _ending(self, looks: Iterator[RecordedLook]) -> Iterator[RecordedLook]:
        """The looks without those that a running service has written since; before, a clock may have been set back."""
        ended = False
        for each in looks:
            if ended and each.look.at > self.until:
                return
            ended = ended or each.look.at == self.until
            yield each

    def _noted(self, name: str, looks: Iterator[RecordedLook]) -> Iterator[RecordedLook]:
        since = until = None
        for each in self._ending(looks):
            since, until = since if since is not None else each.look.at, each.look.at
            yield each
        if since is not None and until is not None:
            self.sources.append(RecordedFrom(name, since, until))


def recording(place: Path, last_seconds: float, heard: Callable[[float], None]) -> Recording:
    """What the last `last_seconds` of the journal at `place`, and of the ledger beside it, have. Raises NoJournal."""
    ledger = ledger_files(place)
    kept_until = _last(ledger)
    try:
        journal = journal_files(place)
        until = max(last_instant(journal), kept_until or 0.0)
    except NoJournal:
        if kept_until is None:
            raise
        journal, until = (), kept_until
    since = until - last_seconds
    return Recording(_from(ledger, since), journal, since, until, JournalRead(), heard, [])


def _last(ledger: Sequence[Path]) -> float | None:
    for path in reversed(ledger):
        for at in deque(instants(path), maxlen=1):
            return at
    return None


def _from(ledger: Sequence[Path], since: float) -> tuple[Path, ...]:
    """The files that may tell of what was from `since` on: a file ends where the next one begins."""
    begins = [next(instants(path), since + 1.0) for path in ledger]
    first = max((place for place, begin in enumerate(begins) if begin <= since), default=0)
    return tuple(ledger[first:])
