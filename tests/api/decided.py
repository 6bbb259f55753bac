"""A service that has decided once, as routes see it."""

from dataclasses import dataclass, field

from rebalancer.api.ports.status import Status, Unready
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.sync import Sync
from rebalancer.planning import plan
from tests.builders import NOW, a_policy, a_snapshot

READINGS = {"a": {"concurrency": 8.0}, "b": {"concurrency": 40.0}}


@dataclass
class SomeStatusPort:
    """A service that has decided once, and says of itself what a test wants."""

    decided: Plan | None
    seen: Snapshot
    troubles: tuple[Unready, ...] = ()
    death: str | None = None
    refused: tuple[str, ...] = ()
    idle: str | None = None
    asked: list[str] = field(default_factory=list)

    def status(self) -> Status:
        return Status(
            cluster="prod-eu",
            instance="rb-0",
            leader="rb-0",
            write_mode="shadow",
            writes_stopped=None,
            at=NOW,
            cycle=self.seen.cycle,
            policy_digest="0123",
            policy_problems=(),
            sync=Sync(),
            plan=self.decided,
            notices=(),
            overrides=(),
        )

    def snapshot(self) -> Snapshot:
        return self.seen

    def leader(self) -> str:
        return "rb-0"

    def why_not_acting(self) -> str | None:
        return self.idle

    def policy_refused(self) -> tuple[str, ...]:
        return self.refused

    def unready(self) -> tuple[Unready, ...]:
        return self.troubles

    def dead(self) -> str | None:
        return self.death

    def metrics(self) -> bytes:
        return b"rebalancer_synced 1.0\n"


def some_status_port() -> SomeStatusPort:
    """Models a and b on one pool."""
    policy = a_policy()
    seen = a_snapshot(policy, {"a": 2, "b": 4}, READINGS)
    return SomeStatusPort(plan(seen, policy, Memory()).plan, seen)
