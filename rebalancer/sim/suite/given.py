"""What whoever decides is given: exact figures at once, or such as users have, wrong, late, seldom or with gaps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rebalancer.sim.controller import Controller, Seen

GAP_SECONDS, GAP_EVERY_SECONDS = 120, 1200
# Signals whose target is a share of what a replica carries: who is wrong about that is wrong about the target, by the
# same factor. Latency, GPU utilisation, KV use and queues tell of a full replica by themselves.
BY_FIGURE = frozenset({"work", "concurrency", "ongoing"})


def by_figure(signal: str) -> bool:
    """Whether a peer's signal needs to know what a replica carries; what knobs add to its name changes nothing."""
    return signal.partition("+")[0] in BY_FIGURE


@dataclass(frozen=True, slots=True)
class Given:
    """The figures and metrics with which whoever plays decides.

    In the rest of the suite the product sees a scrape of every 5 s after 1 s, and peers see everything at once.

    name: what tables and commands call it, such as `exact` or `lag60`.
    carries: what a replica is said to carry (`perReplica`) over what it does carry, None where nobody says.
    lag_seconds: seconds from a scrape until it can be read, None for those of the rest of the suite.
    scrape_seconds: seconds from one scrape to the next, None for those of the rest of the suite.
    gaps: whether nothing is scraped in the last 2 of 20 minutes.
    """

    name: str
    carries: float | None = 1.0
    lag_seconds: int | None = None
    scrape_seconds: int | None = None
    gaps: bool = False

    def tuning(self, exact: str | None) -> str | None:
        """What becomes of a peer's "signal@target" that is right where figures are: so does what it targets."""
        if exact is None or self.carries is None:
            return exact
        signal, _, target = exact.partition("@")
        return f"{signal}@{float(target) * self.carries:g}" if by_figure(signal) else exact

    def newest(self, now: int) -> int:
        """The second up to which a peer knows at `now` what happened; less than 0 before the first scrape came."""
        at = now - (self.lag_seconds or 0)
        at -= at % (self.scrape_seconds or 1)
        return at - at % GAP_EVERY_SECONDS + GAP_EVERY_SECONDS - GAP_SECONDS if self.silent(at) else at

    def silent(self, second: float) -> bool:
        """Whether a scrape at that second of the run is missing."""
        return self.gaps and second % GAP_EVERY_SECONDS > GAP_EVERY_SECONDS - GAP_SECONDS


EXACT = Given("exact")
GIVEN: Mapping[str, Given] = {
    each.name: each
    for each in (
        EXACT,
        Given("x0.5", 0.5),
        Given("x0.8", 0.8),
        Given("x1.25", 1.25),
        Given("x2", 2.0),
        Given("absent", None),
        Given("lag20", lag_seconds=20),
        Given("lag60", lag_seconds=60),
        Given("scrape30", scrape_seconds=30),
        Given("gaps", gaps=True),
    )
}


class Watching:
    """A controller that sees no more than its metrics tell. Between scrapes and in gaps it has the last values."""

    def __init__(self, inner: Controller, given: Given) -> None:
        self.every_seconds = inner.every_seconds
        self._inner = inner
        self._given = given

    def decide(self, seen: Seen) -> Sequence[int]:
        """What the one inside decides by what is known."""
        seen.delay_seconds = seen.now - self._given.newest(seen.now)
        return self._inner.decide(seen)
