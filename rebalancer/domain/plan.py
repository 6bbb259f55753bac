"""The result of a cycle: changes to write, moves that guards refused, and who stays short, each with its numbers.

A change says which number is to be written and why; `act` turns it into writes. Text for people is made from these
values by whoever shows them (`__str__` is one line that can be read aloud); nothing here is parsed back.
"""

from msgspec import UNSET, Struct, UnsetType

from rebalancer.domain.account import NoticeAccount
from rebalancer.domain.instant import Instant, clock
from rebalancer.domain.memory import Memory
from rebalancer.domain.quota_view import Holder
from rebalancer.domain.snapshot import TargetView
from rebalancer.domain.words import listed, node_pool_words, replicas

DRAIN_WORDS = {
    "cordon": "is cordoned",
    "uncordon": "is uncordoned",
    "evict": "is evicted",
    "delete": "is deleted, whatever its disruption budgets say",
}


class Step(Struct, frozen=True):
    """One stage of a model's explanation: its name, its result as a sentence, and the numbers behind it."""

    stage: str
    said: str
    numbers: dict[str, float | int | str | None] = {}


class Change(Struct, frozen=True):
    """One write: target `target` of `model` is to ask for `replicas_to` instead of `replicas_from` replicas.

    id: cycle, model and pool, joined by `-`.
    kind: `release` (fewer), `grant` (more), `replace` (more, beside doomed pods), `settle` (the number comes back once
        replaced pods have gone; no decrease), `withdraw` (a node grant brought nothing), `bounds` (same number, new
        bounds).
    model: id of the model.
    target: the target as planning saw it.
    replicas_from: replicas that the target asks for now.
    replicas_to: replicas that it is to ask for; the maximum where an autoscaler owns it.
    minimum: the lower bound to write where an autoscaler owns the target, in replicas.
    reason: sentence that says why.
    shift: id of the shift it belongs to, None where it belongs to none.
    victims: UIDs of the pods that should go, first to last.
    victim_names: names of these pods, in the same order.
    nodes: names of the nodes on whose GPUs a raise counts, sorted.
    passes: why guards or the gate let it pass where others wait: a reclaim, a drain, an override or a withdrawal by
        name; None: it passes as others do.
    counts: the guard whose window it uses up: `step`, `shift` or `exempt`; None: no guard's.
    counted: replicas by which that window is used up.
    lenders: models whose loans it would end; planning leaves it empty.
    recipients: models for which it releases.
    replaces: doomed pods, as `memory.Replaced` spells them: a `replace` asks for as many more beside them, any other
        kind takes their number back.
    grant: id of the node grant that it opens or withdraws, None where it does neither.
    node_pool: name of the NodePool or node group of that grant, None without one.
    floor: the model's floor in this plan, in replicas: the policy's as schedules and overrides leave it.
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
        return f"{self.model} {self.sentence}"

    @property
    def sentence(self) -> str:
        """What the model does and why, then its numbers: `gets 1 replica on n2: it has ... (3 -> 4)`."""
        moves = f" ({self.replicas_from} -> {self.replicas_to})" if self.replicas_from != self.replicas_to else ""
        return f"{self.reason}{moves}"


class NodePoolChange(Struct, frozen=True):
    """One write to a NodePool.

    id: cycle, NodePool and kind, joined by `-`.
    kind: `limit` (more GPUs may come), `restore-limit` (its own limit again), `hold` (Karpenter must not consolidate),
        `end-hold`.
    name: name of the NodePool.
    uid: its Kubernetes UID.
    pool: name of the pool that it is behind.
    resource: extended resource that a limit counts.
    reason: sentence that says why.
    limit_from: its limit now, in GPUs; None: unlimited, or no limit changes.
    limit_to: the limit it is to have, in GPUs; None as above.
    grant: id of the node grant for which nodes are to come, None without one.
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
        return f"nodepool/{self.name} {self.sentence}"

    @property
    def sentence(self) -> str:
        """What changes there and why: `GPU limit 2 -> 4: image is short of 2 replicas, ...`."""
        return f"{node_pool_words(self.kind, self.limit_from, self.limit_to)}: {self.reason}"


