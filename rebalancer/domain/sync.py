"""What a snapshot rests on: whether all sources are listed and fresh, and what of them could not be looked at."""

from msgspec import Struct

from rebalancer.domain.cluster import CLOCK
from rebalancer.domain.instant import Instant


class Sync(Struct, frozen=True):
    """Whether the snapshot rests on whole lists; it does where `missing` and `stale` are empty.

    missing: sources whose objects have never been listed.
    stale: sources that were listed once and are silent now; `clock` where our clock and the API server's differ.
    synced_at: when every source had been listed for the first time, None before that.
    """

    missing: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    synced_at: Instant | None = None

    @property
    def clock_is_off(self) -> bool:
        """Whether our clock and the API server's differ: then no instant that others announced is known to be near."""
        return CLOCK in self.stale

    @property
    def silent(self) -> tuple[str, ...]:
        """The sources of `stale` that others speak through."""
        return tuple(source for source in self.stale if source != CLOCK)

    @property
    def sees_replicas(self) -> bool:
        """Whether pods and targets were ever listed: before that, having seen no replica is not having none."""
        return not {"pods", "deployments"} & {*self.missing}


class Unseen(Struct, frozen=True):
    """A model or a pool that could not be looked at, by a defect of ours or by a fact that nobody foresaw.

    kind: `model` or `pool`.
    name: id of the model, or name of the pool in the policy.
    pools: names of the model's pools, or of the pool itself: of these too little is known for any write.
    why: what went wrong, and where in the code.
    """

    kind: str
    name: str
    pools: tuple[str, ...]
    why: str
