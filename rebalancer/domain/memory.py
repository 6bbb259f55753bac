"""What planning remembers from one plan to the next: it goes in, comes out, and checkpoints carry it over a restart."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from rebalancer.domain.account import NoticeAccount
from rebalancer.domain.instant import Instant


class Loss(Struct, frozen=True):
    """Replicas that a model lost by one write of ours.

    at: when it was written.
    replicas: how many replicas it lost.
    counts: the guard whose window they use up: `step`, `shift` or `exempt`.
    """

    at: Instant
    replicas: int
    counts: str


class Level(Struct, frozen=True):
    """Offered work of `work` replicas: the mean over the minute that ended at `at`."""

    at: Instant
    work: float


class Jump(Struct, frozen=True):
    """A jump of offered work that the guard `plausible` doubts, and the last one that proved true.

    since: when the first doubted sample was taken, None while nothing is doubted.
    least: the lowest offered work of the doubted samples, in replicas.
    confirmed: offered work of the last jump that proved true, in replicas; the measure of the next one for an hour.
    confirmed_at: when it proved true, None where none has within the last hour.
    """

    since: Instant | None = None
    least: float = 0.0
    confirmed: float = 0.0
    confirmed_at: Instant | None = None


class AskedSince(Struct, frozen=True):
    """An instant since which votes have asked for `replicas` or more, without a break."""

    since: Instant
    replicas: int


class Owed(Struct, frozen=True):
    """How many of its own replicas a model may claim before anybody gains, and what would change that number.

    replicas: replicas that it may claim, at most its entitlement.
    asks: for each higher number since when votes ask for it; ascending in replicas and in instants.
    lower_since: since when one replica less would be enough, None while it would not.
    """

    replicas: int
    asks: tuple[AskedSince, ...] = ()
    lower_since: Instant | None = None


class SilentModel(NamedTuple):
    """A model whose silence could be an outage's, and how many replicas its work kept busy before."""

    model: str
    work: float = 0.0


class Rose(NamedTuple):
    """A model whose last minute keeps `work` replicas busy, over means of up to 20 minutes of `usual`."""

    model: str
    work: float
    usual: float


class Outage(Struct, frozen=True):
    """Demand that fell at once in most models with work: something in front of them failed, they did not calm down.

    since: when the fall was seen.
    until: before this instant nothing is taken from the silent models.
    fell: number of models whose work fell suddenly.
    of: number of models that had work before.
    silent: the models that fell, by name; one whose work is back may be taken from again.
    source: the producer that reports all these models and may itself have failed; "" where every model is concerned.
    against: the model that rose meanwhile, so this is no outage and holds nobody back; None where none rose.
    """

    since: Instant
    until: Instant
    fell: int
    of: int
    silent: tuple[SilentModel, ...] = ()
    source: str = ""
    against: Rose | None = None


class Replaced(NamedTuple):
    """A doomed pod beside which we asked for a replacement; memory and changes spell it `POOL/TARGET/ASKED/POD`.

    It counts only while its target asks for as many `replicas`: somebody else's write, or one of ours that we do not
    know of, may have taken the pod's number back already.

    pool: name of the pool.
    target: UID of the target, "" where the spelling is older and has none.
    replicas: what the target asked for after the write.
    pod: UID of the doomed pod.
    """

    pool: str
    target: str
    replicas: int
    pod: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.target}/{self.replicas}/{self.pod}"

    @classmethod
    def of(cls, text: str) -> "Replaced":
        """The entry that `text` spells; a spelling without target and number gives one that never counts."""
        pool, _, rest = text.partition("/")
        target, _, rest = rest.partition("/")
        replicas, _, pod = rest.partition("/")
        return (
            cls(pool, target, int(replicas), pod) if pod and replicas.isdecimal() else cls(pool, "", -1, rest or target)
        )

    @classmethod
    def pods(cls, texts: Iterable[str]) -> set[str]:
        """UIDs of the doomed pods of the entries that `texts` spell."""
        return {cls.of(text).pod for text in texts}


class WaitingSince(Struct, frozen=True):
    """Requests that wait, of those that came from `since` on until the next of these began."""

    since: Instant
    requests: float


class Waiting(Struct, frozen=True):
    """Requests that wait for a model with a deadline, as seen at `at`: `groups` by when they came, oldest first."""

    at: Instant
    groups: tuple[WaitingSince, ...] = ()


class ModelMemory(Struct, frozen=True, omit_defaults=True):
    """One plan's memory of a model for the next.

    demand: replicas of the demand in force, which falls only after a cooldown; None before the first and where a start
        made it unknown.
    higher_since: since when votes ask for more than the demand in force, None while they do not.
    surge_since: since when the model is in a surge, None while it is not.
    calm_since: since when its short window is below the leave ratio of a surge, or unknown; None while it is neither.
    lower_since: since when its votes ask for fewer replicas than the demand in force, None while they do not.
    lower_peak: the most replicas that its votes asked for since `lower_since`.
    last_move_at: when a write of ours last gave it or took from it a replica, None before the first.
    unmet_since: since when it has fewer replicas than it needs, None while it has enough.
    losses: replicas that it lost by our writes, within the guards' longest window; oldest first.
    replaced: doomed pods beside which we asked for a replacement, each as `Replaced` spells it.
    levels: its offered work within the window of the guard `sudden`, oldest first.
    falls: when its work fell suddenly by itself, the last two at most, oldest first.
    jump: a jump of its work that the guard `plausible` remembers, None where there is none.
    deferred_since: since when a batch model has had fewer replicas than it needs, None while it has not.
    owed: replicas of its own that it may claim; None before it has an outlook, and by votes before it is less than all.
    begun_anew: whether a start has made the demand in force unknown.
    gave_at: when it last gave a replica, doomed ones not counted; None before the first, and where that one went to a
        surge; after a start with gaps, the start.
    spare_since: since when its share is below the replicas it has, None while it is not.
    swung: how often since its last surge it gave a replica, got one and gave it again.
    got_again: whether it was granted a replica since it last gave one.
    waiting: requests that wait for a batch model by the time they came; None: nobody counts them or it has no deadline.
    """

    demand: int | None = None
    higher_since: Instant | None = None
    surge_since: Instant | None = None
    calm_since: Instant | None = None
    lower_since: Instant | None = None
    lower_peak: int = 0
    last_move_at: Instant | None = None
    unmet_since: Instant | None = None
    losses: tuple[Loss, ...] = ()
    replaced: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
    falls: tuple[Instant, ...] = ()
    jump: Jump | None = None
    deferred_since: Instant | None = None
    owed: Owed | None = None
    begun_anew: bool = False
    gave_at: Instant | None = None
    spare_since: Instant | None = None
    swung: int = 0
    got_again: bool = False
    waiting: Waiting | None = None


