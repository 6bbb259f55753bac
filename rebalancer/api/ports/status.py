"""The service's own account of itself: its state, what it sees, what is wrong with it, its metrics."""

from typing import Protocol

from msgspec import Struct

from rebalancer.domain.instant import Instant
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.pinned import Pinned
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import NoticeView, Snapshot
from rebalancer.domain.sync import Sync


class Unready(Struct, frozen=True):
    """One thing that is not as it should be, since when (UTC epoch seconds), and what is known about it."""

    what: str
    since: Instant
    detail: str = ""


LEASE = "lease"
"""What is not good where this replica cannot say who leads."""
UNPLANNED = "plan of"
"""Before the names of pools: what is not good where nothing is decided for them."""


class Status(Struct, frozen=True):
    """One look at the service.

    cluster: name of the cluster for people, "" where the settings name none.
    instance: name of the replica of the service that answers.
    leader: name of the replica of the service that acts; "" where none does, or it is not known yet.
    write_mode: `shadow` (nothing is written) or `act`.
    writes_stopped: the write stop in force, None where writes are not stopped.
    at: the service's clock when it looked.
    cycle: number of the last cycle that began, 0 before the first.
    policy_digest: short hash of the values of the policy in force, "" before there is one.
    policy_problems: what is wrong with the policy file as it is, a sentence each; empty where it is good.
    sync: whether all sources are listed and fresh.
    plan: the last plan, None where nothing has been decided yet.
    notices: nodes under notice, by name.
    overrides: all overrides, by name, whatever their phase.
    unready: what /readyz complains about, and what leaves the service ready though somebody should know of it: a second
        source without readings, a topic that is read late.
    installation: name of this installation, as `NAMESPACE/ACCOUNT` of the service, under which it writes; "" from an
        older version.
    pinned: objects that carry values of ours, or of another installation, and nobody moves as it should: everything in
        shadow; what the policy does not name; what another installation holds.
    policy_refused: entries of the policy file that are not in force as the file has them, each with what is instead;
        empty although there are `policy_problems`: nothing of the file is in force.
    unknown_signs: taints and conditions on nodes that look like notices and that no table knows, as `taint KEY` or
        `condition TYPE`, with the number of nodes that carry each.
    off: parts that this service does not have, each with the reason as a sentence; none where there is a Kafka.
    elastic: names of the policy's pools that nobody owns.
    plan_every_seconds: the policy's planning period; 0 before there is a policy, and from an older version.
    namespace: namespace of the service's pods, "" where it runs in none, and from an older version.
    """

    cluster: str
    instance: str
    leader: str
    write_mode: str
    writes_stopped: WriteStop | None
    at: Instant
    cycle: int
    policy_digest: str
    policy_problems: tuple[str, ...]
    sync: Sync
    plan: Plan | None
    notices: tuple[NoticeView, ...]
    overrides: tuple[Override, ...]
    unready: tuple[Unready, ...] = ()
    installation: str = ""
    pinned: tuple[Pinned, ...] = ()
    policy_refused: tuple[str, ...] = ()
    unknown_signs: dict[str, int] = {}
    off: dict[str, str] = {}
    elastic: tuple[str, ...] = ()
    plan_every_seconds: float = 0.0
    namespace: str = ""

    @property
    def leader_known(self) -> bool:
        """Whether it is known who leads, or that nobody does; whoever cannot read the Lease knows neither."""
        return bool(self.leader) or all(each.what != LEASE for each in self.unready)

    @property
    def led(self) -> str:
        """The leader, in words."""
        if self.leader:
            return f"leader {self.leader}"
        return "no leader: nothing changes" if self.leader_known else "no leader known"


class ProbePort(Protocol):
    """A process as its probes see it."""

    def unready(self) -> tuple[Unready, ...]:
        """Why we are not ready; empty when we are."""
        ...

    def policy_refused(self) -> tuple[str, ...]:
        """Entries of the policy file that are not in force as it has them, each with what is instead."""
        ...

    def leader(self) -> str:
        """Name of the replica that acts; "": none does, or it is not known yet."""
        ...

    def dead(self) -> str | None:
        """Why only a restart helps; None while it does not."""
        ...

    def metrics(self) -> bytes:
        """Prometheus exposition format."""
        ...


class StatusPort(ProbePort, Protocol):
    """The service as its routes see it."""

    def status(self) -> Status:
        """All of it at one instant."""
        ...

    def snapshot(self) -> Snapshot:
        """The world as it is known now."""
        ...

    def why_not_acting(self) -> str | None:
        """Why this replica moves nobody: it stands by, or writes nothing at all. None where it does."""
        ...
