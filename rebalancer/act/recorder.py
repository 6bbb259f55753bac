"""The interface to which intents and outcomes are written: behind it stand the `decisions` topic and the journal."""

from typing import Protocol

from rebalancer.domain.outcome import Intent, Outcome


class WriteRecorder(Protocol):
    """Keeps what is about to be written and what became of it. Both calls end within a deadline of their own."""

    async def intent(self, intent: Intent, *, wait_seconds: float) -> bool:
        """Record what is about to be written; whether the `decisions` topic acknowledged it within so long.

        0: it is not waited for. Where it is not acknowledged the local journal has it, unless that is in trouble.
        """
        ...

    async def outcome(self, outcome: Outcome) -> None:
        """Record what became of an intent."""
        ...