class Loan(Struct, frozen=True):
    """One replica that a model has beyond its entitlement, with the owner to whom its GPUs are booked.

    Worked example: chat owns 4 replicas of 2 GPUs on gpu-a and uses 3, code owns 2 replicas of 2 GPUs there and has 3.
    One loan stands: borrower code, owner chat, pool gpu-a, 2 GPUs. When chat claims its fourth replica, code is the one
    to release.

    borrower: id of the model that has the replica.
    owner: id of the model that does not use these GPUs; None: nobody's, as on an elastic pool.
    pool: name of the pool.
    gpus: GPUs of the replica.
    at: since when it is borrowed; the borrower's last loan on a pool ends first.
    """

    borrower: str
    owner: str | None
    pool: str
    gpus: int
    at: Instant


class Shift(Struct, frozen=True):
    """Donors release, then a recipient is granted, until the last granted replica is Ready.

    id: `s`, the cycle that opened it, the recipient and the pool, joined by `-`.
    pool: name of the pool whose GPUs move.
    recipient: id of the model that is to have them.
    donors: ids of the models that released for it, sorted.
    replicas: replicas released for it.
    opened_at: when its first release was written.
    node_pools: names of NodePools; planning leaves it empty.
    released_at: when its first release was written; None in older memory alone.
    granted_at: when the recipient's raise was written, None before that.
    """

    id: str
    pool: str
    recipient: str
    donors: tuple[str, ...]
    replicas: int
    opened_at: Instant
    node_pools: tuple[str, ...] = ()
    released_at: Instant | None = None
    granted_at: Instant | None = None


class NodeGrant(Struct, frozen=True, omit_defaults=True):
    """Replicas granted beyond the free GPUs of a pool, into nodes that Karpenter or Cluster Autoscaler is to bring.

    id: names the grant in changes and intents.
    model: id of the model.
    pool: name of the pool.
    node_pool: name of the NodePool that is to bring the nodes, or of the node group as the policy has it.
    replicas: replicas granted.
    gpus: GPUs that these replicas, or others of the pool in their place, still wait for.
    asked_at: when the raise was written.
    until: when it ends if no node has come.
    limit_due: whether its NodePool's limit is not known to be raised for it: it is asked for again while it is missing.
    limit_error: why the last try to raise it failed or was refused; "" where none was made, or it was written.
    """

    id: str
    model: str
    pool: str
    node_pool: str
    replicas: int
    gpus: int
    asked_at: Instant
    until: Instant
    limit_due: bool = False
    limit_error: str = ""


class GrantFailure(Struct, frozen=True):
    """A node grant that brought nothing, so its NodePool or node group rests; remembered for a while after that.

    A rest is twice as long as the one before unless a node has come meanwhile.

    node_pool: name of the NodePool or node group.
    until: when the rest ends; before it no node is asked of it.
    why: sentence that says why the grant was withdrawn.
    rest_seconds: length of the rest, in seconds.
    """

    node_pool: str
    until: Instant
    why: str
    rest_seconds: float = 0.0


class Decided(Struct, frozen=True):
    """Replicas of a model, or on the nodes of a drain, when an override came into force.

    uid: UID of the override.
    at: when it came into force.
    replicas: replicas of the model then, or on the drained nodes.
    """

    uid: str
    at: Instant
    replicas: int


class Memory(Struct, frozen=True, omit_defaults=True):
    """One plan's memory for the next; tuples are in the order of their instants unless a field says otherwise.

    models: memory of each model, by id.
    loans: replicas beyond entitlement, in the order in which they were borrowed.
    shifts: shifts under way.
    node_grants: node grants whose GPUs are still to come.
    grant_failures: NodePools that rest, or have rested lately.
    overrides: overrides that came into force, by UID.
    unknown_before: a start that does not know all writes before it, so guards' windows that reach back there count as
        used up; None where all are known.
    resumed_at: a start that knows the writes before it but not since when votes ask for fewer; None where that is
        known.
    outages: sudden falls of demand that still count, by `source`.
    accounts: notices as they went: those that stand, and those of the last hour.
    """

    models: dict[str, ModelMemory] = {}
    loans: tuple[Loan, ...] = ()
    shifts: tuple[Shift, ...] = ()
    node_grants: tuple[NodeGrant, ...] = ()
    grant_failures: tuple[GrantFailure, ...] = ()
    overrides: tuple[Decided, ...] = ()
    unknown_before: Instant | None = None
    resumed_at: Instant | None = None
    outages: tuple[Outage, ...] = ()
    accounts: tuple[NoticeAccount, ...] = ()