class DrainChange(Struct, frozen=True):
    """One write of a drain: to a node under notice, or to a replica on it.

    id: cycle, node or pod, and kind, joined by `-`.
    kind: `cordon`, `uncordon` (of what we cordoned), `evict` (as its disruption budgets allow), `delete` (in the last
        seconds before the deadline, whatever they say).
    node: name of the node.
    pool: name of the pool.
    reason: sentence that says why.
    model: id of the model of the replica; "" of a node.
    namespace: namespace of its pod; "" of a node.
    pod: name of its pod; "" of a node.
    uid: UID of its pod; "" of a node.
    grace_seconds: seconds that it still has to end; None: its own grace.
    floor: replicas of its model that must be Ready on nodes that stay, or it is left there; 0: its end waits for none.
    """

    id: str
    kind: str
    node: str
    pool: str
    reason: str
    model: str = ""
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    grace_seconds: int | None = None
    floor: int = 0

    def __str__(self) -> str:
        return f"{f'pod/{self.pod}' if self.pod else f'node/{self.node}'} {self.sentence}"

    @property
    def sentence(self) -> str:
        """What is done to it and why: `is evicted: n1 goes in 50 s ...`."""
        return f"{DRAIN_WORDS.get(self.kind, self.kind)}: {self.reason}"


class Refusal(Struct, frozen=True):
    """A move that a guard declined.

    guard: name of the guard.
    subject: model id, `nodepool/NAME` or `node/NAME`: a NodePool may well be called like the model that it is for.
    replicas_from: replicas before the move.
    replicas_to: replicas that it would have led to.
    why: sentence that says why.
    numbers: the numbers by which the guard decided.
    until: when the guard would let it pass if nothing else changes; None where that is unknown.
    """

    guard: str
    subject: str
    replicas_from: int
    replicas_to: int
    why: str
    numbers: dict[str, float | int | str | None] = {}
    until: Instant | None = None

    def __str__(self) -> str:
        return f"{self.subject} {self.sentence}"

    @property
    def about(self) -> str:
        """The object that a refusal is about which concerns no model: `nodepool/np`, `node/n1`.

        Journals name a NodePool also without its kind.
        """
        return self.subject if "/" in self.subject else f"nodepool/{self.subject}"

    @property
    def sentence(self) -> str:
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
    """Replicas that a model is short of: requests are late or will be, and would not be with these.

    model: id of the model.
    replicas: how many are missing.
    constraint: what they wait for: `budget`, `fit`, `nodes` (nobody brings any now), `quota`, `pause`, `freeze`,
        `override`, `schedule`, `maximum` (its maxReplicas), the name of a guard, or `waiting` (granted or being
        released, and not there yet).
    why: sentence that says so with names.
    since: since when the model is short.
    lateness: clause that says how late: its work on what it has, late requests until the horizon, latency over its SLO.
    """

    model: str
    replicas: int
    constraint: str
    why: str
    since: Instant
    lateness: str = ""


class ModelDecision(Struct, frozen=True):
    """Everything that a plan decides about one model, in replicas where no unit is named.

    model: id of the model.
    demand: replicas it needs; None where no vote is usable.
    allocation: replicas it is to have before guards.
    granted: replicas its targets ask for once the plan is written, without doomed ones.
    ready: Ready replicas, without doomed ones.
    loading: replicas that are neither Ready nor doomed.
    doomed: doomed replicas.
    floor: the policy's floor.
    surge: whether it is in a surge.
    lent: loans by others of GPUs that are its own.
    borrowed: loans of its own: replicas beyond its entitlement, those that are in use on nobody's GPUs included.
    why: the one thing to know about it, as a clause.
    steps: its explanation, stage by stage.
    headroom: replicas that it would use beyond those it has, as room for bursts or since a person or a schedule wants
        them, while its requests are in time; 0 where it is short.
    unowned: replicas among `borrowed` on GPUs of elastic pools: nobody owns those, so nobody lends them.
    """

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
    headroom: int = 0
    unowned: int = 0


