"""What people decide by objects of ours: overrides of one model, node or pool, and the write stop."""

from typing import Final

from msgspec import Struct

from rebalancer.domain.instant import Instant

DECIDING: Final = ("pause", "freeze", "pin", "cap")  # of a model's the first of these that is in force decides
CLOCKS_APART_SECONDS = 5.0  # who writes expiresAt and the API server, which keeps whole seconds, differ so much
LOCAL: Final = "local"  # whoever decides where nobody asks who it is: an API without login, and the demo


class Override(Struct, frozen=True):
    """A person's decision about a model, a node or a pool, with a reason and an end.

    name: name of the Override object.
    namespace: `metadata.namespace` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    kind: pause, freeze, pin, cap, floor, drain, exclude or standUp (write where the guard `foreign` stands down).
    subject: id of a model, or name of a node or pool.
    subject_kind: whose name `subject` is: model, node or pool.
    reason: why, in the person's words; never used to decide.
    actor: who decided.
    created_at: when it was created; of two of one kind the newer counts.
    expires_at: from this instant on it counts no more.
    value: replicas of a pin, a cap or a floor; None for the other kinds.
    model: id of the only model that an exclude keeps away, None where it holds for all of them.
    allow_below_floor: whether it may take the model below its floor.
    phase: phase that its status shows now, "" before we wrote any; `plan.OverrideState` lists them.
    message: sentence that its status shows now.
    """

    name: str
    namespace: str
    uid: str
    resource_version: str
    kind: str
    subject: str
    subject_kind: str
    reason: str
    actor: str
    created_at: Instant
    expires_at: Instant
    value: int | None = None
    model: str | None = None
    allow_below_floor: bool = False
    phase: str = ""
    message: str = ""

    @property
    def named_model(self) -> str | None:
        """Id of the model that it names; None where it is about a node or a pool alone, whatever that is called."""
        return self.subject if self.subject_kind == "model" else self.model

    @property
    def source(self) -> str:
        """The source of the notices that a drain gives its nodes: `override/NAMESPACE/NAME`."""
        return f"override/{self.namespace}/{self.name}"

    def too_long(self, most_seconds: float) -> bool:
        """Whether it was made for longer than a policy's overrides.maxSeconds allow: then it does nothing."""
        return self.expires_at - self.created_at > most_seconds + CLOCKS_APART_SECONDS


class WriteStop(Struct, frozen=True):
    """The red button: while one exists nothing is written to workloads, autoscalers, pods or NodePools.

    name: name of the WriteStop object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    reason: why, in the person's words.
    actor: who pressed it.
    created_at: when it was created; of several the oldest is shown.
    """

    name: str
    uid: str
    resource_version: str
    reason: str = ""
    actor: str = ""
    created_at: Instant = 0.0
