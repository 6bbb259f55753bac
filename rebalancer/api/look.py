"""What the console's pages are made of, and where they come from."""

from dataclasses import dataclass
from typing import Protocol

from rebalancer.api.pages import DecisionRow, Happening, Point
from rebalancer.api.view import Status
from rebalancer.domain.memory import Loan
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Look:
    """All of one instant, frozen: pages are made of it in threads.

    `epoch` names this run of the service. `status` is of now, `snapshot` what its plan was made from (what is seen
    now before the first), `loans` as booked by that plan, `happenings` the last 30 minutes, oldest first.
    """

    epoch: str
    status: Status
    snapshot: Snapshot
    policy: Policy
    loans: tuple[Loan, ...] = ()
    happenings: tuple[Happening, ...] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """One cycle as the journal has it."""

    plan: Plan
    snapshot: Snapshot
    policy_digest: str
    code_digest: str
    outcomes: tuple[Outcome, ...] = ()


class NotRecorded(LookupError):
    """The journal does not have it. `oldest`: the first instant that it knows, None when it knows nothing."""

    def __init__(self, what: str, oldest: float | None = None) -> None:
        super().__init__(what)
        self.oldest = oldest


class RecordsBusy(Exception):
    """The journal could not be read in time: others read it too, or there is too much between two keyframes."""


class Looks(Protocol):
    """The service as its pages see it."""

    @property
    def move(self) -> int:
        """Counts what was heard: a `look` after a move shows it."""
        ...

    def look(self) -> Look:
        """Everything at this instant."""
        ...

    def chart(self, model: str) -> tuple[Point, ...]:
        """The last 60 minutes of `model`, oldest first, at most 120 points."""
        ...

    def decisions(self) -> tuple[DecisionRow, ...]:
        """Cycles in memory that did or refused something new, oldest first."""
        ...

    async def recorded(self, *, cycle: int | None = None, at: float | None = None) -> Recorded:
        """Cycle `cycle`, or the last one decided at `at` or before. Raises NotRecorded, RecordsBusy."""
        ...

    async def moved(self, after: int) -> int:
        """Wait until `move` is beyond `after`; returns it."""
        ...
