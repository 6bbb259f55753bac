"""Refusals of the last minutes, with the times between which they stood: one that is over explains what is so now."""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.instant import Instant
from rebalancer.domain.plan import Refusal, Unmet

LAST_SECONDS = 600.0  # how long one that is over is remembered
SAME_SECONDS = 30.0  # three planning periods: a refusal that is away for less has not ended


class PastRefusal(Struct, frozen=True):
    """A refusal from its first plan to its last.

    at: when it was refused first.
    until: when it was refused last.
    refusal: it, as it was last.
    waiting: models that were short because of it.
    """

    at: Instant
    until: Instant
    refusal: Refusal
    waiting: tuple[str, ...] = ()

    def concerns(self, model: str) -> bool:
        """Whether it is about this model, or this model was short because of it."""
        return model == self.refusal.subject or model in self.waiting


class RefusingPlan(Struct, frozen=True):
    """What is read of a plan. `at`: its instant; `refusals`: what guards declined; `unmet`: who was short, and why."""

    at: Instant
    refusals: tuple[Refusal, ...] = ()
    unmet: tuple[Unmet, ...] = ()


class PastRefusals:
    """Hears plans in their order, and knows what they refused in the last `LAST_SECONDS`."""

    def __init__(self) -> None:
        self._standing: dict[tuple[str, str], PastRefusal] = {}
        self._over: deque[PastRefusal] = deque(maxlen=1000)

    def hear(self, at: Instant, refusals: Iterable[Refusal], unmet: Iterable[Unmet]) -> None:
        """The refusals of one plan."""
        whys = [(row.model, row.why) for row in unmet]
        for refusal in refusals:
            key, sentence = (refusal.guard, refusal.subject), str(refusal)
            waiting = {model for model, why in whys if sentence in why}
            before = self._standing.get(key)
            if before is None or not 0.0 <= at - before.until <= SAME_SECONDS:
                if before is not None:
                    self._over.append(before)
                before = PastRefusal(at, at, refusal)
            waited = tuple(sorted(waiting.union(before.waiting)))
            self._standing[key] = replace(before, until=at, refusal=refusal, waiting=waited)
        self._standing = {key: one for key, one in self._standing.items() if at - one.until <= LAST_SECONDS}

    def put_before(self, older: "PastRefusals") -> None:
        """What another one heard before."""
        before = (*older._over, *older._standing.values())  # noqa: SLF001  # of one class
        self._over = deque((*before, *self._over), self._over.maxlen)

    def recent(self, now: Instant) -> tuple[PastRefusal, ...]:
        """Refusals that stood in the last minutes before `now`, the one that stood last at the end."""
        every = (*self._over, *self._standing.values())
        recent = (each for each in every if 0.0 <= now - each.until <= LAST_SECONDS)
        return tuple(sorted(recent, key=lambda each: (each.until, each.refusal.guard, each.refusal.subject)))
