"""What the console's pages are made of, and the port by which the service gives it."""

from dataclasses import dataclass
from typing import Protocol

from rebalancer.api.ports.day import Day
from rebalancer.api.ports.past_refusals import PastRefusal
from rebalancer.api.ports.status import Status
from rebalancer.api.ports.timeline import DecisionRow, Point, TimelineEvent
from rebalancer.domain.account import NoticeAccount
from rebalancer.domain.memory import Loan
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.survey.finding import Finding


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """How the policy in force came into force.

    at: when it came into force in this run of the service (UTC epoch seconds), None where nothing is known of it.
    before: digest of the policy before it, "" where the service started with this one.
    differences: what was other in the policy before it, an entry each; where the service started with this one, only
        models that the last run knew by other names and that are not heard by these.
    file: path of the file from which the policy is read.
    """

    at: float | None = None
    before: str = ""
    differences: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True)
class TrapLook:
    """The last look for traps in the cluster's objects.

    at: when it ended (UTC epoch seconds), None where none has ended yet.
    findings: what it found.
    unread: kinds of objects that it left out.
    """

    at: float | None = None
    findings: tuple[Finding, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PageData:
    """All of one instant, frozen: pages are made of it in threads.

    epoch: name of this run of the service; a restart gives another one.
    status: the service's account of itself, as of now.
    snapshot: what the last plan was made from; before the first plan what is seen now.
    policy: the policy in force.
    loans: loans as the last plan left them.
    timeline: what happened in the last 30 minutes, oldest first; the newest 2,000.
    accounts: accounts of notices as the last plan left them: those that stand, and those of the last hour.
    policy_change: how `policy` came into force.
    refusals: refusals of the last ten minutes, over or not.
    """

    epoch: str
    status: Status
    snapshot: Snapshot
    policy: Policy
    loans: tuple[Loan, ...] = ()
    timeline: tuple[TimelineEvent, ...] = ()
    accounts: tuple[NoticeAccount, ...] = ()
    policy_change: PolicyChange = PolicyChange()
    refusals: tuple[PastRefusal, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """One cycle as the journal has it.

    plan: what it decided.
    snapshot: what it saw.
    policy_digest: digest of the policy by which it decided.
    code_digest: digest of the source by which it decided, "" where the journal does not say.
    outcomes: what became of its writes.
    before: the cycle before it, None where that has to be read by itself.
    refusals: refusals of the minutes before it and its own, as far back as its keyframe, which is written every five
        minutes.
    """

    plan: Plan
    snapshot: Snapshot
    policy_digest: str
    code_digest: str
    outcomes: tuple[Outcome, ...] = ()
    before: "RecordedCycle | None" = None
    refusals: tuple[PastRefusal, ...] = ()


class NotRecorded(LookupError):
    """The journal does not have it. `oldest`: the first instant that it knows, None when it knows nothing."""

    def __init__(self, what: str, oldest: float | None = None) -> None:
        super().__init__(what)
        self.oldest = oldest


class RecordsBusy(Exception):
    """The journal could not be read in time: others read it too, or there is too much between two keyframes."""


class PageDataSource(Protocol):
    """The service as its pages see it."""

    @property
    def version(self) -> int:
        """Counts what was heard of the service; a `read` after it has grown shows what is new."""
        ...

    def read(self) -> PageData:
        """Everything at this instant."""
        ...

    def chart(self, model: str) -> tuple[Point, ...]:
        """The last 60 minutes of `model`, oldest first, at most 60 points."""
        ...

    def day(self) -> Day:
        """The last day of all models and pools; cheap, for pages read the rings in threads."""
        ...

    def traps(self) -> TrapLook:
        """The last look for traps; one that is old begins another, for the next who asks."""
        ...

    def decisions(self) -> tuple[DecisionRow, ...]:
        """Cycles in memory that did or refused something new, oldest first."""
        ...

    async def recorded(self, *, cycle: int | None = None, at: float | None = None) -> RecordedCycle:
        """Cycle `cycle`, or the last one decided at `at` or before. Raises NotRecorded, RecordsBusy."""
        ...

    async def newer_than(self, after: int) -> int:
        """Wait until `version` is beyond `after`; returns it."""
        ...