class PoolDecision(Struct, frozen=True):
    """Where the GPUs of a pool are; owned, lent, loading, doomed, foreign, closed and free are all that its nodes have.

    pool: name of the pool.
    budget: GPUs that models may have there together; None where that is unknown.
    promised: GPUs that their targets ask for.
    owned: GPUs of Ready replicas that are not lent.
    lent: GPUs of Ready replicas that are borrowed.
    loading: GPUs of pods that are not Ready yet.
    doomed: GPUs of models on doomed nodes.
    foreign: GPUs of pods that belong to no model.
    free: GPUs that nobody holds, on nodes that receive pods.
    others: who holds those of no model, the most first.
    uncounted: why devices that its nodes offer do not count, a sentence for each reason.
    warm: GPUs of `free` that placeholders keep warm.
    preemptible: GPUs of `foreign` that a replica gets by preemption.
    nodes: what is known of who brings and removes its nodes, what warm GPUs cost, and which jobs are preemptible, each
        a sentence.
    closed: GPUs that nobody holds and nobody gets: their node is cordoned, not Ready, or under notice.
    """

    pool: str
    budget: int | None
    promised: int
    owned: int
    lent: int
    loading: int
    doomed: int
    foreign: int
    free: int
    others: tuple[Holder, ...] = ()
    uncounted: tuple[str, ...] = ()
    warm: int = 0
    preemptible: int = 0
    nodes: tuple[str, ...] = ()
    closed: int = 0


class OverrideState(Struct, frozen=True):
    """The effect of an override in this plan.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    phase: InForce, Superseded (a newer one counts), Refused (as far as it does not fit) or Expired.
    message: sentence that says what it did, or why it does nothing.
    """

    namespace: str
    name: str
    uid: str
    phase: str
    message: str


class Unplanned(Struct, frozen=True):
    """Pools that a plan leaves as they are, since a stage of planning failed on what is seen of them.

    pools: names of the pools, sorted; none of them shares models or elastic GPUs with a pool that is planned.
    models: ids of their models, sorted.
    error: what failed, as `KeyError: 'n1'`.
    """

    pools: tuple[str, ...]
    models: tuple[str, ...]
    error: str

    @property
    def why(self) -> str:
        """What failed, as a clause: `planning failed on pool a100 (KeyError: 'n1')`."""
        return f"planning failed on {'pool' if len(self.pools) == 1 else 'pools'} {listed(self.pools)} ({self.error})"


class Plan(Struct, frozen=True):
    """One cycle's answer.

    cycle: number of the cycle.
    at: instant of its snapshot.
    changes: writes to targets, in the order in which they go out.
    node_pools: writes to NodePools, which go out first.
    refusals: moves that guards declined, by guard and subject.
    unmet: who is short, by model.
    models: decisions by model, sorted by id.
    pools: where GPUs are by pool, sorted by name.
    overrides: what each override does.
    accounts: accounts of notices that are new or otherwise than in the plan before.
    drains: writes to nodes under notice and to replicas on them, after all other writes.
    unplanned: pools for which nothing is decided, left out where there are none.
    """

    cycle: int
    at: Instant
    changes: tuple[Change, ...] = ()
    node_pools: tuple[NodePoolChange, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    unmet: tuple[Unmet, ...] = ()
    models: tuple[ModelDecision, ...] = ()
    pools: tuple[PoolDecision, ...] = ()
    overrides: tuple[OverrideState, ...] = ()
    accounts: tuple[NoticeAccount, ...] = ()
    drains: tuple[DrainChange, ...] = ()
    unplanned: tuple[Unplanned, ...] | UnsetType = UNSET

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.changes and not self.node_pools and not self.drains


class Decision(Struct, frozen=True):
    """The answer of planning: `plan`, and `memory` for the plan after it."""

    plan: Plan
    memory: Memory
