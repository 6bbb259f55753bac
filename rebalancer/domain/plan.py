"""What a cycle decided: changes to make, moves refused and need unmet, each with its numbers.

A change says what and why; `act` turns it into writes. Text for people is made from these values by whoever shows
them (`__str__` is one line that can be read aloud); nothing here is parsed back.
"""

from msgspec import Struct

from rebalancer.domain.instant import Instant, clock
from rebalancer.domain.memory import Memory
from rebalancer.domain.snapshot import TargetView
from rebalancer.domain.words import node_pool_words, replicas


class Step(Struct, frozen=True):
    """One stage of the explanation of one model: which stage, what came out, with which numbers."""

    stage: str
    said: str
    numbers: dict[str, float | int | str | None] = {}


class Change(Struct, frozen=True):
    """Ask target `target` of `model` for `replicas_to` instead of `replicas_from` replicas.

    kind: `release` (fewer), `grant` (more), `replace` (more, beside doomed pods), `settle` (the number comes back as
    doomed pods leave; not a decrease), `withdraw` (a node grant that brought nothing), `bounds` (same number, new
    bounds). `minimum` is the lower bound to write where an autoscaler owns the target. `victims`: pod UIDs that
    should go, first to last. `shift`: id of the transaction this belongs to; `passes`: guards it need not ask
    (with why); `counts`: the guard whose window it uses up (`step`, `shift`, `exempt`), `counted`: by how many of its
    replicas. `replaces`: doomed pod UIDs beside which a `replace` asks for as many more; `grant`, `node_pool`: the node
    grant this raise belongs to. `floor`: the model's in this plan, the policy's as schedules and overrides leave it.
    """

    id: str
    kind: str
    model: str
    target: TargetView
    replicas_from: int
    replicas_to: int
    minimum: int
    reason: str
    shift: str | None = None
    victims: tuple[str, ...] = ()
    victim_names: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    passes: str | None = None
    counts: str | None = None
    counted: int = 0
    lenders: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    grant: str | None = None
    node_pool: str | None = None
    floor: int = 0

    def __str__(self) -> str:
        return f"{self.model} {self.said}"

    @property
    def said(self) -> str:
        """What the model does and why, then its numbers: `gets 1 replica on n2: it has ... (3 -> 4)`."""
        moves = f" ({self.replicas_from} -> {self.replicas_to})" if self.replicas_from != self.replicas_to else ""
        return f"{self.reason}{moves}"


class NodePoolChange(Struct, frozen=True):
    """A change to NodePool `name` (behind `pool`): kind `limit`, `restore-limit`, `hold`, `end-hold`.

    `resource` and limits are set for the first two; None = unlimited / key absent.
    """

    id: str
    kind: str
    name: str
    uid: str
    pool: str
    resource: str
    reason: str
    limit_from: int | None = None
    limit_to: int | None = None
    grant: str | None = None

    def __str__(self) -> str:
        return f"nodepool/{self.name} {self.said}"

    @property
    def said(self) -> str:
        """What changes there and why: `GPU limit 2 -> 4: image is short of 2 replicas, ...`."""
        return f"{node_pool_words(self.kind, self.limit_from, self.limit_to)}: {self.reason}"


class Refusal(Struct, frozen=True):
    """A move that guard `guard` declined: `subject` (a model or NodePool) from -> to, with the guard's numbers.

    `until`: when the guard would let it pass if nothing else changes (None: unknown).
    """

    guard: str
    subject: str
    replicas_from: int
    replicas_to: int
    why: str
    numbers: dict[str, float | int | str | None] = {}
    until: Instant | None = None

    def __str__(self) -> str:
        return f"{self.subject} {self.said}"

    @property
    def said(self) -> str:
        """What does not happen, who declined it and why: `keeps 1 replica that would go (3 -> 2): guard step, ...`."""
        fewer = self.replicas_from - self.replicas_to
        move = f"({self.replicas_from} -> {self.replicas_to}): guard {self.guard}"
        if fewer > 0:
            move = f"keeps {replicas(fewer)} that would go {move}"
        elif fewer < 0:
            move = f"does not get {replicas(-fewer)} more {move}"
        else:
            move = f"is left as it is: guard {self.guard}"
        return f"{move}, {self.why}" + (f"; not before {clock(self.until)}" if self.until is not None else "")


class Unmet(Struct, frozen=True):
    """Replicas a model needs and does not have.

    `constraint`: what binds: budget, fit, paused, a guard's name, or waiting (granted or releasing, not there yet).
    """

    model: str
    replicas: int
    constraint: str
    why: str
    since: Instant


class ModelDecision(Struct, frozen=True):
    """Everything decided about one model. `demand` None = unknown (no usable vote)."""

    model: str
    demand: int | None
    allocation: int
    granted: int
    ready: int
    loading: int
    doomed: int
    floor: int
    surge: bool
    lent: int
    borrowed: int
    why: str
    steps: tuple[Step, ...] = ()


class PoolDecision(Struct, frozen=True):
    """A pool's arithmetic: budget and where its GPUs are. `budget` None = unknown."""

    pool: str
    budget: int | None
    promised: int
    owned: int
    lent: int
    loading: int
    doomed: int
    foreign: int
    free: int


class OverrideState(Struct, frozen=True):
    """What an override is doing: phase InForce, Superseded, Refused (as far as it does not fit) or Expired."""

    namespace: str
    name: str
    uid: str
    phase: str
    message: str


class Plan(Struct, frozen=True):
    """One cycle's answer. `changes` are in the order in which they are to be written."""

    cycle: int
    at: Instant
    changes: tuple[Change, ...] = ()
    node_pools: tuple[NodePoolChange, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    unmet: tuple[Unmet, ...] = ()
    models: tuple[ModelDecision, ...] = ()
    pools: tuple[PoolDecision, ...] = ()
    overrides: tuple[OverrideState, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.changes and not self.node_pools


class Decision(Struct, frozen=True):
    """What planning returns: the plan, and what the next cycle must not forget."""

    plan: Plan
    memory: Memory
