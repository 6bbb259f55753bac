"""What planning must not forget from one cycle to the next; goes in, comes out, is kept in the `state` topic."""

from typing import NamedTuple

from msgspec import Struct

from rebalancer.domain.instant import Instant


class Loss(Struct, frozen=True):
    """Replicas a model lost by a write of ours, and the guard window it used up (`step`, `shift`, or `exempt`)."""

    at: Instant
    replicas: int
    counts: str


class Level(Struct, frozen=True):
    """Offered work of `work` replicas, a mean over the minute that ended at `at`."""

    at: Instant
    work: float


class Jump(Struct, frozen=True):
    """Samples of work far beyond what is usual: `since` the first (None: none now), `least` replicas in the lowest.

    `confirmed`: replicas in the last jump that turned out to be one, at `confirmed_at`.
    """

    since: Instant | None = None
    least: float = 0.0
    confirmed: float = 0.0
    confirmed_at: Instant | None = None


class Ask(Struct, frozen=True):
    """Votes have asked for `replicas` or more since then."""

    since: Instant
    replicas: int


class Owed(Struct, frozen=True):
    """How many of its own replicas a model may claim before anybody gains, and what would change that.

    `asks`: what votes ask for beyond them, ascending. `lower_since`: one less would do since then.
    """

    replicas: int
    asks: tuple[Ask, ...] = ()
    lower_since: Instant | None = None


class Silent(NamedTuple):
    """A model whose silence could be an outage's, and how many replicas its work kept busy before."""

    model: str
    work: float = 0.0


class Rose(NamedTuple):
    """A model whose last minute keeps `work` replicas busy, over means of up to 20 minutes of `usual`."""

    model: str
    work: float
    usual: float


class Outage(Struct, frozen=True):
    """Demand fell at once, at `since`, in `fell` of the `of` models that had any.

    `source`: the producer that tells of all of them, and may be what fails; "" where it is what is in front of every
    model. Before `until` nothing is taken from those who are `silent`, by name, unless their work is back. `against`:
    who rose meanwhile; then it is no outage, nobody is held, and it is kept to be told.
    """

    since: Instant
    until: Instant
    fell: int
    of: int
    silent: tuple[Silent, ...] = ()
    source: str = ""
    against: Rose | None = None


class Replaced(NamedTuple):
    """A doomed pod beside which a replacement was asked: as memory and changes spell it, `POOL/TARGET/ASKED/POD`.

    `target` and `pod` are UIDs. It is believed only while that target is asked for `asked` replicas: what somebody else
    wrote, or we wrote and do not know of, may have taken the pod's number back already.
    """

    pool: str
    target: str
    asked: int
    pod: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.target}/{self.asked}/{self.pod}"

    @classmethod
    def of(cls, text: str) -> "Replaced":
        """What `text` spells; one that does not say of which target and number it is, is never believed."""
        pool, _, rest = text.partition("/")
        target, _, rest = rest.partition("/")
        asked, _, pod = rest.partition("/")
        return cls(pool, target, int(asked), pod) if pod and asked.isdecimal() else cls(pool, "", -1, rest or target)


class WaitingSince(Struct, frozen=True):
    """Requests that wait, of those that came from `since` on until the next of these began."""

    since: Instant
    requests: float


class Waiting(Struct, frozen=True):
    """What waits of a model whose requests have a deadline, as a look at `at` found it: the oldest first."""

    at: Instant
    groups: tuple[WaitingSince, ...] = ()


class ModelMemory(Struct, frozen=True, omit_defaults=True):
    """One model's past.

    `demand`: the demand in force (falls only after a cooldown). `higher_since`: votes above what it has since.
    `replaced`: doomed pods beside which a replacement was asked, each as `Replaced`. `surge_since`: in surge from then
    on (None: not); `calm_since`: below the leave ratio since. `lower_since`: its votes have asked for fewer than it has
    since then, `lower_peak` the most they asked for meanwhile.
    `unmet_since`: short since. `levels`: what was offered lately, and `falls`: when that fell suddenly by itself, both
    oldest first (guard `sudden`). `jump`: one that the guard `plausible` looks at. `deferred_since`: a batch model that
    has fewer replicas than it needs since then. `owed`: of a model with an outlook, what it may claim as its own.
    `begun_anew`: what demand was in force is unknown since a start. `gave_at`: when it last gave a replica
    away; `spare_since`: its share has been below what it has since then. `waiting`: what
    waits of a batch model, by when it came; None: nobody knows, or it has no deadline.
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
    waiting: Waiting | None = None


class Loan(Struct, frozen=True):
    """One replica of `borrower` beyond its entitlement on `pool`, its GPUs booked to `owner` (None: nobody's)."""

    borrower: str
    owner: str | None
    pool: str
    gpus: int
    at: Instant


class Shift(Struct, frozen=True):
    """Release by donors, then grant to a recipient, until the last granted replica is Ready.

    `released_at`: the first release was written; `granted_at`: the recipient's raise was written.
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


class NodeGrant(Struct, frozen=True):
    """Replicas granted past the free GPUs of `pool`, into nodes that `node_pool` is to bring until `until`."""

    id: str
    model: str
    pool: str
    node_pool: str
    replicas: int
    gpus: int
    asked_at: Instant
    until: Instant


class GrantFailure(Struct, frozen=True):
    """A node grant that brought nothing: `node_pool` rests so long, and is not asked again before `until`.

    It is remembered for some time after that: the next rest is longer unless a node has come meanwhile.
    """

    node_pool: str
    until: Instant
    why: str
    rest_seconds: float = 0.0


class Decided(Struct, frozen=True):
    """An override came into force at `at`, when its model had (its nodes held) so many replicas."""

    uid: str
    at: Instant
    replicas: int


class Memory(Struct, frozen=True, omit_defaults=True):
    """All of it. Tuples are in order of their instants, `overrides` by UID, `outages` by source (guard `sudden`).

    `unknown_before`: a start that does not know all that was written before it; guards' windows that reach back there
    count as used up (None: all is known). `resumed_at`: a start that knows the writes before it, but not how long votes
    had asked for less (None: this memory is of the cycle before).
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
