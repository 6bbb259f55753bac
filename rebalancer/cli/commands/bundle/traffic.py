"""The recorded work as traffic that `rebalancer simulate` plays: requests whose work adds up to what was recorded."""

from pathlib import Path
from typing import Final

import numpy as np

from rebalancer.obs.journal_reading import JournalRead, turns
from rebalancer.obs.ledger_reading import looked
from rebalancer.report.days import Days, ModelDay, RecordedDay
from rebalancer.sim.contest.replica import FULL_SHARE, ReplicaSpeeds

HEAD: Final = "t_seconds,model,requests,input_tokens,output_tokens"
SECONDS_OF_ONE: Final = 4.0  # that a request decodes where nobody counted requests


def traffic(journal: Path) -> str:
    """CSV by the second, from the first second of the journal's file on; models without work have no rows."""
    rows: list[tuple[int, str]] = []
    first: list[int] = []

    def closed(day: RecordedDay) -> None:
        first.append(day.since)
        for model in day.models.values():
            rows.extend((at + day.since - first[0], row) for at, row in _rows(model, day.seconds))

    days = Days(closed)
    for turn in turns([journal], JournalRead()):
        days.see(looked(turn))
    days.end()
    return "\n".join([HEAD, *(f"{at},{row}" for at, row in sorted(rows))]) + "\n"


def _rows(day: ModelDay, seconds: int) -> list[tuple[int, str]]:
    """Replicas of work become tokens of the simulator's own replica, so that as many are busy there."""
    service = ReplicaSpeeds()
    rates = service.rates(day.entry)
    tokens = day.work[:seconds] * rates.batch * FULL_SHARE / service.seconds_per_token
    guessed = tokens * service.seconds_per_token / SECONDS_OF_ONE
    counted = np.where(day.requests[:seconds] > 0, day.requests[:seconds], guessed)
    whole = np.diff(np.floor(np.cumsum(counted)), prepend=0.0)  # requests are whole; what is left over comes later
    saved = 0.0
    rows = []
    for at in range(seconds):
        saved += float(tokens[at])
        if whole[at] > 0:
            rows.append((at, f"{day.entry.id},{whole[at]:.0f},0,{saved:.0f}"))
            saved = 0.0
    return rows
