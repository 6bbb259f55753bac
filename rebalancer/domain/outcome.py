"""What became of a change: intent before the write, outcome after it. Both go to `decisions` and the journal."""

from msgspec import Struct

from rebalancer.domain.instant import Instant

WRITTEN = "written"
SHADOW = "shadow"
REFUSED = "refused"
FAILED = "failed"
UNKNOWN = "unknown"


class Intent(Struct, frozen=True, tag="intent"):
    """What is about to be written. A decrease's intent is acknowledged by Kafka before the write goes out.

    `kind` and the rest as in `plan.Change` / `plan.NodePoolChange`; `subject` is the model id or NodePool name.
    """

    id: str
    cycle: int
    at: Instant
    kind: str
    subject: str
    object: str
    replicas_from: int
    replicas_to: int
    reason: str
    pool: str = ""
    shift: str | None = None
    counts: str | None = None
    counted: int = 0
    lenders: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    grant: str | None = None
    node_pool: str | None = None
    limit_from: int | None = None
    limit_to: int | None = None
    minimum_from: int | None = None
    minimum_to: int | None = None


class Outcome(Struct, frozen=True, tag="outcome"):
    """What became of `intent`.

    `status`: written, shadow (would have been), refused (by the gate, `detail` says which check), failed, unknown
    (the reply was lost: it may have been applied). An intent without outcome after a restart counts as unknown.
    """

    intent: Intent
    at: Instant
    status: str
    detail: str = ""

    @property
    def happened(self) -> bool:
        """Whether the cluster may have changed: what guards' windows must count."""
        return self.status in {WRITTEN, UNKNOWN}
