"""The interface to which intents and outcomes are written: behind it stand the `decisions` topic and the journal."""

from typing import Protocol

from rebalancer.domain.outcome import Intent, Outcome


class WriteRecorder(Protocol):
    """Keeps what is about to be written and what became of it. Both calls end within a deadline of their own."""

    async def intent(self, intent: Intent, *, must_be_acknowledged: bool) -> bool:
        """Record what is about to be written; whether the `decisions` topic acknowledged it.

        Without `must_be_acknowledged` it does not wait for Kafka: the local journal has it, and the answer is no
        reason to stop.
        """
        ...

    async def outcome(self, outcome: Outcome) -> None:
        """Record what became of an intent."""
        ...
