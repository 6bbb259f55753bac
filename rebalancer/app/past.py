"""What a start reads before it decides: the checkpoint in `state`, and the writes in `decisions` since then.

A write whose intent is there without an outcome may have happened: it counts in every guard's window as if it had.
"""

from dataclasses import dataclass

import msgspec

from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import UNKNOWN, Intent, Outcome
from rebalancer.domain.policy import Policy
from rebalancer.ingest.past import Past, read_past
from rebalancer.obs import journal
from rebalancer.obs.broker import Broker
from rebalancer.state import checkpoint
from rebalancer.state.foreign import ForeignPast

SLACK_SECONDS = 60.0  # brokers stamp records with their own clocks


@dataclass(frozen=True, slots=True)
class Start:
    """Where the service begins. `outcomes`: writes that the checkpoint's memory does not know yet."""

    memory: Memory
    first_cycle: int
    offsets: dict[tuple[str, int], int]
    rings: dict[str, bytes]
    foreign: tuple[ForeignPast, ...]
    outcomes: tuple[Outcome, ...]
    problems: tuple[str, ...]


async def read_start(broker: Broker, policy: Policy, now: float) -> Start:
    """Checkpoint and later writes. Raises ingest.past.PastUnreadable while Kafka cannot be read."""
    connection = broker.security()
    entries = await read_past(broker.bootstrap, broker.topic("state"), connection)
    ids = [model.id for model in policy.models]
    restored = checkpoint.read(((entry.key, entry.value) for entry in entries), ids, now)
    since = (restored.at if restored.at is not None else now - _longest_window(policy)) - SLACK_SECONDS
    records = await read_past(broker.bootstrap, broker.topic("decisions"), connection, since)
    outcomes, last_cycle = _writes_since(records, restored.cycle)
    return Start(
        memory=restored.memory,
        first_cycle=max(restored.cycle, last_cycle) + 1,
        offsets=restored.offsets,
        rings=restored.rings,
        foreign=restored.foreign,
        outcomes=outcomes,
        problems=restored.problems,
    )


def _longest_window(policy: Policy) -> float:
    guards = policy.guards
    return max(guards.step.window_seconds, guards.fleet.window_seconds, guards.shift.window_seconds)


def _writes_since(records: list[Past], cycle: int) -> tuple[tuple[Outcome, ...], int]:
    """Outcomes of cycle `cycle` and later (a checkpoint's memory knows those before), and the last cycle seen."""
    intents: dict[str, Intent] = {}
    outcomes: dict[str, Outcome] = {}
    last = cycle
    for record in records:
        line = _line(record)
        if isinstance(line, journal.IntentLine):
            intents[line.intent.id] = line.intent
        elif isinstance(line, journal.OutcomeLine):
            outcomes[line.outcome.intent.id] = line.outcome
        elif isinstance(line, journal.CycleLine):
            last = max(last, line.delta.cycle)
    for name, intent in intents.items():
        outcomes.setdefault(name, Outcome(intent, intent.at, UNKNOWN, "the process ended before its outcome"))
    later = [outcome for outcome in outcomes.values() if outcome.intent.cycle >= cycle]
    last = max([last, *(outcome.intent.cycle for outcome in later)])
    return tuple(sorted(later, key=lambda outcome: (outcome.at, outcome.intent.id))), last


def _line(record: Past) -> journal.Line | None:
    """The journal line in a record of `decisions`; what is none, or too old to be read, says nothing here."""
    if record.key not in {b"intent", b"outcome", b"cycle"}:
        return None
    try:
        return journal.decode(record.value)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
