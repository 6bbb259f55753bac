"""How long replicas take to start, by what was there already when they did."""

from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from rebalancer.domain.instant import Instant

# What was there: `image`: the node, and on it the image; `pull`: the node without the image; `node`: neither, the node
# came after the pod; `node-image`: so it did, and brought the image; `unknown`: nobody can tell. Of pods that wake an
# engine (`domain.dual_pods`): `hot`: one that slept on their GPUs; `warm`: a launcher; `cold`: nothing.
KINDS = ("image", "pull", "node", "node-image", "unknown", "hot", "warm", "cold")
SAID = {
    "image": "node and image were there",
    "pull": "the image was pulled",
    "node": "the node had to come",
    "node-image": "the node had to come, with the image on it",
    "unknown": "whether node and image were there before is not known",
    "hot": "an engine was woken",
    "warm": "a launcher was there",
    "cold": "neither launcher nor engine was there",
}
SET_UP_SECONDS = 60.0  # a node has a pod's volumes and network ready within seconds; a disk of a cloud takes up to 60 s
NOT_SET_UP = (
    "PodReadyToStartContainers is False: a volume, a Secret, a ConfigMap or the network is not there; kubectl describe"
    " pod says which"
)
ENOUGH = 3  # starts from which on their figures count more than the policy's `loadSeconds`
# Half of all starts are quicker: a figure for what is worth how much, where too long and too short cost alike.
MIDDLE = 0.5
# One start in ten is slower: a figure for what is promised for an instant, where a replica that is late is missing, and
# one that is early costs its GPUs for that while.
SLOW = 0.9


class MeasuredStart(Struct, frozen=True):
    """One start that was watched.

    pool: name of the pool, "" where an older version measured it.
    kind: one of `KINDS`.
    seconds: from the pod's creation to Ready; where it was made at a scheduling gate, from its getting a node.
    load_seconds: from its getting a node to Ready, or from its creation where nobody dates that; None where the node
        came after the pod and nobody dates when it was placed, or where an engine may have been asleep.
    at: when it was Ready.
    """

    pool: str
    kind: str
    seconds: float
    load_seconds: float | None
    at: Instant


class StartView(Struct, frozen=True):
    """The last starts of one kind in one pool, at most 20: how many, and how long from a pod's creation to Ready.

    pool: name of the pool.
    kind: one of `KINDS`.
    count: number of starts.
    median_seconds: half of them took at most so long.
    slow_seconds: nine of ten of them took at most so long.
    """

    pool: str
    kind: str
    count: int
    median_seconds: float
    slow_seconds: float


def quantile(seconds: Sequence[float], share: float) -> float:
    """The smallest of `seconds` that at least this share of them does not exceed (nearest rank).

    A value that was measured: between a wake of 4 s and a load of 180 s nothing ever took 92 s. Raises ValueError where
    there are none.
    """
    if not seconds:
        raise ValueError("a quantile of no starts")
    return sorted(seconds)[max(0, ceil(share * len(seconds)) - 1)]
