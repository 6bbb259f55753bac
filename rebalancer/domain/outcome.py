"""The two records of every write: an intent before it, an outcome after it; `decisions` and the journal get both."""

from msgspec import Struct

from rebalancer.domain.instant import Instant

WRITTEN = "written"
SHADOW = "shadow"
REFUSED = "refused"
FAILED = "failed"
UNKNOWN = "unknown"


class Intent(Struct, frozen=True, tag="intent"):
    """A write that is about to go out; of a decrease Kafka acknowledges the intent before that, while it answers.

    id: id of the change in its plan.
    cycle: number of the cycle that planned it.
    at: when the gate came to it.
    kind: kind of the change, of `plan.Change` or of `plan.NodePoolChange`.
    subject: model id, or name of the NodePool.
    object: the object written to: `deployment/NAMESPACE/NAME` or `nodepool/NAME`.
    replicas_from: replicas that the target asks for before; 0 of a NodePool.
    replicas_to: replicas that it is to ask for; 0 of a NodePool.
    reason: sentence that says why.
    pool: name of the pool; "" in older journals alone.
    shift: id of the shift it belongs to, None where it belongs to none.
    counts: the guard whose window it uses up: `step`, `shift` or `exempt`; None: no guard's.
    counted: replicas by which that window is used up.
    lenders: models whose loans it would end; planning leaves it empty.
    recipients: models for which it releases.
    replaces: doomed pods, as `memory.Replaced` spells them: a `replace` asks for as many more beside them, any other
        kind takes their number back.
    grant: id of the node grant that it opens or withdraws, None where it does neither.
    node_pool: name of the NodePool of that grant or of this change, None without either.
    limit_from: limit of the NodePool before, in GPUs; None: unlimited, or no limit changes.
    limit_to: limit that it is to have, in GPUs; None as above.
    minimum_from: the autoscaler's minimum before, in replicas; None where no autoscaler owns the target.
    minimum_to: the minimum it is to have, in replicas; None as above.
    victims: UIDs of the pods that are to go by it, first to last.
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
    victims: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, float]:
        """The intent's id and instant: two leaders give the same id where Kafka got a cycle of the first too late."""
        return self.id, self.at


class Outcome(Struct, frozen=True, tag="outcome"):
    """The end of an intent; after a restart an intent without an outcome counts as unknown.

    intent: the write that has ended.
    at: when it ended.
    status: written, shadow (it would have been), refused (by the gate), failed, or unknown (the reply was lost: it may
        have been applied).
    detail: sentence that says why: which check refused it, or how it failed; "" where it was written.
    """

    intent: Intent
    at: Instant
    status: str
    detail: str = ""

    @property
    def happened(self) -> bool:
        """Whether the cluster may have changed: what guards' windows must count."""
        return self.status in {WRITTEN, UNKNOWN}
